"""Partitions that a follower copies over one connection, and their states (kafka.server.AbstractFetcherThread).

| state      | meaning                                                                   | fetched | left when |
|------------|---------------------------------------------------------------------------|---------|-----------|
| FETCHING   | is copied from its log end on                                             | yes     | a response demands another state |
| TRUNCATING | was truncated, but not durably yet: no records may be appended            | no      | the truncation is durable |
| RESETTING  | the leader has no records at our log end; it was asked for its bounds     | no      | it has answered |
| DELAYED    | the leader cannot serve it now, or sent damaged records                   | no      | its back-off is over |
| FAILED     | cannot be copied in this leader epoch                                     | no      | metadata brings another epoch |

A `Followed` is one partition in one leader epoch. A new leader epoch replaces the object, so late responses find the old object gone.

`Followed.asked` is the log end in the last request to the leader. A response counts only while the partition is FETCHING and `asked` is
still its log end. Every change of state sets `asked` to NOT_ASKED.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition

NOT_ASKED = -1

PartitionKey = tuple[int, int]
"""(topic id as an integer, partition)."""


class FetchState(Enum):
    """State of a followed partition; the module's docstring has the table."""

    FETCHING = "fetching"
    TRUNCATING = "truncating"
    RESETTING = "resetting"
    DELAYED = "delayed"
    FAILED = "failed"


TRANSITIONS: dict[FetchState, frozenset[FetchState]] = {
    FetchState.FETCHING: frozenset({FetchState.TRUNCATING, FetchState.RESETTING, FetchState.DELAYED, FetchState.FAILED}),
    FetchState.TRUNCATING: frozenset({FetchState.FETCHING, FetchState.DELAYED, FetchState.FAILED}),
    FetchState.RESETTING: frozenset({FetchState.FETCHING, FetchState.TRUNCATING, FetchState.DELAYED, FetchState.FAILED}),
    FetchState.DELAYED: frozenset({FetchState.FETCHING}),
    FetchState.FAILED: frozenset(),
}


_UNSETTLED = frozenset({FetchState.TRUNCATING, FetchState.RESETTING})


class Position(NamedTuple):
    """Position of a follower's log."""

    log_end_offset: int
    last_epoch: int
    """Leader epoch of the last batch, -1 when the log has no epoch."""
    log_start_offset: int


class Followed:
    """Partition that is followed in one leader epoch."""

    __slots__ = ("asked", "delays", "due", "key", "lag", "leader_epoch", "position", "resets", "state", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: int, position: Position, state: FetchState) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.key: PartitionKey = (topic_id.int, topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.position = position
        self.state = state
        self.asked = NOT_ASKED
        self.due = 0.0
        """Monotonic seconds when a DELAYED partition is fetched again."""
        self.lag: int | None = None
        """Records between the local log end and the leader's high watermark; None before the first response."""
        self.delays = 0
        """Consecutive times that the partition was DELAYED without success in between."""
        self.resets = 0
        """Consecutive resets that changed nothing."""

    @property
    def awaits_answer(self) -> bool:
        """Whether a response of the leader now belongs to the current log end."""
        return self.state is FetchState.FETCHING and self.asked == self.position.log_end_offset

    def __repr__(self) -> str:
        return f"Followed({self.topic_partition}, {self.state.value}, epoch={self.leader_epoch}, {self.position})"


class FetchTable:
    """Partitions that are followed over one connection.

    `news` holds the keys that the next request may have to name, oldest first: partitions that moved, were added or are no longer fetched.
    """

    __slots__ = ("_delayed", "_keys", "_number", "by_key", "news", "unsettled")

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Followed] = {}
        self.news: dict[PartitionKey, None] = {}
        self._keys: dict[TopicPartition, PartitionKey] = {}
        self._delayed: list[tuple[float, int, Followed]] = []
        self._number = 0
        self.unsettled = 0
        """Number of TRUNCATING and RESETTING partitions, which will be fetched again in a moment."""

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self.by_key.values())

    def get(self, topic_partition: TopicPartition) -> Followed | None:
        key = self._keys.get(topic_partition)
        return None if key is None else self.by_key[key]

    def holds(self, followed: Followed) -> bool:
        """Return whether this object is still the followed partition, not replaced by a later one of the same name."""
        return self.by_key.get(followed.key) is followed

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: int, position: Position, *, truncating: bool = False
    ) -> Followed:
        """Follow a partition, and forget an earlier one of the same name. `truncating` says that its log was truncated for this."""
        self.remove(topic_partition)
        state = FetchState.TRUNCATING if truncating else FetchState.FETCHING
        followed = Followed(topic_partition, topic_id, leader_epoch, position, state)
        self.by_key[followed.key] = followed
        self.unsettled += state in _UNSETTLED
        self._keys[topic_partition] = followed.key
        self.news[followed.key] = None
        return followed

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Stop following the partition. Return False when it was not followed."""
        key = self._keys.pop(topic_partition, None)
        if key is None:
            return False
        self.unsettled -= self.by_key.pop(key).state in _UNSETTLED
        self.news[key] = None
        return True

    def moved(self, followed: Followed, position: Position) -> None:
        """Set the position of the log, from which the next fetch continues."""
        if followed.position != position:
            followed.position = position
            self.news[followed.key] = None

    # -- states ----------------------------------------------------------------------------------------------------------------------

    def become(self, followed: Followed, state: FetchState) -> None:
        """Change the state. Raises RuntimeError for a transition that TRANSITIONS does not allow."""
        if state not in TRANSITIONS[followed.state]:
            raise RuntimeError(f"{followed.topic_partition} cannot change from {followed.state.value} to {state.value}")
        self.unsettled += (state in _UNSETTLED) - (followed.state in _UNSETTLED)
        followed.state = state
        followed.asked = NOT_ASKED
        self.news[followed.key] = None

    def delay(self, followed: Followed, due: float) -> None:
        """Stop fetching the partition until `due` (monotonic seconds)."""
        self.become(followed, FetchState.DELAYED)
        followed.due = due
        followed.delays += 1
        self._number += 1
        heapq.heappush(self._delayed, (due, self._number, followed))

    def resume_due(self, now: float) -> None:
        """Fetch the partitions again whose delay is over."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, followed = heapq.heappop(self._delayed)
            if self.holds(followed):
                self.become(followed, FetchState.FETCHING)

    @property
    def next_due(self) -> float | None:
        """Monotonic seconds when the next delayed partition is fetched again; None without a delayed partition."""
        while self._delayed and not self.holds(self._delayed[0][2]):
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None
