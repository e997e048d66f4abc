"""Index of all ACLs of a cluster, which finds the few ACLs that match a question.

    resource type -> literal name, or prefix -> (principal, host) -> operations that these ACLs allow and deny, as bits

A question looks up the resource's name, "*", and the beginnings of the name in each length that a prefix has. For each of these patterns
four pairs are looked up: {the principal, User:*} times {its host, *}. Adding or removing an ACL costs the same few look-ups.

Hosts are compared as addresses (`base.addresses`): an ACL of `::1` and an ACL of `0:0:0:0:0:0:0:1` apply to the same host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from odradek.base.addresses import host_address
from odradek.security.acls import AccessControlEntry
from odradek.security.resources import WILDCARD, Operation, PatternType, PermissionType

EVERYBODY: Final = "User:*"
"""Principal of ACLs that apply to all principals of every kind."""

Key = tuple[str, str]
"""(principal as in the ACL, host in the form of `host_address`)."""
Pattern = tuple[int, str]
"""(pattern type, name)."""

_BITS: Final = {int(operation): 1 << operation for operation in Operation}
"""Bit of each operation. An unknown code counts as UNKNOWN (bit 0), which no request asks for."""
_ALL: Final = 1 << Operation.ALL
_DENY_BITS: Final = tuple(1 << operation | _ALL for operation in range(32))
"""Operation -> bits of the ACL operations that deny the operation."""


def _allow_bits(operation: int) -> int:
    bits = _DENY_BITS[operation]
    if operation == Operation.DESCRIBE:
        bits |= 1 << Operation.READ | 1 << Operation.WRITE | 1 << Operation.DELETE | 1 << Operation.ALTER
    elif operation == Operation.DESCRIBE_CONFIGS:
        bits |= 1 << Operation.ALTER_CONFIGS
    return bits


_ALLOW_BITS: Final = tuple(map(_allow_bits, range(32)))
"""Operation -> bits of the ACL operations that allow the operation: a permission to change a resource implies DESCRIBE."""


class Cell:
    """ACLs of one pattern, principal and host."""

    __slots__ = ("allowed", "counts", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        """Bit n stands for the operation with code n; `denied` likewise."""
        self.denied = 0
        self.counts: dict[tuple[int, int], int] = {}
        """(operation, permission) -> number of ACLs; the metadata may contain an ACL twice."""

    def add(self, operation: int, permission: int) -> None:
        self.counts[(operation, permission)] = self.counts.get((operation, permission), 0) + 1
        if permission == PermissionType.ALLOW:
            self.allowed |= _BITS.get(operation, 1)
        else:
            self.denied |= _BITS.get(operation, 1)

    def remove(self, operation: int, permission: int) -> None:
        left = self.counts[(operation, permission)] - 1
        if left:
            self.counts[(operation, permission)] = left
            return
        del self.counts[(operation, permission)]
        self.allowed = self.denied = 0
        for other, kind in self.counts:
            if kind == PermissionType.ALLOW:
                self.allowed |= _BITS.get(other, 1)
            else:
                self.denied |= _BITS.get(other, 1)


class Decision(NamedTuple):
    """Answer of the ACLs to a question. When no ACL applies to principal, host and operation, `allowed` and `denied` are both False."""

    allowed: bool
    denied: bool
    any_acl: bool
    """Whether the resource has any ACL, for any principal."""


class AclIndex:
    """ACLs by resource."""

    __slots__ = ("_by_key", "_by_type", "_count", "_lengths")

    def __init__(self, entries: Iterable[AccessControlEntry] = ()) -> None:
        self._by_type: dict[int, dict[Pattern, dict[Key, Cell]]] = {}
        self._lengths: dict[int, dict[int, int]] = {}
        """Resource type -> prefix length -> number of prefixes of that length."""
        self._by_key: dict[int, dict[Key, dict[Pattern, Cell]]] = {}
        """The cells of `_by_type` by principal and host."""
        self._count = 0
        for entry in entries:
            self.add(entry)

    @property
    def size(self) -> int:
        """Number of entries in all tables."""
        return len(self) + sum(map(len, self._by_type.values())) + sum(map(len, self._lengths.values()))

    def __len__(self) -> int:
        return self._count

    def add(self, entry: AccessControlEntry) -> None:
        kind, name, pattern_type, principal, host, operation, permission = entry
        patterns = self._by_type.get(kind)
        if patterns is None:
            patterns = self._by_type[kind] = {}
        pattern, key = (pattern_type, name), (principal, host_address(host))
        cells = patterns.get(pattern)
        if cells is None:
            cells = patterns[pattern] = {}
            if pattern_type == PatternType.PREFIXED:
                lengths = self._lengths.setdefault(kind, {})
                lengths[len(name)] = lengths.get(len(name), 0) + 1
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell()
            self._by_key.setdefault(kind, {}).setdefault(key, {})[pattern] = cell
        cell.add(operation, permission)
        self._count += 1

    def remove(self, entry: AccessControlEntry) -> None:
        """Remove an ACL. Raises KeyError for an unknown ACL."""
        kind, name, pattern_type, principal, host, operation, permission = entry
        pattern, key = (pattern_type, name), (principal, host_address(host))
        cells = self._by_type[kind][pattern]
        cell = cells[key]
        cell.remove(operation, permission)
        self._count -= 1
        if cell.counts:
            return
        del cells[key]
        by_key = self._by_key[kind]
        del by_key[key][pattern]
        if not by_key[key]:
            del by_key[key]
        if cells:
            return
        del self._by_type[kind][pattern]
        if pattern_type == PatternType.PREFIXED:
            lengths = self._lengths[kind]
            lengths[len(name)] -= 1
            if not lengths[len(name)]:
                del lengths[len(name)]

    def matching(self, resource_type: int, name: str) -> Iterator[tuple[Pattern, dict[Key, Cell]]]:
        """Yield each pattern that matches the resource, with the ACLs of that pattern."""
        patterns = self._by_type.get(resource_type)
        if patterns is None:
            return
        pattern = (int(PatternType.LITERAL), name)
        cells = patterns.get(pattern)
        if cells is not None:
            yield pattern, cells
        # The ACLs of "*" do not apply to a resource whose name begins with "*"; Kafka 4.3.1 behaves the same.
        if not name.startswith(WILDCARD):
            cells = patterns.get(_EVERY_RESOURCE)
            if cells is not None:
                yield _EVERY_RESOURCE, cells
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                pattern = (int(PatternType.PREFIXED), name[:length])
                cells = patterns.get(pattern)
                if cells is not None:
                    yield pattern, cells

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Decision:
        """Return what the matching ACLs allow and deny. The caller lets a denial take precedence."""
        keys = _keys(principal, host)
        allowed = denied = 0
        any_acl = False
        for _, cells in self.matching(resource_type, name):
            any_acl = True
            for key in keys:
                cell = cells.get(key)
                if cell is not None:
                    allowed |= cell.allowed
                    denied |= cell.denied
        return Decision(bool(allowed & _ALLOW_BITS[operation]), bool(denied & _DENY_BITS[operation]), any_acl)

    def explain(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> AccessControlEntry | None:
        """Return an ACL that decides the question, a denying ACL first; None without a matching ACL."""
        best: AccessControlEntry | None = None
        for (pattern_type, pattern_name), cells in self.matching(resource_type, name):
            for key in _keys(principal, host):
                cell = cells.get(key)
                for said, permission in () if cell is None else cell.counts:
                    denies = permission != PermissionType.ALLOW
                    if not _BITS.get(said, 1) & (_DENY_BITS if denies else _ALLOW_BITS)[operation]:
                        continue
                    found = AccessControlEntry(resource_type, pattern_name, pattern_type, *key, said, permission)
                    if denies:
                        return found
                    best = best or found
        return best

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether an ACL allows the operation on a resource that no denial covers (Authorizer.authorizeByResourceType).

        Implied operations do not count here.
        """
        by_key = self._by_key.get(resource_type)
        if by_key is None:
            return False
        bits = _DENY_BITS[operation]
        tables = [table for table in map(by_key.get, _keys(principal, host)) if table is not None]
        denials = {pattern for table in tables for pattern, cell in table.items() if cell.denied & bits}
        if _EVERY_RESOURCE in denials:
            return False
        return any(
            pattern == _EVERY_RESOURCE or not _is_denied(pattern, denials)
            for table in tables
            for pattern, cell in table.items()
            if cell.allowed & bits
        )


_EVERY_RESOURCE: Final[Pattern] = (int(PatternType.LITERAL), WILDCARD)


def _keys(principal: str, host: str) -> tuple[Key, Key, Key, Key]:
    host = host_address(host)
    return (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)


def _is_denied(pattern: Pattern, denials: set[Pattern]) -> bool:
    if not denials:
        return False
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denials:
        return True
    prefixed = int(PatternType.PREFIXED)
    return any((prefixed, name[:length]) in denials for length in range(1, len(name) + 1))
