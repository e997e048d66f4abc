"""Configuration keys that only the admin client has, or has with another default."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, Key, between, keys_in

BOOTSTRAP_CONTROLLERS: Final = Key(
    "bootstrap.controllers", LIST, "", HIGH, "host:port of some controllers, instead of bootstrap.servers (KIP-919)."
)
CONNECTIONS_MAX_IDLE_MS: Final = Key(
    "connections.max.idle.ms",
    LONG,
    "300000",
    MEDIUM,
    "Close a connection on which nothing was sent or received for so long and nothing is awaited, milliseconds; -1 for never.",
)
RETRIES: Final = Key(
    "retries", INT, "2147483647", LOW, "How often a call tries again within default.api.timeout.ms.", between(0, 2147483647)
)

ADMIN_KEYS: Final = keys_in(globals())
