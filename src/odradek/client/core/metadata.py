"""What a client knows about the cluster: an immutable view and the rules by which a newer answer replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, code_of
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.protocol.messages.describe_cluster import DescribeClusterResponse
from odradek.protocol.messages.metadata import MetadataResponse


class Broker(NamedTuple):
    """A broker as it announces itself."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition's leadership; `leader` is -1 while there is none, `leader_epoch` -1 when the broker does not say."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    """A topic; `error` other than NONE means that the rest is empty."""

    name: str
    topic_id: UUID
    is_internal: bool
    error: ErrorCode
    partitions: Mapping[int, PartitionInfo]


class ClusterView(NamedTuple):
    """One state of the cluster; replaced, never changed."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo]

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """The partition's leadership, None when it is not known."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader(self, topic_partition: TopicPartition) -> int | None:
        """The id of a leader that can be reached, or None."""
        info = self.partition(topic_partition)
        return info.leader if info is not None and info.leader in self.brokers else None

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """The epoch of the leader, -1 where that is not known."""
        info = self.partition(topic_partition)
        return -1 if info is None else info.leader_epoch

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic id, None when it is not known."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)


EMPTY_VIEW = ClusterView(None, -1, {}, {})

FOREVER = 1 << 62


class MetadataCache:
    """The newest view and when to ask again. Times are monotonic milliseconds.

    With `max_idle_ms`, a topic that was neither wanted nor put into `used` for so long is dropped (metadata.max.idle.ms). What is used is
    noted with the next answer, so that a use costs no look at the clock.
    """

    __slots__ = ("_asking_since_ms", "_max_age_ms", "_max_idle_ms", "_requested", "_seen_ms", "_updated_ms", "used", "view", "wanted")

    def __init__(self, max_age_ms: int, max_idle_ms: int | None = None) -> None:
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._updated_ms: int | None = None
        self._asking_since_ms: int | None = None
        self._requested = False
        self._seen_ms: dict[str, int] = {}
        self.view = EMPTY_VIEW
        self.wanted: set[str] = set()
        self.used: set[str] = set()
        """Topics that were used since the last answer; any thread may add to it."""

    @property
    def has_answer(self) -> bool:
        """Whether a broker has ever answered."""
        return self._updated_ms is not None

    def want(self, topics: Iterable[str]) -> bool:
        """Adds topics to what is asked for; True when at least one of them is not known yet."""
        missing = False
        for topic in topics:
            self.wanted.add(topic)
            self.used.add(topic)
            info = self.view.topics.get(topic)
            missing = missing or info is None or info.error is not ErrorCode.NONE
        return missing

    def request_update(self) -> None:
        """Notes that an answer contradicted the view."""
        self._requested = True

    def due_in_ms(self, now_ms: int) -> int:
        """Milliseconds until the view has to be refreshed; 0 when now."""
        if self._requested or self._updated_ms is None:
            return 0
        return max(0, self._updated_ms + self._max_age_ms - now_ms)

    def asking(self, now_ms: int) -> int:
        """A question is sent. For how long there has been no answer, milliseconds (KIP-1102)."""
        if self._asking_since_ms is None:
            self._asking_since_ms = now_ms
        return now_ms - self._asking_since_ms

    def rebootstrap(self, now_ms: int) -> None:
        """No known broker is of use any more (KIP-899): they are forgotten, and what is known of topics waits for an answer."""
        self.view = self.view._replace(brokers={}, controller_id=-1)
        self._requested = True
        self._asking_since_ms = now_ms

    def _drop_idle(self, now_ms: int) -> None:
        if self._max_idle_ms is None:
            return
        used, self.used = self.used, set()
        self._seen_ms.update(dict.fromkeys(used & self.wanted, now_ms))
        for topic, seen_ms in list(self._seen_ms.items()):
            if seen_ms + self._max_idle_ms <= now_ms:
                self.forget(topic)

    def update(self, response: MetadataResponse, now_ms: int) -> ClusterView:
        """Takes an answer over: brokers as a whole, topics one by one, an older leader epoch never over a newer one."""
        self._asking_since_ms = None
        topics = dict(self.view.topics)
        for answered in response.topics:
            if answered.name is not None:
                topics[answered.name] = self._topic(answered, topics.get(answered.name))
        brokers = {node.node_id: Broker(node.node_id, node.host, node.port, node.rack) for node in response.brokers}
        self.view = ClusterView(response.cluster_id, response.controller_id, brokers, topics)
        self._updated_ms = now_ms
        self._requested = False
        self._drop_idle(now_ms)
        return self.view

    def forget(self, topic: str) -> None:
        """Drops a topic, for instance after it was deleted."""
        self.wanted.discard(topic)
        self._seen_ms.pop(topic, None)
        topics = dict(self.view.topics)
        topics.pop(topic, None)
        self.view = self.view._replace(topics=topics)

    def _topic(self, answered: MetadataResponse.MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
        name = answered.name or ""
        partitions: dict[int, PartitionInfo] = {}
        same_topic = known is not None and known.topic_id == answered.topic_id
        for part in answered.partitions:
            info = PartitionInfo(
                part.partition_index,
                part.leader_id,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
                tuple(part.offline_replicas),
            )
            before = known.partitions.get(part.partition_index) if known is not None and same_topic else None
            partitions[info.partition] = before if before is not None and before.leader_epoch > info.leader_epoch >= 0 else info
        return TopicInfo(name, answered.topic_id or ZERO_UUID, answered.is_internal, code_of(answered.error_code), partitions)


def controllers_as_metadata(answer: DescribeClusterResponse) -> MetadataResponse:
    """What DescribeCluster says of the controllers, in the form of an answer to Metadata without topics (KIP-919)."""
    each = MetadataResponse.MetadataResponseBroker
    nodes = [each(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack) for node in answer.brokers]
    return MetadataResponse(brokers=nodes, cluster_id=answer.cluster_id, controller_id=answer.controller_id, topics=[])


LEADERSHIP_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.LISTENER_NOT_FOUND,
    }
)
"""Answers after which the view has to be asked for again (Java's InvalidMetadataException)."""
