"""Partition in memory, and a shard that stores numbers. Together with a `ManualClock` they are enough to run the coordinator runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal, VersionedDict
from odradek.coordinator.records import CoordinatorRecord, RecordSerde
from odradek.coordinator.shard import CoordinatorResult, LoadedBatch
from odradek.coordinator.timers import Timers
from odradek.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from odradek.records.batch import decode_batch, iter_headers
from odradek.storage.append import read_marker

PARTITION = TopicPartition("__consumer_offsets", 0)
SERDE = RecordSerde([(OffsetCommitKey, OffsetCommitValue)])


class MemoryLog:
    """Log of batches in memory. With `fail_with` appends raise that error; with `auto_commit` each append moves the high watermark."""

    def __init__(self, *, auto_commit: bool = True) -> None:
        self.batches: list[bytes] = []
        self.versions: list[int] = []
        """Transaction version of each batch."""
        self.leader_epochs: list[int] = []
        """Leader epoch in which each batch was appended."""
        self.leads_on = True
        """Whether the log is unchanged when this node becomes leader again in a later epoch."""
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.max_batch_bytes = 1_000_000
        self.auto_commit = auto_commit
        self.fail_with: ErrorCode | None = None
        self.reads: list[Deferred[Sequence[LoadedBatch]]] | None = None
        """When set to a list, reads are added to the list, and the test completes them."""
        self._listeners: list[tuple[Callable[[int], object], Callable[[], object]]] = []

    def append(self, batch: bytes, leader_epoch: int, guard: object | None = None, transaction_version: int = 0) -> int:
        if self.fail_with is not None:
            raise KafkaError(self.fail_with, "as the test wanted")
        base = self.log_end_offset
        self.versions.append(transaction_version)
        self.leader_epochs.append(leader_epoch)
        self.batches.append(base.to_bytes(8, "big") + batch[8:])
        self.log_end_offset += sum(header.last_offset_delta + 1 for _, header in iter_headers(batch))
        if self.auto_commit:
            self.commit(self.log_end_offset)
        return base

    def boundaries(self) -> list[int]:
        """Return the end offsets of batches from the high watermark on, as replicas fetch whole batches."""
        ends = [header.next_offset for batch in self.batches for _, header in iter_headers(batch)]
        return [self.high_watermark, *[end for end in ends if end > self.high_watermark]]

    def commit(self, offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        for on_high_watermark, _ in list(self._listeners):
            on_high_watermark(self.high_watermark)

    def lose(self) -> None:
        for _, on_lost in list(self._listeners):
            on_lost()

    def truncate(self, offset: int) -> None:
        """Remove batches at or beyond the offset, as when a new leader does not have them."""
        while self.batches and int.from_bytes(self.batches[-1][:8], "big") >= offset:
            self.batches.pop()
            self.log_end_offset = 0
        self.log_end_offset = max([header.next_offset for batch in self.batches for _, header in iter_headers(batch)], default=0)

    @property
    def listeners(self) -> int:
        """Number of registered listeners."""
        return len(self._listeners)

    def continue_leading(self, leader_epoch: int) -> bool:
        return self.leads_on

    def listen(self, on_high_watermark: Callable[[int], object], on_lost: Callable[[], object]) -> Callable[[], None]:
        entry = (on_high_watermark, on_lost)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]]:
        found: list[LoadedBatch] = []
        size = 0
        for batch in self.batches:
            for position, header in iter_headers(batch):
                if start_offset <= header.last_offset and header.base_offset < end_offset and size < max_bytes:
                    size += header.size
                    found.append(_loaded(memoryview(batch), position))
        if self.reads is None:
            return Deferred.of(found)
        later: Deferred[Sequence[LoadedBatch]] = Deferred()
        self.reads.append(later)
        return later


def _loaded(batch: memoryview, position: int) -> LoadedBatch:
    header = next(iter(iter_headers(batch)))[1]
    marker = read_marker(batch, position, header) if header.is_control else None
    return LoadedBatch(
        header.base_offset,
        header.next_offset,
        header.producer_id,
        header.producer_epoch,
        None if marker is None else not marker.aborted,
        [] if header.is_control else [(record.offset, record.key, record.value) for record in decode_batch(batch, position, header)],
    )


def commit_record(key: str, value: int | None) -> CoordinatorRecord:
    return CoordinatorRecord(
        OffsetCommitKey(group="g", topic=key, partition=0),
        None if value is None else OffsetCommitValue(offset=value, metadata="", commit_timestamp=0),
        3,
    )


class Table:
    """Shard that stores a number under each key. Writes of a transaction wait for its marker."""

    def __init__(self, topic_partition: TopicPartition, journal: UndoJournal, timers: Timers) -> None:
        self.values: VersionedDict[str, int] = VersionedDict(journal)
        self.pending: VersionedDict[int, tuple[tuple[str, int | None], ...]] = VersionedDict(journal)
        self.timers = timers
        self.loaded = self.unloaded = self.new_epochs = 0
        self.replayed: list[int] = []

    def put(self, key: str, value: int | None) -> CoordinatorResult[int | None]:
        return CoordinatorResult([commit_record(key, value)], self.values.get(key))

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        self.replayed.append(offset)
        value = record.value
        number = value.offset if isinstance(value, OffsetCommitValue) else None
        if producer_id >= 0:
            self.pending[producer_id] = (*(self.pending.get(producer_id) or ()), (record.key.topic, number))
        else:
            self._apply(record.key.topic, number)

    def replay_end_transaction(self, offset: int, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        for key, number in self.pending.pop(producer_id) or ():
            if committed:
                self._apply(key, number)

    def _apply(self, key: str, number: int | None) -> None:
        if number is None:
            self.values.pop(key)
        else:
            self.values[key] = number

    def on_loaded(self, image: object) -> None:
        self.loaded += 1

    def on_metadata(self, delta: object, image: object) -> None:
        pass

    def on_new_epoch(self) -> None:
        self.new_epochs += 1

    def on_unloaded(self) -> None:
        self.unloaded += 1
