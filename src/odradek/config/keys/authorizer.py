"""Keys of Kafka's own authorizer, which Kafka's brokers do not define: DescribeConfigs shows them when they are given, as secrets."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, MEDIUM, STRING, Key, keys_in, non_null

ALLOW_EVERYONE_IF_NO_ACL_FOUND: Final = Key(
    "allow.everyone.if.no.acl.found",
    BOOLEAN,
    "false",
    MEDIUM,
    "Whether everyone may perform every operation on a resource without ACLs.",
    internal=True,
)
SUPER_USERS: Final = Key(
    "super.users",
    STRING,
    "",
    MEDIUM,
    "Principals that may perform every operation, such as User:admin;User:broker.",
    non_null,
    internal=True,
)

KEYS: Final = keys_in(globals())

NAMES = frozenset(key.name for key in KEYS)
