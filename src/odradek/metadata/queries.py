"""Answers read off an image: Metadata, DescribeTopicPartitions, DescribeCluster (org.apache.kafka.metadata.KRaftMetadataCache)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def with_listener(brokers: Iterable[BrokerRegistration], listener: str) -> Iterator[tuple[BrokerRegistration, RegisteredEndpoint]]:
    """Those of the brokers that have the listener, and where."""
    for broker in brokers:
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            yield broker, endpoint


def unknown_topic_error(name: str) -> ErrorCode:
    """The error for a topic that is not there: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_TOPIC_EXCEPTION when no topic may have the name."""
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def metadata_topics(
    image: MetadataImage, names: Iterable[str], listener: str, *, hide_unreachable: bool, listener_errors: bool
) -> list[MetadataResponse.MetadataResponseTopic]:
    """The topics among `names` that exist.

    `hide_unreachable` (version 0) leaves out replicas without the listener. `listener_errors` (from version 6) answers LISTENER_NOT_FOUND,
    not LEADER_NOT_AVAILABLE, when the leader is registered but lacks the listener.
    """
    found: list[MetadataResponse.MetadataResponseTopic] = []
    for name in names:
        topic = image.topics.by_name.get(name)
        if topic is not None:
            partitions = [
                _metadata_partition(image, number, topic.partitions[number], listener, hide_unreachable, listener_errors)
                for number in sorted(topic.partitions)
            ]
            found.append(MetadataTopic(name=name, topic_id=topic.topic_id, is_internal=is_internal(name), partitions=partitions))
    return found


def _metadata_partition(
    image: MetadataImage, number: int, partition: PartitionRegistration, listener: str, hide_unreachable: bool, listener_errors: bool
) -> MetadataResponse.MetadataResponsePartition:
    replicas = [r for r in partition.replicas if not hide_unreachable or _reachable(image, r, listener)]
    isr = [r for r in partition.isr if not hide_unreachable or _reachable(image, r, listener)]
    response = MetadataPartition(
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener),
    )
    if not _reachable(image, partition.leader, listener):
        known = partition.leader in image.cluster.brokers
        response.error_code = ErrorCode.LISTENER_NOT_FOUND if known and listener_errors else ErrorCode.LEADER_NOT_AVAILABLE
        response.leader_id = NO_LEADER
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        response.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return response


def _reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    broker = image.cluster.brokers.get(broker_id)
    return broker is not None and broker.endpoint(listener) is not None


def offline_replicas(image: MetadataImage, partition: PartitionRegistration, listener: str) -> list[int]:
    """Replicas on brokers that are gone, fenced or without the listener, or in a log directory that failed."""
    offline: list[int] = []
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = image.cluster.brokers.get(replica)
        if broker is None or broker.fenced or broker.endpoint(listener) is None or not broker.has_online_directory(directory):
            offline.append(replica)
    return offline


def describe_topics(
    image: MetadataImage, names: Iterable[str], listener: str, *, first_topic: str, first_partition: int, limit: int, only_existing: bool
) -> DescribeTopicPartitionsResponse:
    """A page of at most `limit` partitions of the topics, which come in order; it begins at `first_partition` of `first_topic`.

    The cursor names the next partition, or partition 0 of the next topic. With `only_existing` unknown topics are left out.
    """
    response = DescribeTopicPartitionsResponse()
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
        partitions = _described_partitions(image, topic, range(start, end), listener)
        response.topics.append(DescribedTopic(name=name, topic_id=topic.topic_id, is_internal=is_internal(name), partitions=partitions))
        if end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=end)
            break
        remaining -= len(partitions)
    return response


def _described_partitions(
    image: MetadataImage, topic: TopicImage, numbers: Iterable[int], listener: str
) -> list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]:
    found: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = []
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is None:
            continue
        found.append(
            DescribedPartition(
                partition_index=number,
                leader_id=partition.leader if _reachable(image, partition.leader, listener) else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline_replicas(image, partition, listener),
            )
        )
    return found
