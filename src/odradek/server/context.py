"""What is known about a request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.server.services import Services

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection that has not authenticated (KafkaPrincipal.ANONYMOUS)."""


class RequestContext:
    """One request on its way through the house.

    `listener_scope` is "broker" or "controller" (handlers.scopes); `received_at` is `clock.monotonic()` when its last byte was there.
    `principal` is Kafka's text form, e.g. "User:ANONYMOUS". For a `forwarded` request, one that came in an Envelope, principal, host and
    client id are those of the client.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection_id",
        "correlation_id",
        "forwarded",
        "listener_name",
        "listener_scope",
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
        principal: str = ANONYMOUS,
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
        self.services = services
