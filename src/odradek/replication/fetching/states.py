"""The partitions that a follower copies over one connection, and their states (kafka.server.AbstractFetcherThread).

| state      | meaning                                                                   | fetched | left when |
|------------|---------------------------------------------------------------------------|---------|-----------|
| FETCHING   | copies from its log end on                                                | yes     | an answer asks for something else |
| TRUNCATING | was cut, and the cut is not durable yet: nothing may be appended          | no      | it is durable |
| RESETTING  | the leader has nothing at our log end; it was asked where its log lies    | no      | it has answered |
| DELAYED    | the leader cannot serve it now, or sent what is damaged                   | no      | its pause is over                |
| FAILED     | it makes no sense to go on in this leader epoch                           | no      | metadata brings another one |

A `Followed` is one partition in one leader epoch. A new leader epoch replaces it by a new one, so late answers find the old one gone.

`Followed.asked` is the log end that the leader was last told. An answer counts only while the partition is FETCHING and this is still its
log end; every change of state sets it to NOT_ASKED.
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
    """See the module's text."""

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
    """Of a follower's log."""

    log_end_offset: int
    last_epoch: int
    """Leader epoch of the last batch, -1 when the log knows none."""
    log_start_offset: int


class Followed:
    """One partition that is followed in one leader epoch."""

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
        """When a DELAYED one is fetched again (monotonic seconds)."""
        self.lag: int | None = None
        """Records between our log end and the leader's high watermark; None before the first answer."""
        self.delays = 0
        """How often it was DELAYED since something came of it."""
        self.resets = 0
        """Resets in a row that have changed nothing."""

    @property
    def awaits_answer(self) -> bool:
        """Whether what the leader says now belongs to where the log is."""
        return self.state is FetchState.FETCHING and self.asked == self.position.log_end_offset

    def __repr__(self) -> str:
        return f"Followed({self.topic_partition}, {self.state.value}, epoch={self.leader_epoch}, {self.position})"


class FetchTable:
    """The partitions that are followed over one connection.

    `news` holds the keys that the next request may have to name, oldest first: of partitions that moved, came or are no longer fetched.
    """

    __slots__ = ("_delayed", "_keys", "_number", "by_key", "news", "unsettled")

    def __init__(self) -> None:
        self.by_key: dict[PartitionKey, Followed] = {}
        self.news: dict[PartitionKey, None] = {}
        self._keys: dict[TopicPartition, PartitionKey] = {}
        self._delayed: list[tuple[float, int, Followed]] = []
        self._number = 0
        self.unsettled = 0
        """How many are TRUNCATING or RESETTING: they will be fetched again in a moment."""

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self.by_key.values())

    def get(self, topic_partition: TopicPartition) -> Followed | None:
        key = self._keys.get(topic_partition)
        return None if key is None else self.by_key[key]

    def holds(self, followed: Followed) -> bool:
        """Whether it is followed still, and not as a later one of the same name."""
        return self.by_key.get(followed.key) is followed

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: int, position: Position, *, truncating: bool = False
    ) -> Followed:
        """Begins to follow it; what was followed under its name is forgotten. `truncating`: its log was cut for that."""
        self.remove(topic_partition)
        state = FetchState.TRUNCATING if truncating else FetchState.FETCHING
        followed = Followed(topic_partition, topic_id, leader_epoch, position, state)
        self.by_key[followed.key] = followed
        self.unsettled += state in _UNSETTLED
        self._keys[topic_partition] = followed.key
        self.news[followed.key] = None
        return followed

    def remove(self, topic_partition: TopicPartition) -> bool:
        """Follows it no more; False when it was not followed."""
        key = self._keys.pop(topic_partition, None)
        if key is None:
            return False
        self.unsettled -= self.by_key.pop(key).state in _UNSETTLED
        self.news[key] = None
        return True

    def moved(self, followed: Followed, position: Position) -> None:
        """The log has changed: the next fetch goes on from there."""
        if followed.position != position:
            followed.position = position
            self.news[followed.key] = None

    # -- states ----------------------------------------------------------------------------------------------------------------------

    def become(self, followed: Followed, state: FetchState) -> None:
        """RuntimeError for a transition that there is not."""
        if state not in TRANSITIONS[followed.state]:
            raise RuntimeError(f"{followed.topic_partition} cannot go from {followed.state.value} to {state.value}")
        self.unsettled += (state in _UNSETTLED) - (followed.state in _UNSETTLED)
        followed.state = state
        followed.asked = NOT_ASKED
        self.news[followed.key] = None

    def delay(self, followed: Followed, due: float) -> None:
        """Not fetched until `due` (monotonic seconds)."""
        self.become(followed, FetchState.DELAYED)
        followed.due = due
        followed.delays += 1
        self._number += 1
        heapq.heappush(self._delayed, (due, self._number, followed))

    def resume_due(self, now: float) -> None:
        """Fetches again what was delayed until now."""
        while self._delayed and self._delayed[0][0] <= now:
            _, _, followed = heapq.heappop(self._delayed)
            if self.holds(followed):
                self.become(followed, FetchState.FETCHING)

    @property
    def next_due(self) -> float | None:
        """When the next delayed partition is to be fetched again; None when there is none."""
        while self._delayed and not self.holds(self._delayed[0][2]):
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None
