"""Metadata of the cluster: an immutable view, and the rules by which a newer response replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, code_of
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.protocol.messages.describe_cluster import DescribeClusterResponse
from odradek.protocol.messages.metadata import MetadataResponse


class Broker(NamedTuple):
    """Broker as it announces itself."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """Leadership of a partition; `leader` is -1 without a leader, `leader_epoch` -1 when the broker does not tell it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    """Topic; if `error` is not NONE, the other fields are empty."""

    name: str
    topic_id: UUID
    is_internal: bool
    error: ErrorCode
    partitions: Mapping[int, PartitionInfo]


class ClusterView(NamedTuple):
    """State of the cluster at one time; replaced, never changed."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo]

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return the partition's leadership, None where unknown."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader(self, topic_partition: TopicPartition) -> int | None:
        """Return the id of the partition's leader, None without a leader or when its address is unknown."""
        info = self.partition(topic_partition)
        return info.leader if info is not None and info.leader in self.brokers else None

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """Return the epoch of the partition's leader, -1 where unknown."""
        info = self.partition(topic_partition)
        return -1 if info is None else info.leader_epoch

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, None where unknown."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)


EMPTY_VIEW = ClusterView(None, -1, {}, {})

FOREVER = 1 << 62


class MetadataCache:
    """Newest view of the cluster, and the time of the next request. Times are monotonic milliseconds.

    With `max_idle_ms`, a topic is dropped when it was neither wanted nor put into `used` for that long (metadata.max.idle.ms). Uses are
    dated when the next response arrives, so that a use does not read the clock.
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
        """Topics that were used since the last response; any thread may add to this set."""

    @property
    def has_answer(self) -> bool:
        """Return whether a broker has ever answered."""
        return self._updated_ms is not None

    def want(self, topics: Iterable[str]) -> bool:
        """Add topics to the wanted ones; return whether at least one of them is unknown or has an error."""
        missing = False
        for topic in topics:
            self.wanted.add(topic)
            self.used.add(topic)
            info = self.view.topics.get(topic)
            missing = missing or info is None or info.error is not ErrorCode.NONE
        return missing

    def request_update(self) -> None:
        """Note that a response contradicted the view, so that it has to be refreshed."""
        self._requested = True

    def due_in_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the view has to be refreshed; 0 when it is due."""
        if self._requested or self._updated_ms is None:
            return 0
        return max(0, self._updated_ms + self._max_age_ms - now_ms)

    def asking(self, now_ms: int) -> int:
        """Note that a request is sent. Return the milliseconds since the first request that is still unanswered (KIP-1102)."""
        if self._asking_since_ms is None:
            self._asking_since_ms = now_ms
        return now_ms - self._asking_since_ms

    def rebootstrap(self, now_ms: int) -> None:
        """Forget all brokers, as none of them is usable (KIP-899). Topics keep their state until the next response."""
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
        """Process a response and return the new view: brokers as a whole, topics one by one.

        An older leader epoch never replaces a newer one.
        """
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
        """Drop a topic, for instance after it was deleted."""
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
    """Return a DescribeCluster response about controllers in the form of a Metadata response without topics (KIP-919)."""
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
"""Errors after which the view has to be refreshed (Java's InvalidMetadataException)."""
