"""Result of a produce request, and the wait of one with acks=-1 for the high watermarks of several partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.base.deferred import Applied
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.purgatory import DelayedOperation


class PartitionAppend:
    """Result of appending one partition's records; becomes part of the produce response. Offsets and times are -1 when unknown."""

    __slots__ = (
        "base_offset",
        "error",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "required_offset",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode = ErrorCode.NONE,
        *,
        base_offset: int = -1,
        required_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[tuple[int, str | None]] = (),
        error_message: str | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.error = error
        self.base_offset = base_offset
        self.required_offset = required_offset
        """High watermark that acknowledges the records."""
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        """Pairs of index in the batch and message, for the records that are invalid."""
        self.error_message = error_message

    def __repr__(self) -> str:
        return f"PartitionAppend({self.topic_partition}, {self.error.name}, base_offset={self.base_offset})"


Appends = list[PartitionAppend]


class DelayedProduce(DelayedOperation[TopicPartition]):
    """Produce request that waits until every partition has reached its required offset or failed.

    Partitions that are still pending at the timeout get REQUEST_TIMED_OUT. Their records stay in the log and may still become committed.
    `acks.Acks` handles requests that wait for one partition. (kafka.server.DelayedProduce)
    """

    __slots__ = ("_appends", "_partitions", "_pending", "result")

    def __init__(self, partitions: HostedPartitions, appends: Appends) -> None:
        super().__init__()
        self._partitions = partitions
        self._appends = appends
        self._pending: dict[TopicPartition, PartitionAppend] = {
            append.topic_partition: append for append in appends if append.error is ErrorCode.NONE
        }
        self.result: Applied[Appends] = Applied()

    def check_all(self) -> bool:
        """Check every pending partition, without completing the operation. Return whether none is left."""
        for key in list(self._pending):
            self._check(key)
        return not self._pending

    @property
    def pending(self) -> Mapping[TopicPartition, PartitionAppend]:
        """Partitions that are still pending."""
        return self._pending

    def _check(self, key: TopicPartition) -> None:
        append = self._pending.get(key)
        if append is None:
            return
        partition = self._partitions.by_name.get(key)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if partition is None else partition.reached(append.required_offset)
        if error is not None:
            append.error = error
            del self._pending[key]

    def try_complete(self, key: TopicPartition) -> bool:
        self._check(key)
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for append in self._pending.values():
            append.error = ErrorCode.REQUEST_TIMED_OUT
        self.result.complete(self._appends)
