"""Partitions that a broker hosts."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.replication.cluster_view import ClusterView
from odradek.replication.partition import Partition


class HostedPartitions:
    """Hosted partitions by name. A partition whose log directory failed stays in the table, in role OFFLINE."""

    __slots__ = ("_cluster", "by_name")

    def __init__(self, cluster: ClusterView) -> None:
        self.by_name: dict[TopicPartition, Partition] = {}
        self._cluster = cluster

    def find(self, topic_partition: TopicPartition) -> Partition:
        """Return the hosted partition.

        Raises NOT_LEADER_OR_FOLLOWER when only other brokers host the partition, UNKNOWN_TOPIC_OR_PARTITION when it does not exist.
        """
        partition = self.by_name.get(topic_partition)
        if partition is not None:
            return partition
        if self._cluster.has_partition(topic_partition):
            # The partition exists, so the client's metadata is newer or older than this broker's: it should refresh its metadata and retry.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not hosted by this broker")
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")

    def error(self, topic_partition: TopicPartition, otherwise: ErrorCode) -> ErrorCode:
        """Return `otherwise`, or UNKNOWN_TOPIC_OR_PARTITION when the partition does not exist: that error goes first."""
        if topic_partition in self.by_name or self._cluster.has_partition(topic_partition):
            return otherwise
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
