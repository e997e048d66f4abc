"""Requests of a follower: the client side of incremental fetch sessions (KIP-227, KIP-516; `fetch_session` is the leader's side)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, code_of
from odradek.protocol.fetch_session import AskerSession
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.replication.fetching.states import FetchState, FetchTable, Followed, PartitionKey

FIRST_VERSION = 15
"""First Fetch version with the follower's broker epoch (KIP-903). Brokers of 3.5 and later know it."""
LAST_VERSION = 18
"""Last Fetch version that followers of Kafka 4.3.1 send."""


class FetchLimits(NamedTuple):
    """Limits of a fetch: its bytes, and the milliseconds that the leader may wait (the replica.fetch.* keys)."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    """Most bytes of the whole response (replica.fetch.response.max.bytes)."""
    partition_max_bytes: int
    """replica.fetch.max.bytes."""


class Verdict(Enum):
    """Result of a request as a whole."""

    SERVED = "served"
    ASK_ANEW = "ask again"
    """No partition was served, and the next request is full."""
    REFUSED = "refused"
    """As ASK_ANEW, but the follower should back off before the next request."""


class FollowerSession(AskerSession):
    """Session with one leader over one connection; one request at a time. `members` are the partitions that the leader knows."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        super().__init__()
        self.members: set[PartitionKey] = set()

    @property
    def begins(self) -> bool:
        """Whether the next request is the first of a session, as far as the follower knows.

        While the leader has that request parked, new partitions wait for its response.
        """
        return self.is_full and not self._denied

    def next_request(self, table: FetchTable, replica_id: int, broker_epoch: int, limits: FetchLimits) -> FetchRequest | None:
        """Return the next request, which counts as sent; None when no partition has to be fetched or forgotten."""
        if self.is_full:
            named = [followed for followed in table if followed.state is FetchState.FETCHING]
            forgotten: list[PartitionKey] = []
            self.members.clear()
        else:
            named, forgotten = self._news(table)
        table.news.clear()
        self.members.update([followed.key for followed in named])
        if not self.members and not forgotten:
            return None
        for followed in named:
            followed.asked = followed.position.log_end_offset
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch),
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=_topics(named, limits.partition_max_bytes),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def _news(self, table: FetchTable) -> tuple[list[Followed], list[PartitionKey]]:
        named: list[Followed] = []
        forgotten: list[PartitionKey] = []
        for key in table.news:
            followed = table.by_key.get(key)
            if followed is not None and followed.state is FetchState.FETCHING:
                named.append(followed)
            elif key in self.members:
                self.members.remove(key)
                forgotten.append(key)
        return named, forgotten

    def answered(self, response: FetchResponse) -> Verdict:
        """Update the session from the response, and return the result."""
        error = code_of(response.error_code)
        if error is not ErrorCode.NONE:
            self.refused(error)
            return Verdict.ASK_ANEW if error in _ASK_ANEW else Verdict.REFUSED
        answered = {(topic.topic_id.int, data.partition_index) for topic in response.responses for data in topic.partitions}
        return Verdict.SERVED if self.granted(response.session_id, answered, self.members) else Verdict.REFUSED


_ASK_ANEW = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


def _topics(named: Iterable[Followed], max_bytes: int) -> list[FetchRequest.FetchTopic]:
    topics: dict[int, FetchRequest.FetchTopic] = {}
    for followed in named:
        topic = topics.get(followed.key[0])
        if topic is None:
            topic = topics[followed.key[0]] = FetchRequest.FetchTopic(topic_id=followed.topic_id)
        position = followed.position
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=followed.key[1],
                current_leader_epoch=followed.leader_epoch,
                fetch_offset=position.log_end_offset,
                last_fetched_epoch=position.last_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[PartitionKey]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[int, FetchRequest.ForgottenTopic] = {}
    for topic_id, partition in keys:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.ForgottenTopic(topic_id=UUID(int=topic_id))
        topic.partitions.append(partition)
    return list(topics.values())


def list_offsets(replica_id: int, resetting: Iterable[Followed], timestamp: int) -> ListOffsetsRequest:
    """Return the request for the bounds of the leader's logs; `timestamp` is EARLIEST or LATEST."""
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for followed in resetting:
        name, partition = followed.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsRequest.ListOffsetsTopic(name=name)
        topic.partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(replica_id=replica_id, topics=list(topics.values()))
