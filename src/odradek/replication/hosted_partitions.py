"""The partitions a broker hosts."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.replication.cluster_view import ClusterView
from odradek.replication.partition import Partition


class HostedPartitions:
    """By name. Those whose log directory failed stay in the table, in role OFFLINE."""

    __slots__ = ("_cluster", "by_name")

    def __init__(self, cluster: ClusterView) -> None:
        self.by_name: dict[TopicPartition, Partition] = {}
        self._cluster = cluster

    def find(self, topic_partition: TopicPartition) -> Partition:
        """The hosted partition; NOT_LEADER_OR_FOLLOWER when only other brokers host it, UNKNOWN_TOPIC_OR_PARTITION when nobody does."""
        partition = self.by_name.get(topic_partition)
        if partition is not None:
            return partition
        if self._cluster.has_partition(topic_partition):
            # It exists, so the client's metadata is newer or older than ours; either way it should look again and retry.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not hosted by this broker")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")

    def error(self, topic_partition: TopicPartition, otherwise: ErrorCode) -> ErrorCode:
        """`otherwise`, unless the partition does not exist at all: that is what a client must hear first."""
        if topic_partition in self.by_name or self._cluster.has_partition(topic_partition):
            return otherwise
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
