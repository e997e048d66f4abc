"""Access control entries and the filters that select entries (org.apache.kafka.common.acl, KIP-140, KIP-290).

Types, operations and permissions are plain numbers, as in messages and records, because an entry may contain a code that this release does
not know.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.security.resources import WILDCARD, Operation, PatternType, PermissionType, ResourceType


class AccessControlEntry(NamedTuple):
    """Permission or prohibition of an operation on the resources of a pattern, for a principal and a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """Text such as "User:alice"; "User:*" for every principal."""
    host: str
    """Address as written by the ACL's author, compared by `base.addresses.host_address`; "*" for all hosts."""
    operation: int
    permission_type: int

    def __str__(self) -> str:
        """Return the text of Kafka's StandardAcl, which the audit log contains."""
        return (
            f"StandardAcl(resourceType={_name(ResourceType, self.resource_type)}, resourceName={self.resource_name}, "
            f"patternType={_name(PatternType, self.pattern_type)}, principal={self.principal}, host={self.host}, "
            f"operation={_name(Operation, self.operation)}, permissionType={_name(PermissionType, self.permission_type)})"
        )


class AclFilter(NamedTuple):
    """Filter of entries; None and the code ANY match every value (org.apache.kafka.common.acl.AclBindingFilter)."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, entry: AccessControlEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self._matches_pattern(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission_type in (PermissionType.ANY, entry.permission_type)
        )

    def _matches_pattern(self, entry: AccessControlEntry) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
            return False
        if name is None:
            return True
        if wanted != PatternType.MATCH:
            return name == entry.resource_name
        if entry.pattern_type == PatternType.PREFIXED:
            return name.startswith(entry.resource_name)
        return entry.resource_name in (name, WILDCARD)


def _name(kind: type[ResourceType | PatternType | Operation | PermissionType], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return "UNKNOWN"
