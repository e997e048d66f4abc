"""The consumer's fetch session with one broker: what a request has to name.

Source: KIP-227, KIP-516, org.apache.kafka.clients.FetchSessionHandler.

How sessions begin, go on and end stands in `odradek.protocol.fetch_session`, which followers share.
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
"""Nothing was read, and a full request may be sent at once."""


class SessionRequest(NamedTuple):
    """What the next request names; `forgotten` with the ids that the session knows their topics by."""

    session_id: int
    session_epoch: int
    named: Sequence[FetchTarget]
    forgotten: Sequence[tuple[TopicPartition, UUID]] = ()


class FetchSession(AskerSession):
    """The session with one broker."""

    __slots__ = ("_by_id", "_members")

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[TopicPartition, FetchTarget] = {}
        """What the broker was told last of each partition of the session."""
        self._by_id = False

    def next_request(self, targets: Sequence[FetchTarget], *, by_id: bool) -> SessionRequest:
        """The request for `targets`, which counts as sent. `by_id`: it names topics by id (Fetch 13 and later)."""
        if by_id != self._by_id:
            # A session names topics in one way: this one is closed, and another begins.
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
        """Takes an answer without an error over. False when nothing of it is to be believed.

        An answer outside of a session may leave partitions out: it binds nobody.
        """
        answered = frozenset(partitions)
        return self.granted(session_id, answered, answered if session_id == NO_SESSION else self._members.keys())

    def closing(self) -> SessionRequest | None:
        """What closes the session at the broker; None where there is none. The next request begins another."""
        session_id, self._session_id, self._session_epoch = self._session_id, NO_SESSION, INITIAL_EPOCH
        return None if session_id == NO_SESSION else SessionRequest(session_id, FINAL_EPOCH, ())


def _says_the_same(told: FetchTarget | None, target: FetchTarget) -> bool:
    return told is not None and told._replace(generation=target.generation) == target
