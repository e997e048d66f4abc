"""ListOffsets and OffsetForLeaderEpoch on local logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.replication.fetch_params import CONSUMER, DEBUGGING_CONSUMER, READ_COMMITTED
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.storage.log import Log

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SUPPORTED_FROM: dict[int, int] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""ListOffsets version that introduced each special timestamp (KIP-734, 405, 1005, 1023)."""


class OffsetAnswer(NamedTuple):
    """Timestamp (milliseconds; -1 for special positions), offset (-1: none) and leader epoch (-1: unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


NOTHING = OffsetAnswer(-1, -1, -1)


class OffsetLookup:
    """Lookup of offsets in hosted partitions. Raises `KafkaError` with the partition's error."""

    __slots__ = ("_partitions",)

    def __init__(self, partitions: HostedPartitions) -> None:
        self._partitions = partitions

    def list_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        *,
        current_leader_epoch: int,
        replica_id: int,
        isolation_level: int,
        version: int,
    ) -> OffsetAnswer:
        """Return the first offset whose record is at or after `timestamp`, or a special position, within the range that consumers may read.

        Raises UNSUPPORTED_VERSION for a special timestamp that `version` does not know. Raises OFFSET_NOT_AVAILABLE (before version 5
        LEADER_NOT_AVAILABLE) while a new leader's high watermark has not reached the start of its epoch.
        """
        if timestamp < 0 and version < SUPPORTED_FROM.get(timestamp, 0x7FFF):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the special timestamp {timestamp} does not exist in version {version}")
        partition = self._partitions.find(topic_partition)
        log = partition.local_log(current_leader_epoch, leader_only=replica_id != DEBUGGING_CONSUMER)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return _earliest(log)
        unavailable = self._lagging(partition, log, version) if replica_id == CONSUMER else None
        last_fetchable = _last_fetchable(log, replica_id, isolation_level)
        if timestamp == LATEST:
            if unavailable is not None:
                raise unavailable
            return OffsetAnswer(-1, last_fetchable, partition.leader_epoch)
        found = _search(log, timestamp)
        if found is not None and found.offset < last_fetchable:
            return found
        if unavailable is not None:
            raise unavailable
        return NOTHING

    @staticmethod
    def _lagging(partition: Partition, log: Log, version: int) -> KafkaError | None:
        start = partition.leader_epoch_start_offset
        if start is None or start <= log.high_watermark:
            return None
        return KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE,
            f"the high watermark {log.high_watermark} has not reached the start {start} of the leader epoch",
        )

    def epoch_end(self, topic_partition: TopicPartition, current_leader_epoch: int, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch <= `leader_epoch` in the leader's log and its end offset (exclusive); (-1, -1) without such an epoch."""
        log = self._partitions.find(topic_partition).local_log(current_leader_epoch, leader_only=True)
        return log.end_offset_for_epoch(leader_epoch)


def _last_fetchable(log: Log, replica_id: int, isolation_level: int) -> int:
    if replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark


def _earliest(log: Log) -> OffsetAnswer:
    first = log.leader_epochs.earliest
    known = first is not None and first.start_offset <= log.log_start_offset
    return OffsetAnswer(-1, log.log_start_offset, first.epoch if first is not None and known else -1)


def _search(log: Log, timestamp: int) -> OffsetAnswer | None:
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING  # no records are in remote storage or wait to be uploaded
    found = log.offset_for_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return None if found is None else OffsetAnswer(*found)
