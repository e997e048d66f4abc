"""Configuration keys that only the admin client has, or has with another default."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, Key, between, keys_in

BOOTSTRAP_CONTROLLERS: Final = Key(
    "bootstrap.controllers", LIST, "", HIGH, "Addresses of some controllers, as host:port, instead of bootstrap.servers (KIP-919)."
)
CONNECTIONS_MAX_IDLE_MS: Final = Key(
    "connections.max.idle.ms",
    LONG,
    "300000",
    MEDIUM,
    "Close a connection without traffic and without pending requests after this time, milliseconds; -1 never closes it.",
)
RETRIES: Final = Key(
    "retries", INT, "2147483647", LOW, "Number of retries of a call within default.api.timeout.ms.", between(0, 2147483647)
)

ADMIN_KEYS: Final = keys_in(globals())
