"""Interface of access decisions (org.apache.kafka.server.authorizer.Authorizer)."""

from __future__ import annotations

from typing import Protocol

from odradek.security.principal import Principal
from odradek.security.resources import Operation, ResourceType


class Authorizer(Protocol):
    """Authorizer that decides from state in memory: a call neither waits nor does IO."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return whether the principal may do the operation on the resource from the address `host`."""
        ...

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return whether the principal may do the operation on any resource of the type (authorizeByResourceType)."""
        ...
