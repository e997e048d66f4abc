"""Quota keys, quota entities, and the precedence among several quotas.

A quota applies to a user, to a client id, or to a client id of a user. A default quota applies to all entities without a specific quota.
The first existing quota in this order applies:

    user, client id  >  user, default client  >  user  >  default user, client id  >  default user and client  >  default user
        >  client id  >  default client

The applicable quota also decides which clients share it. All clients of a user share the user's quota. All users of a client id share the
quota of that client id. While all quotas are of one kind (users, client ids, or client ids of users), only that kind is looked up.

(org.apache.kafka.server.quota.ClientQuotaManager and its DefaultQuotaCallback, org.apache.kafka.server.config.QuotaConfig)
"""

from __future__ import annotations

from enum import Enum, Flag
from typing import Final, NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kinds of entities, as in requests and records."""


class QuotaKind(Enum):
    """Resource that a client quota limits; the value is the quota's key."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


CONNECTION_RATE: Final = "connection_creation_rate"
"""Key of the quota of an address."""

INT, LONG, DOUBLE = "INT", "LONG", "DOUBLE"
CLIENT_KEYS: Final = {
    QuotaKind.PRODUCE.value: LONG,
    QuotaKind.FETCH.value: LONG,
    QuotaKind.REQUEST.value: DOUBLE,
    QuotaKind.MUTATION.value: DOUBLE,
}
"""Quota keys of users and client ids -> type of the value."""
ADDRESS_KEYS: Final = {CONNECTION_RATE: INT}
"""Quota keys of addresses -> type of the value."""

_LARGEST: Final = {INT: float(2**31 - 1), LONG: float(2**63)}
_FRACTION = 1e-6


def value_problem(keys: dict[str, str], key: str, value: float) -> str | None:
    """Return why `value` is invalid for the quota `key`, or that `keys` does not contain `key`; None for a valid value."""
    kind = keys.get(key)
    if kind is None:
        return f"Invalid configuration key {key}"
    if not value > 0:  # NaN is refused, too
        return f"Quota {key} must be greater than 0"
    if kind == DOUBLE:
        return None
    if value > _LARGEST[kind]:
        return f"Proposed value for {key} is too large for {'an INT' if kind == INT else 'a LONG'}."
    if value % 1.0 > _FRACTION:
        return f"{key} cannot be a fractional value."
    return None


class _Special(Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Special.DEFAULT
"""Placeholder for all names without a specific quota."""

Name = str | _Special | None
"""Name of a user or client id in a quota's entity; None when the entity has no such part."""


class Owner(NamedTuple):
    """User and client id that a usage is kept for; an empty part stands for all users or all client ids."""

    user: str
    client_id: str


class Level(Flag):
    """Kinds of entities that have quotas."""

    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


_LEVELS = {(True, True): Level.USER_CLIENT_ID, (True, False): Level.USER, (False, True): Level.CLIENT_ID}


class QuotaTable:
    """Quotas of one QuotaKind."""

    __slots__ = ("_counts", "_limits", "levels")

    def __init__(self) -> None:
        self._limits: dict[tuple[Name, Name], float] = {}
        self._counts = dict.fromkeys(_LEVELS.values(), 0)
        self.levels = Level.NONE
        """Kinds of entities with quotas; NONE when the table is empty."""

    def update(self, user: Name, client_id: Name, limit: float | None) -> None:
        """Set the quota of an entity; with None remove the quota."""
        before = len(self._limits)
        if limit is None:
            self._limits.pop((user, client_id), None)
        else:
            self._limits[user, client_id] = limit
        level = _LEVELS[user is not None, client_id is not None]
        self._counts[level] += len(self._limits) - before
        self.levels = self.levels | level if self._counts[level] else self.levels & ~level

    def owner(self, user: str, client_id: str) -> Owner:
        """Return the owner of the usage that this client is charged to."""
        levels = self.levels
        if levels in (Level.NONE, Level.CLIENT_ID):
            return Owner("", client_id)
        if levels is Level.USER:
            return Owner(user, "")
        if levels is Level.USER_CLIENT_ID:
            return Owner(user, client_id)
        limits = self._limits
        for of_user in (user, DEFAULT):
            if (of_user, client_id) in limits or (of_user, DEFAULT) in limits:
                return Owner(user, client_id)
            if (of_user, None) in limits:
                return Owner(user, "")
        return Owner("", client_id)

    def limit(self, owner: Owner) -> float | None:
        """Return the owner's quota, or None without a quota."""
        user, client_id = owner
        wanted: tuple[tuple[Name, Name], ...]
        if user and client_id:
            wanted = ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT))
        elif user:
            wanted = ((user, None), (DEFAULT, None))
        elif client_id:
            wanted = ((None, client_id), (None, DEFAULT))
        else:
            return None
        for key in wanted:
            if (found := self._limits.get(key)) is not None:
                return found
        return None
