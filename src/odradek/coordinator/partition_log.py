"""Log of a shard's partition, as hosted by the broker (CoordinatorPartitionWriter, CoordinatorLoaderImpl)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.shard import LoadedBatch, LoadedRun
from odradek.records.batch import BatchHeader, decode_batch, iter_headers
from odradek.storage.append import AppendOrigin, read_marker
from odradek.storage.producer_state import VerificationGuard

if TYPE_CHECKING:
    from odradek.replication.partition import Partition
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.storage.reading import LogRead

T = TypeVar("T")

RunJob = Callable[[Callable[[], None]], Deferred[None]]
"""Function that runs a function in an executor."""

ALL_IN_SYNC = -1


class PartitionLog:
    """Implementation of `coordinator.shard.CoordinatorLog`.

    The log is usable only while this broker leads the partition in one epoch: the epoch at the creation, or the epoch of the last
    `continue_leading`.
    """

    def __init__(self, manager: ReplicaManager, partition: Partition, run_job: RunJob, *, runs: bool = False) -> None:
        """Create the log. With `runs` the log is read as LoadedRun, otherwise as decoded batches."""
        self._manager = manager
        self._partition = partition
        self._run_job = run_job
        self._leader_epoch = partition.leader_epoch
        self._runs = runs

    @property
    def log_start_offset(self) -> int:
        return self._partition.local_log(self._leader_epoch, leader_only=True).log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.local_log(self._leader_epoch, leader_only=True).log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.local_log(self._leader_epoch, leader_only=True).high_watermark

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.local_log(self._leader_epoch, leader_only=True).config.max_message_bytes

    def append(self, batch: bytes, leader_epoch: int, guard: object | None = None, transaction_version: int = 0) -> int:
        """See CoordinatorLog. Fetchers that wait for the records are woken in the next loop iteration."""
        partition = self._partition
        if partition.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition.topic_partition} in epoch {leader_epoch} any more"
            )
        verified = guard if isinstance(guard, VerificationGuard) else None
        info, _ = partition.append_as_leader(memoryview(batch), ALL_IN_SYNC, AppendOrigin.COORDINATOR, verified, transaction_version)
        log = partition.log
        if log is not None and log.high_watermark <= info.last_offset and log.flush_due:
            self._manager.flusher.flush(partition).add_callback(lambda _: self._manager.delayed.drain())
        # The shard listens to the high watermark itself, so only fetchers have to be woken.
        delayed = self._manager.delayed
        delayed.log_end_moved(partition.topic_partition)
        delayed.drain_soon()
        return info.first_offset

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]:
        """See CoordinatorLog."""
        log = self._partition.local_log(self._leader_epoch, leader_only=True)
        read = log.read(start_offset, max_bytes=max_bytes, max_offset=end_offset, min_one_message=True)
        if self._runs:

            def decode(data: bytes, position: int) -> tuple[LoadedBatch, int] | None:
                return decode_one(data, position, end_offset)

            return self._in_executor(read, lambda: LoadedRun(_bytes(read), decode))
        return self._in_executor(read, lambda: _decode(read, end_offset))

    def _in_executor(self, read: LogRead, work: Callable[[], T]) -> Deferred[T]:
        found: list[T] = []
        job = self._run_job(lambda: found.append(work()))
        job.add_callback(lambda _: read.release())
        return job.then(lambda _: found[0])

    def listen(self, on_high_watermark: Callable[[int], object], on_lost: Callable[[], object]) -> Callable[[], None]:
        """See CoordinatorLog."""
        partition = self._partition

        def changed() -> None:
            log = partition.log
            if log is None or not partition.is_leader or partition.leader_epoch != self._leader_epoch:
                on_lost()
            else:
                on_high_watermark(log.high_watermark)

        return self._manager.delayed.listen(partition.topic_partition, changed)

    def continue_leading(self, leader_epoch: int) -> bool:
        """See CoordinatorLog."""
        partition = self._partition
        if not partition.is_leader or partition.leader_epoch != leader_epoch:
            return False
        self._leader_epoch = leader_epoch
        return True


def open_partition_log(manager: ReplicaManager, run_job: RunJob, *, runs: bool = False) -> Callable[[TopicPartition], PartitionLog]:
    """Return the function with which a CoordinatorRuntime opens logs; it raises KafkaError unless this broker leads the partition.

    Set `runs` when the shards implement EncodedReplay.
    """

    def open_log(topic_partition: TopicPartition) -> PartitionLog:
        partition = manager.partition(topic_partition)
        log = PartitionLog(manager, partition, run_job, runs=runs)
        partition.local_log(-1, leader_only=True)
        return log

    return open_log


def _bytes(read: LogRead) -> bytes:
    return b"".join([file_slice.read(0, file_slice.size) for file_slice in read.slices])


def _decode(read: LogRead, end_offset: int) -> Sequence[LoadedBatch]:
    """Decode the batches of a read, in the executor. A batch that the read truncated is left to the next read."""
    data = _bytes(read)
    batches: list[LoadedBatch] = []
    position = 0
    while (decoded := decode_one(data, position, end_offset)) is not None:
        batch, position = decoded
        batches.append(batch)
    return batches


def decode_one(data: bytes, position: int, end_offset: int) -> tuple[LoadedBatch, int] | None:
    """Return the batch at `position` and the position after it; None for a truncated batch, or one that begins at `end_offset` or later."""
    view = memoryview(data)[position:]
    for _, header in iter_headers(view):
        if header.size > len(view) or header.base_offset >= end_offset:
            return None
        return _loaded(view, 0, header), position + header.size
    return None


def _loaded(data: memoryview, position: int, header: BatchHeader) -> LoadedBatch:
    marker = read_marker(data, position, header) if header.is_control else None
    return LoadedBatch(
        header.base_offset,
        header.next_offset,
        header.producer_id if header.is_transactional else -1,
        header.producer_epoch,
        None if marker is None else not marker.aborted,
        [] if header.is_control else [(record.offset, record.key, record.value) for record in decode_batch(data, position, header)],
    )
