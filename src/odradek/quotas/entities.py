"""What quotas there are, for whom, and which of several holds.

A quota is for a user, a client id, or a user's client id; the default stands for all that have none of their own. The first that there is
holds, and says among whom it is shared: one of a user by all of its clients, one of a client id by all users of that id.

    user, client id  >  user, default client  >  user  >  default user, client id  >  default user and client  >  default user
        >  client id  >  default client

While all quotas are of one kind (of users, of client ids, or of both), only that kind is looked for.

(org.apache.kafka.server.quota.ClientQuotaManager and its DefaultQuotaCallback, org.apache.kafka.server.config.QuotaConfig)
"""

from __future__ import annotations

from enum import Enum, Flag
from typing import Final, NamedTuple

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kinds of entities, as requests and records name them."""


class QuotaKind(Enum):
    """What a quota of clients is about; the value is its key."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


CONNECTION_RATE: Final = "connection_creation_rate"
"""The key of the quota that addresses have."""

INT, LONG, DOUBLE = "INT", "LONG", "DOUBLE"
CLIENT_KEYS: Final = {
    QuotaKind.PRODUCE.value: LONG,
    QuotaKind.FETCH.value: LONG,
    QuotaKind.REQUEST.value: DOUBLE,
    QuotaKind.MUTATION.value: DOUBLE,
}
"""Keys of users and client ids -> type of the value."""
ADDRESS_KEYS: Final = {CONNECTION_RATE: INT}
"""Keys of addresses."""

_LARGEST: Final = {INT: float(2**31 - 1), LONG: float(2**63)}
_FRACTION = 1e-6


def value_problem(keys: dict[str, str], key: str, value: float) -> str | None:
    """Why a quota cannot have this value, or why there is no such quota among `keys`."""
    kind = keys.get(key)
    if kind is None:
        return f"Invalid configuration key {key}"
    if not value > 0:  # nor is NaN
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
"""Stands for every name that has no quota of its own."""

Name = str | _Special | None
"""Of a user or client id; None where the quota does not look at it."""


class Owner(NamedTuple):
    """Who shares a quota: "" for all users, and for all client ids."""

    user: str
    client_id: str


class Level(Flag):
    """The kinds of quotas that there are."""

    NONE = 0
    CLIENT_ID = 1
    USER = 2
    USER_CLIENT_ID = 4


_LEVELS = {(True, True): Level.USER_CLIENT_ID, (True, False): Level.USER, (False, True): Level.CLIENT_ID}


class QuotaTable:
    """The quotas of one kind."""

    __slots__ = ("_counts", "_limits", "levels")

    def __init__(self) -> None:
        self._limits: dict[tuple[Name, Name], float] = {}
        self._counts = dict.fromkeys(_LEVELS.values(), 0)
        self.levels = Level.NONE
        """Which kinds of entities have any; NONE says that nobody has a quota."""

    def update(self, user: Name, client_id: Name, limit: float | None) -> None:
        """Sets the quota, or with None removes it."""
        before = len(self._limits)
        if limit is None:
            self._limits.pop((user, client_id), None)
        else:
            self._limits[user, client_id] = limit
        level = _LEVELS[user is not None, client_id is not None]
        self._counts[level] += len(self._limits) - before
        self.levels = self.levels | level if self._counts[level] else self.levels & ~level

    def owner(self, user: str, client_id: str) -> Owner:
        """Among whom the quota of this client is shared."""
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
        """The quota that the owner has; None for none."""
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
