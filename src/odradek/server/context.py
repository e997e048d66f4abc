"""What is known about a request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError
from odradek.security.principal import ANONYMOUS, Principal
from odradek.security.resources import CLUSTER_NAME

if TYPE_CHECKING:
    from odradek.handlers.access import Check
    from odradek.server.services import Services


class RequestContext:
    """One request on its way through the house.

    `listener_scope` is "broker" or "controller" (handlers.scopes); `received_at` is `clock.monotonic()` when its last byte was there.
    For a `forwarded` request, one that came in an Envelope, principal, host and client id are those of the client.
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
        self.services = services

    def allows(self, check: Check, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this to the resource; everybody may do everything where there is no authorizer."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(self.principal, self.peer_host, check.operation, check.resource, name)

    def require(self, check: Check, name: str = CLUSTER_NAME) -> None:
        """KafkaError with the check's error where the client may not."""
        if not self.allows(check, name):
            raise KafkaError(check.error)
