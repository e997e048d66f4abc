"""How an API module says what it serves.

A module under `handlers/` decorates one plain function per listener scope:

    @handler(ApiKey.LIST_OFFSETS, versions=(1, 11), listeners=(BROKER,))
    def handle(context: RequestContext, request: ListOffsetsRequest, services: Services) -> ListOffsetsResponse: ...

    def error_response(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse: ...

- The function returns the response, a `Deferred` of it, or None where the protocol wants no answer (Produce with acks=0).
- It may raise `KafkaError`; the dispatcher answers with the module's `error_response`. A module without one gets the generic form: the
  response's own `error_code` (and `error_message`) are set; where the response has no such field the connection is closed.
- Any other exception is logged with its traceback and answered as UNKNOWN_SERVER_ERROR through the same path.
- `forwarded=True` (with listeners=(CONTROLLER,)): the API also stands on the broker listeners, where the dispatcher wraps the request in an
  Envelope and sends it to the active controller (KIP-590). The function itself only ever runs on the controller.

The same facts stand in `handlers.table`, which is read without importing the modules; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from odradek.protocol.api_keys import ApiKey

BROKER = "broker"
CONTROLLER = "controller"
"""Listener scopes: a client-facing or inter-broker listener, and a controller listener."""

TO_CONTROLLER = -1
"""Destination of a request through `services.channel`: whoever is the active controller."""

HandlerFunction = Callable[..., object]
F = TypeVar("F", bound=HandlerFunction)


class Registration:
    """One function and what it serves; versions are inclusive."""

    __slots__ = ("advertised_from", "api_key", "forwarded", "function", "listeners", "max_version", "min_version")

    def __init__(
        self,
        api_key: ApiKey,
        min_version: int,
        max_version: int,
        listeners: tuple[str, ...],
        *,
        forwarded: bool,
        advertised_from: int,
        function: HandlerFunction,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.listeners = listeners
        self.forwarded = forwarded
        self.advertised_from = advertised_from
        self.function = function


REGISTRATIONS: dict[tuple[ApiKey, str], Registration] = {}
"""Filled as handler modules are imported: (key, listener scope) -> registration."""


def handler(
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    listeners: tuple[str, ...],
    forwarded: bool = False,
    advertised_from: int | None = None,
) -> Callable[[F], F]:
    """Registers the decorated function for `versions` (both inclusive) of `api_key` on the listener scopes.

    `advertised_from` is the first version that ApiVersions names where that is lower than what is served (only Produce, for librdkafka).
    RuntimeError when another function already serves the key on one of the scopes.
    """
    min_version, max_version = versions

    def register(function: F) -> F:
        registration = Registration(
            api_key,
            min_version,
            max_version,
            listeners,
            forwarded=forwarded,
            advertised_from=min_version if advertised_from is None else advertised_from,
            function=function,
        )
        for listener in listeners:
            other = REGISTRATIONS.get((api_key, listener))
            if other is not None and other.function.__module__ != function.__module__:
                raise RuntimeError(
                    f"{api_key.name} on {listener} listeners is served by both {other.function.__module__} and {function.__module__}"
                )
            REGISTRATIONS[(api_key, listener)] = registration
        return function

    return register
