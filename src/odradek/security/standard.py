"""Kafka's default authorizer: super users, ACLs, and the default without ACLs (org.apache.kafka.metadata.authorizer.StandardAuthorizer).

The first rule that applies decides:

 1. A super user is allowed.
 2. A matching ACL that denies: denied. Otherwise a matching ACL that allows: allowed.
 3. The resource has ACLs, but none of them matches: denied.
 4. The resource has no ACL: allow.everyone.if.no.acl.found decides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.security.acl_index import AclIndex
from odradek.security.acls import AccessControlEntry
from odradek.security.principal import Principal
from odradek.security.resources import Operation, ResourceType

MOST_REMEMBERED: Final = 32_768
"""Most cached decisions; at this number the whole cache is cleared."""
MOST_BYTES: Final = 8 << 20
"""Most bytes of the texts in the keys of cached decisions, because clients choose names and their length. Beyond it the cache is cleared.
"""

_ANY_NAME: Final = "hardcode"
"""Resource name with which Kafka asks whether a principal may do an operation on any resource of a type."""

I = TypeVar("I")  # noqa: E741 - the id of an ACL


class StandardAuthorizer(Generic[I]):
    """Authorizer over the ACLs of the metadata, which are identified by id. Decisions are cached until an ACL changes."""

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_without_acl: bool = False,
        most_remembered: int = MOST_REMEMBERED,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`most_remembered` limits the number of cached decisions, `most_bytes` the bytes of the texts in their keys."""
        self._most_remembered = most_remembered
        self._most_bytes = most_bytes
        self.super_users = frozenset(super_users)
        """Super users as text (super.users)."""
        self.allow_without_acl = allow_without_acl
        self.ready = False
        """Whether the metadata's ACLs have been loaded; before that only super users get an answer."""
        self._entries: dict[I, AccessControlEntry] = {}
        self._index = AclIndex()
        self._remembered: dict[tuple[str, str, str, int, str], bool] = {}
        self._remembered_bytes = 0

    # -- the ACLs ---------------------------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> Mapping[I, AccessControlEntry]:
        return self._entries

    @property
    def remembered(self) -> int:
        """Return the number of cached decisions."""
        return len(self._remembered)

    @property
    def indexed(self) -> int:
        """Return the number of entries in the index's tables; 0 without ACLs."""
        return self._index.size

    def load(self, entries: Mapping[I, AccessControlEntry]) -> None:
        """Replace all ACLs, and set `ready`."""
        self._entries = dict(entries)
        self._index = AclIndex(entries.values())
        self._forget()
        self.ready = True

    def change(self, changes: Mapping[I, AccessControlEntry | None]) -> None:
        """Add, replace or remove (None) ACLs by id."""
        for acl_id, entry in changes.items():
            before = self._entries.pop(acl_id, None)
            if before is not None:
                self._index.remove(before)
            if entry is not None:
                self._entries[acl_id] = entry
                self._index.add(entry)
        self._forget()

    # -- decisions --------------------------------------------------------------------------------------------------------------------

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """See `security.authorizer.Authorizer`. Raises KafkaError before the ACLs are loaded, unless the principal is a super user."""
        key = (principal.kind, principal.name, host, operation << 8 | resource, name)
        allowed = self._remembered.get(key)
        if allowed is None:
            allowed = self._decide(str(principal), host, operation, resource, name)
            self._remember(key, allowed)
        return allowed

    def allows_any(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        key = (principal.kind, principal.name, host, (operation << 8 | resource) << 1 | 1 << 24, "")
        allowed = self._remembered.get(key)
        if allowed is None:
            who = str(principal)
            allowed = self._decide(who, host, operation, resource, _ANY_NAME) or self._index.allows_any(who, host, operation, resource)
            self._remember(key, allowed)
        return allowed

    def explain(self, principal: Principal, host: str, operation: Operation, resource: ResourceType, name: str) -> str:
        """Return the rule that decides, in Kafka's words, for the audit log."""
        who = str(principal)
        if who in self.super_users:
            return "SuperUser"
        entry = self._index.explain(who, host, operation, resource, name)
        if entry is not None:
            return f"MatchingAcl(acl={entry})"
        any_acl = self._index.decide(who, host, operation, resource, name).any_acl
        return "DefaultAllow" if self.allow_without_acl and not any_acl else "DefaultDeny"

    def _remember(self, key: tuple[str, str, str, int, str], allowed: bool) -> None:
        kind, principal, host, _, name = key
        size = sys.getsizeof(name) + sys.getsizeof(principal) + sys.getsizeof(host) + sys.getsizeof(kind)
        if len(self._remembered) >= self._most_remembered or self._remembered_bytes + size > self._most_bytes:
            self._forget()
        if size <= self._most_bytes:
            self._remembered[key] = allowed
            self._remembered_bytes += size

    def _forget(self) -> None:
        self._remembered.clear()
        self._remembered_bytes = 0

    def _decide(self, principal: str, host: str, operation: int, resource: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        if not self.ready:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The authorizer is not ready: the ACLs have not been loaded yet.")
        decision = self._index.decide(principal, host, operation, resource, name)
        if decision.any_acl:
            return decision.allowed and not decision.denied
        return self.allow_without_acl
