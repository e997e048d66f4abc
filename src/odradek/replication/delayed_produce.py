"""What becomes of a produce request, and one with acks=-1 that waits for the high watermarks of several partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.base.deferred import Applied
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.purgatory import DelayedOperation


class PartitionAppend:
    """What became of one partition's records; the produce response is made of it. Offsets and times are -1 where unknown."""

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
        """The high watermark that acknowledges the records."""
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        """(index in the batch, message) of the records at fault."""
        self.error_message = error_message

    def __repr__(self) -> str:
        return f"PartitionAppend({self.topic_partition}, {self.error.name}, base_offset={self.base_offset})"


Appends = list[PartitionAppend]


class DelayedProduce(DelayedOperation[TopicPartition]):
    """Ends when every partition has reached its required offset or failed; what is still open when time runs out is REQUEST_TIMED_OUT.

    The records of a timed-out partition stay in the log: they may yet become committed. What waits for one partition only stands in
    `acks.Acks`. (kafka.server.DelayedProduce)
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
        """Looks at every partition still open; whether none is left. Does not complete the operation."""
        for key in list(self._pending):
            self._check(key)
        return not self._pending

    @property
    def pending(self) -> Mapping[TopicPartition, PartitionAppend]:
        """The partitions still open."""
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
