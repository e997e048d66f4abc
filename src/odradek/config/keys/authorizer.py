"""Keys of Kafka's own authorizer, which Kafka's brokers do not define: DescribeConfigs shows them when they are given, as secrets."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, MEDIUM, STRING, Key, non_null

KEYS: tuple[Key, ...] = (
    Key(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        "false",
        MEDIUM,
        "Whether everybody may do everything to a resource that there is no ACL for.",
        internal=True,
    ),
    Key(
        "super.users",
        STRING,
        "",
        MEDIUM,
        "Principals that may do everything, such as User:admin;User:broker.",
        non_null,
        internal=True,
    ),
)

NAMES = frozenset(key.name for key in KEYS)
