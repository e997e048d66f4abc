"""What decides about access (org.apache.kafka.server.authorizer.Authorizer)."""

from __future__ import annotations

from typing import Protocol

from odradek.security.principal import Principal
from odradek.security.resources import Operation, ResourceType


class Authorizer(Protocol):
    """Decides from what it knows; asks nobody and does not wait."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Whether the principal, from that address, may do this to the resource."""
        ...

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Whether there is any resource of the type that the principal may do this to (authorizeByResourceType)."""
        ...
