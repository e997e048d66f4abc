"""ACLs and questions that are likely to meet, and the slow and plain answer to a question."""

from __future__ import annotations

import random
from collections.abc import Iterable

from odradek.security.acls import AccessControlEntry
from odradek.security.principal import Principal
from odradek.security.resources import Operation, PatternType, PermissionType, ResourceType

NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "team.a", "team.b", "hardcode", "*a", "z-1")
PREFIXES = ("*", "a", "ab", "b", "team.", "te", "h", "z-1", "*a")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:with:colon")
ASKERS = (Principal("User", "alice"), Principal("User", "bob"), Principal("Group", "alice"), Principal("User", "with:colon"))
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = tuple(operation for operation in Operation if operation not in (Operation.UNKNOWN, Operation.ANY))
ASKED = tuple(operation for operation in OPERATIONS if operation is not Operation.ALL)

Question = tuple[Principal, str, Operation, ResourceType, str]


def random_entry(rng: random.Random) -> AccessControlEntry:
    prefixed = rng.random() < 0.4
    return AccessControlEntry(
        int(rng.choice(TYPES)),
        rng.choice(PREFIXES if prefixed else NAMES),
        int(PatternType.PREFIXED if prefixed else PatternType.LITERAL),
        rng.choice(PRINCIPALS),
        rng.choice(HOSTS),
        int(rng.choice(OPERATIONS)),
        int(PermissionType.DENY if rng.random() < 0.25 else PermissionType.ALLOW),
    )


def random_question(rng: random.Random) -> Question:
    return rng.choice(ASKERS), rng.choice(HOSTS[1:]), rng.choice(ASKED), rng.choice(TYPES), rng.choice(NAMES[1:])


def naive(
    entries: Iterable[AccessControlEntry],
    question: Question,
    super_users: Iterable[str] = (),
    *,
    allow_without_acl: bool = False,
) -> bool:
    """Every ACL is looked at."""
    principal, host, operation, resource, name = question
    if str(principal) in super_users:
        return True
    matching = [entry for entry in entries if means(entry, resource, name)]
    about = [e for e in matching if e.principal in (str(principal), "User:*") and e.host in (host, "*")]
    if any(e.permission_type == PermissionType.DENY and e.operation in (operation, Operation.ALL) for e in about):
        return False
    if any(e.permission_type == PermissionType.ALLOW and _implies(e.operation, operation) for e in about):
        return True
    return allow_without_acl and not matching


def naive_any(entries: Iterable[AccessControlEntry], question: Question, *, allow_without_acl: bool = False) -> bool:
    """By trying each name that could make a difference."""
    principal, host, operation, resource, _ = question
    entries = list(entries)
    if naive(entries, (principal, host, operation, resource, "hardcode"), allow_without_acl=allow_without_acl):
        return True
    plain = [e for e in entries if e.resource_type == resource and e.operation in (operation, Operation.ALL)]
    about = [e for e in plain if e.principal in (str(principal), "User:*") and e.host in (host, "*")]
    denied = [e for e in about if e.permission_type == PermissionType.DENY]
    allowed = [e for e in about if e.permission_type == PermissionType.ALLOW]
    everything = (PatternType.LITERAL, "*")
    if any((e.pattern_type, e.resource_name) == everything for e in denied):
        return False
    return any(
        (e.pattern_type, e.resource_name) == everything
        or not any(
            e.resource_name.startswith(d.resource_name)
            if d.pattern_type == PatternType.PREFIXED
            else e.pattern_type == PatternType.LITERAL and d.resource_name == e.resource_name
            for d in denied
        )
        for e in allowed
    )


def means(entry: AccessControlEntry, resource: ResourceType, name: str) -> bool:
    if entry.resource_type != resource:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name == name or (entry.resource_name == "*" and not name.startswith("*"))


def _implies(said: int, asked: Operation) -> bool:
    if said in (asked, Operation.ALL):
        return True
    if asked is Operation.DESCRIBE:
        return said in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return asked is Operation.DESCRIBE_CONFIGS and said == Operation.ALTER_CONFIGS
