"""Responses built from an image: Metadata, DescribeTopicPartitions, DescribeCluster (org.apache.kafka.metadata.KRaftMetadataCache)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.metadata.image import MetadataImage, TopicImage
from odradek.metadata.registrations import NO_LEADER, BrokerRegistration, PartitionRegistration, RegisteredEndpoint
from odradek.metadata.topic_names import is_internal, topic_name_error
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from odradek.protocol.messages.metadata import MetadataResponse

MetadataTopic = MetadataResponse.MetadataResponseTopic
MetadataPartition = MetadataResponse.MetadataResponsePartition
DescribedTopic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
DescribedPartition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition

_AT_ONCE = 16
"""Number of partitions of a response built per generator step. A step costs a tenth of the work for one partition."""


class BrokersSeen:
    """Brokers of an image as a client sees them through one listener. Facts shared by all partitions are computed once."""

    __slots__ = ("_directories", "_serving", "reachable")

    def __init__(self, image: MetadataImage, listener: str) -> None:
        seen = {broker_id: broker for broker_id, broker in image.cluster.brokers.items() if broker.endpoint(listener) is not None}
        self.reachable = frozenset(seen)
        """Ids of the brokers with the listener, fenced or not."""
        self._serving = {broker_id: broker for broker_id, broker in seen.items() if not broker.fenced}
        self._directories: dict[tuple[int, int], bool] = {}
        """Whether a log directory is offline, by (broker, directory). Ids are ints, because Python code compares UUIDs."""

    def offline_replicas(self, partition: PartitionRegistration) -> list[int]:
        """Return the replicas on brokers that are gone, fenced or without the listener, and those in failed log directories."""
        known = self._directories
        offline: list[int] = []
        for replica, directory in zip(partition.replicas, partition.directories, strict=True):
            place = (replica, directory.int)
            is_offline = known.get(place)
            if is_offline is None:
                is_offline = known[place] = self._is_offline(replica, directory)
            if is_offline:
                offline.append(replica)
        return offline

    def _is_offline(self, broker_id: int, directory: UUID) -> bool:
        broker = self._serving.get(broker_id)
        return broker is None or not broker.has_online_directory(directory)


def with_listener(brokers: Iterable[BrokerRegistration], listener: str) -> Iterator[tuple[BrokerRegistration, RegisteredEndpoint]]:
    """Yield each broker that has the listener, with its endpoint."""
    for broker in brokers:
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            yield broker, endpoint


def unknown_topic_error(name: str) -> ErrorCode:
    """Return the error for an unknown topic: INVALID_TOPIC_EXCEPTION for an invalid name, else UNKNOWN_TOPIC_OR_PARTITION."""
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def metadata_topics(
    image: MetadataImage, names: Iterable[str], listener: str, *, hide_unreachable: bool, listener_errors: bool
) -> Iterator[MetadataResponse.MetadataResponseTopic | None]:
    """Yield the topics among `names` that exist, and None between partitions, where other work may run.

    `hide_unreachable` (version 0) leaves out replicas without the listener. When the leader is registered but lacks the listener, its
    partition gets LISTENER_NOT_FOUND with `listener_errors` (from version 6), else LEADER_NOT_AVAILABLE.
    """
    seen = BrokersSeen(image, listener)
    for name in names:
        topic = image.topics.by_name.get(name)
        if topic is not None:
            partitions: list[MetadataPartition] = []
            for number in sorted(topic.partitions):
                partitions.append(_metadata_partition(image, number, topic.partitions[number], seen, hide_unreachable, listener_errors))
                if not len(partitions) % _AT_ONCE:
                    yield None
            yield MetadataTopic(name=name, topic_id=topic.topic_id, is_internal=is_internal(name), partitions=partitions)


def _metadata_partition(
    image: MetadataImage, number: int, partition: PartitionRegistration, seen: BrokersSeen, hide_unreachable: bool, listener_errors: bool
) -> MetadataResponse.MetadataResponsePartition:
    reachable = seen.reachable
    replicas, isr = list(partition.replicas), list(partition.isr)
    if hide_unreachable:
        replicas = [replica for replica in replicas if replica in reachable]
        isr = [replica for replica in isr if replica in reachable]
    response = MetadataPartition(
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=seen.offline_replicas(partition),
    )
    if partition.leader not in reachable:
        known = partition.leader in image.cluster.brokers
        response.error_code = ErrorCode.LISTENER_NOT_FOUND if known and listener_errors else ErrorCode.LEADER_NOT_AVAILABLE
        response.leader_id = NO_LEADER
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        response.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return response


def describe_topics(
    image: MetadataImage, names: Iterable[str], listener: str, *, first_topic: str, first_partition: int, limit: int, only_existing: bool
) -> DescribeTopicPartitionsResponse:
    """Return a page of at most `limit` partitions from `first_partition` of `first_topic` on. `names` must be in order.

    The cursor names the next partition, or partition 0 of the next topic. With `only_existing` unknown topics are left out; otherwise they
    get an error.
    """
    response = DescribeTopicPartitionsResponse()
    seen = BrokersSeen(image, listener)
    remaining = limit
    for name in names:
        if remaining == 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            if not only_existing:
                response.topics.append(
                    DescribedTopic(error_code=unknown_topic_error(name), name=name, topic_id=ZERO_UUID, is_internal=is_internal(name))
                )
            continue
        start = first_partition if name == first_topic else 0
        end = min(len(topic.partitions), start + remaining)
        partitions = _described_partitions(topic, range(start, end), seen)
        response.topics.append(DescribedTopic(name=name, topic_id=topic.topic_id, is_internal=is_internal(name), partitions=partitions))
        if end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=end)
            break
        remaining -= len(partitions)
    return response


def _described_partitions(
    topic: TopicImage, numbers: Iterable[int], seen: BrokersSeen
) -> list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]:
    found: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = []
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is None:
            continue
        found.append(
            DescribedPartition(
                partition_index=number,
                leader_id=partition.leader if partition.leader in seen.reachable else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=seen.offline_replicas(partition),
            )
        )
    return found
