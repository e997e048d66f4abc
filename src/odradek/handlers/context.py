"""Facts about a request besides its body."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from odradek.base.errors import KafkaError
from odradek.protocol.api_keys import ApiKey
from odradek.security.principal import ANONYMOUS, Principal
from odradek.security.resources import CLUSTER_NAME

if TYPE_CHECKING:
    from odradek.handlers.access import Check
    from odradek.handlers.services import Services
    from odradek.metrics.requests import Measured
    from odradek.network.chunks import Answer
    from odradek.network.connection import Connection
    from odradek.protocol.schema import Message


AUDIT_LOGGER: Final = "kafka.authorizer.logger"
"""Logger of denied (INFO) and allowed (DEBUG) access; the name is that of Kafka's logger configurations."""

_audit = logging.getLogger(AUDIT_LOGGER)
_NOTHING: Final[frozenset[str]] = frozenset()


class Meter(Protocol):
    """Use of a client's quotas by one request (`server.requests.throttling`)."""

    exempt: bool

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def most_to_fetch(self) -> float: ...

    def produced(self, acks: int) -> int: ...

    def fetched(self, size: int) -> int: ...

    def counter(self) -> Callable[[int], None] | None: ...

    def answer(self, response: Message) -> None: ...

    def forwarded(self, context: RequestContext, answer: Answer) -> Answer: ...


class RequestContext:
    """Context of one request while the node serves it.

    `listener_scope` is "broker" or "controller" (handlers.scopes). `received_at` is `clock.monotonic()` when the last byte of the request
    arrived. For a `forwarded` request, received in an Envelope, principal, host and client id are the client's.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "connection_id",
        "correlation_id",
        "forwarded",
        "listener_name",
        "listener_scope",
        "measured",
        "meter",
        "peer_host",
        "principal",
        "received_at",
        "services",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection_id: str,
        listener_name: str,
        listener_scope: str,
        peer_host: str,
        received_at: float,
        services: Services,
        principal: Principal = ANONYMOUS,
        forwarded: bool = False,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.listener_scope = listener_scope
        self.peer_host = peer_host
        self.principal = principal
        self.forwarded = forwarded
        self.received_at = received_at
        self.measured: Measured | None = None
        """Counters of the request's API; None until the API is known."""
        self.services = services
        self.connection: Connection | None = None
        """Connection of the response; None for a request without its own socket."""
        self.meter: Meter | None = None
        """Use of the client's quotas by the request; None while no client has a quota."""

    def of(self, api_key: int, api_version: int) -> RequestContext:
        """Return the context of another request of the same client."""
        return RequestContext(
            api_key,
            api_version,
            self.correlation_id,
            self.client_id,
            self.connection_id,
            self.listener_name,
            self.listener_scope,
            self.peer_host,
            self.received_at,
            self.services,
            self.principal,
            self.forwarded,
        )

    def allows(self, check: Check, name: str = CLUSTER_NAME, *, count: int = 1) -> bool:
        """Return whether the client may perform the check's operation on the resource; always true without an authorizer.

        `count`: how often the request names the resource, for the audit log.
        """
        authorizer = self.services.authorizer
        if authorizer is None:
            return True
        allowed = authorizer.allows(self.principal, self.peer_host, check.operation, check.resource, name)
        if _audit.isEnabledFor(logging.DEBUG if allowed else logging.INFO) and (allowed or not check.quiet):
            audit = self.services.audit
            if audit is not None:
                audit.note(self, check, name, allowed=allowed, count=count)
        return allowed

    def allows_any(self, check: Check) -> bool:
        """Return whether the client may perform the check's operation on any resource of the check's type."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows_any(self.principal, self.peer_host, check.operation, check.resource)

    def denied(self, check: Check, names: Iterable[str]) -> frozenset[str]:
        """Return the resources on which the client may not perform the check's operation. A resource that is named several times is checked
        once.
        """
        if self.services.authorizer is None:
            return _NOTHING
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return frozenset([name for name, count in counts.items() if not self.allows(check, name, count=count)])

    def require(self, check: Check, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError with the check's error when the client may not perform the check's operation on the resource."""
        if not self.allows(check, name):
            raise KafkaError(check.error, self._needs(check) if check.explained else None)

    def _needs(self, check: Check) -> str:
        return f"Request {ApiKey(self.api_key).name} of {self.principal} needs {check.operation.name} permission."
