"""Cleaning of one log: the map of offsets, then one cleaned segment after the other (Kafka's Cleaner).

The generator `Cleaner.run` does the long work in an executor. It yields where it needs the loop, and where it may be stopped or slowed
down. `run.CleaningRun` drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import HEADER_SIZE, BatchHeader, check_crc, iter_headers, read_header
from odradek.records.compaction import OffsetMap, filter_batch, index_batch
from odradek.records.runs import RunFilter, index_run, is_plain
from odradek.storage.compaction.plan import CleaningPlan, Source, group_sources
from odradek.storage.compaction.transactions import CleanedTransactions
from odradek.storage.compaction.writer import CleanedSegment


class Moved(NamedTuple):
    """Event: bytes read and written since the previous event."""

    size: int


class Wanted(NamedTuple):
    """Event: segments that are read next. The loop has to take them (`Source.take`) and may release all others."""

    sources: Sequence[Source]


class Cleaned(NamedTuple):
    """Event: a durable cleaned segment that replaces its sources."""

    segment: CleanedSegment
    sources: Sequence[Source]


class CleanerStats:
    """Figures of a cleaning; sizes in bytes."""

    __slots__ = ("buffer_utilization", "bytes_read", "bytes_written", "records_read", "records_written", "segments")

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_written = 0
        self.segments = 0
        self.buffer_utilization = 0.0


class Cleaner:
    """Cleaning of one plan. After `run` has ended, `end_offset` is where the next cleaning begins."""

    __slots__ = ("_buffer_bytes", "_disk", "_map", "_map_full", "_now_ms", "_plan", "_runs", "_unfinished", "end_offset", "stats")

    def __init__(self, disk: Disk, plan: CleaningPlan, offset_map: OffsetMap, *, buffer_bytes: int, now_ms: int) -> None:
        """`buffer_bytes` are read and written at a time; larger batches are read as a whole. Delete horizons are compared with `now_ms`."""
        self._disk = disk
        self._plan = plan
        self._map = offset_map
        self._buffer_bytes = max(buffer_bytes, HEADER_SIZE)
        self._now_ms = now_ms
        self._unfinished: CleanedSegment | None = None
        self._map_full = False
        self._runs: RunFilter | None = None
        self.end_offset = plan.first_dirty
        self.stats = CleanerStats()

    def run(self) -> Iterator[Moved | Wanted | Cleaned]:
        """Run the whole cleaning.

        Raises KafkaError and ProtocolError for unreadable batches, StorageError for a batch that fits into no segment, or OSError.
        """
        plan = self._plan
        yield from self._sync_tail()
        yield from self._build_map()
        self.end_offset = self._map.latest_offset + 1
        self.stats.buffer_utilization = self._map.size / self._map.capacity
        sources = [source for source in plan.sources if source.base_offset < self.end_offset]
        sizes = [(self._size(source.index_path), self._size(source.time_index_path)) for source in sources]
        self._runs = RunFilter(
            self._map,
            buffer_bytes=self._buffer_bytes,
            held_offsets=self._held_offsets(),
            now_ms=self._now_ms,
            delete_retention_ms=plan.delete_retention_ms,
        )
        transactions = CleanedTransactions()
        legacy_horizon_ms = self._legacy_horizon_ms()
        for group in group_sources(sources, sizes, plan.segment_bytes, plan.limits.segment_index_bytes, plan.first_uncleanable):
            yield from self._clean(group, transactions, legacy_horizon_ms)

    def discard(self) -> None:
        """Remove the files of a cleaning that was stopped before its end."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            unfinished.close()
            unfinished.remove()

    def _size(self, path: str) -> int:
        try:
            file = self._disk.open(path, readonly=True)
        except FileNotFoundError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def _legacy_horizon_ms(self) -> int:
        """Return the file time (ms) up to which tombstones of magic 0 and 1 may be removed.

        They stay for delete.retention.ms after the last clean segment was written.
        """
        clean = [source for source in self._plan.sources if source.base_offset < self._plan.first_dirty]
        return self._disk.modified_ms(clean[-1].log_path) - self._plan.delete_retention_ms if clean else 0

    def _sync_tail(self) -> Iterator[Wanted]:
        """Fsync the segments after the cleaned ones.

        A producer whose last batch lies there loses its older batches to the cleaning, so a power cut must not remove that last batch.
        """
        for source in self._plan.tail:
            yield Wanted((source,))
            if source.file is not None:
                source.file.fsync()

    # -- the map -----------------------------------------------------------------------------------------------------------------------

    def _build_map(self) -> Iterator[Moved | Wanted]:
        """Record the last offset of every key from the first dirty offset on, until the map is full."""
        plan, offset_map = self._plan, self._map
        offset_map.clear()
        dirty = plan.dirty_sources()
        transactions = CleanedTransactions(plan.aborted_between(plan.first_dirty, plan.first_uncleanable))
        index = partial(self._index_chunk, transactions=transactions)
        for number, source in enumerate(dirty):
            yield Wanted((source,))
            if source.file is not None:
                # A newer record must be durable before the record that it replaces is removed for good.
                source.file.fsync()
            position = plan.start_position if number == 0 else 0
            for size in self._chunks(source, position, index):
                yield Moved(size)
                if self._map_full:
                    return
            # Offsets may be missing at the segment's end.
            end = dirty[number + 1].base_offset if number + 1 < len(dirty) else plan.first_uncleanable
            offset_map.latest_offset = max(offset_map.latest_offset, end - 1)

    def _index(self, batch: memoryview, header: BatchHeader, transactions: CleanedTransactions) -> bool:
        start = self._plan.first_dirty
        if header.is_control:
            transactions.is_spent(batch, header)
        elif not transactions.is_aborted(header):
            return index_batch(self._map, batch, header, start)
        if header.last_offset >= start:
            self._map.latest_offset = header.last_offset
        return True

    def _index_chunk(self, data: memoryview, transactions: CleanedTransactions) -> int:
        """Index the whole batches in `data` and return their size; when the map is full, set `_map_full` and stop."""
        offset_map, start = self._map, self._plan.first_dirty
        position = 0
        while True:
            if is_plain(data, position):
                position = index_run(offset_map, data, position, len(data), start)
            header = _whole_header(data, position)
            if header is None:
                return position
            if not self._index(data[position : position + header.size], header, transactions):
                self._map_full = True
                return position + header.size
            position += header.size

    def _chunks(self, source: Source, position: int, consume: Callable[[memoryview], int]) -> Iterator[int]:
        """Hand the bytes of a segment from `position` (a batch boundary) to `consume`, up to a buffer at a time.

        `consume` returns the size in bytes of the whole batches that it has found, and this size is yielded. A batch that is larger than
        the buffer is passed alone.

        Raises KafkaError CORRUPT_MESSAGE where no batch can be read.
        """
        while position < source.size:
            size = consume(self._read(source, self._buffer_bytes, position))
            if size == 0:
                size = consume(self._read(source, self._batch_size(source, position), position))
                if size == 0:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{source.log_path}: the batch at position {position} cannot be read")
            yield size
            position += size

    def _read(self, source: Source, size: int, position: int) -> memoryview:
        file = source.file
        assert file is not None, "the loop takes the segments that are wanted"
        return memoryview(file.pread(min(size, source.size - position), position))

    def _batch_size(self, source: Source, position: int) -> int:
        """Return the size of a batch that is larger than the buffer.

        Raises KafkaError CORRUPT_MESSAGE when the segment ends before the batch does.
        """
        file = source.file
        assert file is not None
        left = source.size - position
        size = read_header(file.pread(min(HEADER_SIZE, left), position), 0).size
        if size > left:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{source.log_path}: the batch at position {position} is longer than the segment")
        return size

    # -- the segments ------------------------------------------------------------------------------------------------------------------

    def _clean(self, group: list[Source], transactions: CleanedTransactions, legacy_horizon_ms: int) -> Iterator[Moved | Wanted | Cleaned]:
        """Copy the records to keep of several segments into one segment."""
        plan = self._plan
        yield Wanted(group)
        cleaned = CleanedSegment(self._disk, plan.directory, group[0].base_offset, plan.limits, self._buffer_bytes)
        self._unfinished = cleaned
        transactions.retained = []
        modified_ms = 0
        for source in group:
            transactions.add_aborted(plan.aborted_between(source.base_offset, source.end_offset))
            modified_ms = self._disk.modified_ms(source.log_path)
            copy = partial(self._copy_chunk, cleaned=cleaned, transactions=transactions, retain_legacy=modified_ms > legacy_horizon_ms)
            before = cleaned.size
            for size in self._chunks(source, 0, copy):
                self.stats.bytes_read += size
                yield Moved(size + cleaned.size - before)
                before = cleaned.size
        cleaned.complete(transactions.retained, modified_ms)
        self.stats.bytes_written += cleaned.size
        self.stats.segments += len(group)
        yield Cleaned(cleaned, group)
        self._unfinished = None

    def _copy_chunk(self, data: memoryview, *, cleaned: CleanedSegment, transactions: CleanedTransactions, retain_legacy: bool) -> int:
        """Copy the records to keep of the whole batches in `data`, and return the size of these batches."""
        runs = self._runs
        assert runs is not None
        position = 0
        while True:
            if is_plain(data, position):
                run = runs.run(data, position, len(data), cleaned.books)
                cleaned.append_run(run)
                self.stats.records_read += run.records_read
                self.stats.records_written += run.records_kept
                position = run.end
            header = _whole_header(data, position)
            if header is None:
                return position
            batch = data[position : position + header.size]
            self._copy(batch, header, cleaned, transactions, retain_legacy=retain_legacy)
            position += header.size

    def _held_offsets(self) -> list[int]:
        """Return the last offsets of data batches that are kept even without records: see `_copy`."""
        plan = self._plan
        return [plan.first_uncleanable - 1, *(last.last_data_offset for last in plan.producers.values())]

    def _copy(
        self, batch: memoryview, header: BatchHeader, cleaned: CleanedSegment, transactions: CleanedTransactions, *, retain_legacy: bool
    ) -> None:
        if not check_crc(batch, 0, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {header.base_offset} has the wrong checksum")
        plan = self._plan
        spent = False
        if header.is_control:
            spent = transactions.is_spent(batch, header)
            horizon = header.delete_horizon_ms
            discard = spent and horizon is not None and horizon <= self._now_ms
        else:
            discard = transactions.is_aborted(header)
        retain_empty = self._is_last_of_producer(header) or header.next_offset == plan.first_uncleanable
        kept = filter_batch(
            batch,
            header,
            self._map,
            discard_records=discard,
            retain_empty=retain_empty,
            now_ms=self._now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            legacy_retain_deletes=retain_legacy,
            empty_transaction=spent,
        )
        self.stats.records_read += kept.records_read
        self.stats.records_written += kept.records_kept
        if kept.data is not None:
            cleaned.append(kept.data, kept.last_offset, kept.max_timestamp)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether the batch holds the state of an active producer: its last sequence or, after a marker, at least its epoch."""
        if header.producer_id < 0:
            return False
        last = self._plan.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch


def _whole_header(data: memoryview, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`, None when the batch is incomplete.

    Raises KafkaError CORRUPT_MESSAGE for an impossible length or magic.
    """
    found = next(iter_headers(data[position:]), None)
    return None if found is None else found[1]
