"""Fetch session of a consumer with one broker: partitions that the next request has to name.

Source: KIP-227, KIP-516, org.apache.kafka.clients.FetchSessionHandler.

`odradek.protocol.fetch_session`, which followers share, describes how sessions begin, go on and end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client.core.fetcher import FetchTarget
from odradek.protocol.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, AskerSession

SESSION_ERRORS = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
)
"""Errors after which no data came and a full request may be sent at once."""


class SessionRequest(NamedTuple):
    """Partitions that the next request names; `forgotten` has the ids under which the session knows the topics."""

    session_id: int
    session_epoch: int
    named: Sequence[FetchTarget]
    forgotten: Sequence[tuple[TopicPartition, UUID]] = ()


class FetchSession(AskerSession):
    """Fetch session with one broker."""

    __slots__ = ("_by_id", "_members")

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[TopicPartition, FetchTarget] = {}
        """Last target of each partition of the session that the broker was told."""
        self._by_id = False

    def next_request(self, targets: Sequence[FetchTarget], *, by_id: bool) -> SessionRequest:
        """Return the request for `targets`, which counts as sent. `by_id`: the request names topics by id (Fetch 13 and later)."""
        if by_id != self._by_id:
            # A session names topics either by name or by id: close this session and begin another.
            self._session_epoch = INITIAL_EPOCH
        known = {} if self.is_full else self._members
        self._members = {target.topic_partition: target for target in targets}
        self._by_id = by_id
        named = [target for target in targets if not _says_the_same(known.get(target.topic_partition), target)]
        forgotten = [
            (partition, told.topic_id)
            for partition, told in known.items()
            if partition not in self._members or (by_id and told.topic_id != self._members[partition].topic_id)
        ]
        return SessionRequest(self._session_id, self._session_epoch, named, forgotten)

    def answered(self, session_id: int, partitions: Collection[TopicPartition]) -> bool:
        """Process a response without an error. Return False when the response does not fit the session and must be dropped.

        A response without a session may leave partitions out.
        """
        answered = frozenset(partitions)
        return self.granted(session_id, answered, answered if session_id == NO_SESSION else self._members.keys())

    def closing(self) -> SessionRequest | None:
        """Return the request that closes the session at the broker, None without a session. The next request begins another session."""
        session_id, self._session_id, self._session_epoch = self._session_id, NO_SESSION, INITIAL_EPOCH
        return None if session_id == NO_SESSION else SessionRequest(session_id, FINAL_EPOCH, ())


def _says_the_same(told: FetchTarget | None, target: FetchTarget) -> bool:
    return told is not None and told._replace(generation=target.generation) == target
