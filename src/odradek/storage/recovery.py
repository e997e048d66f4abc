"""Recovery of a log after a crash: validation of segments, rebuilding of indexes and producer state (LogSegment.recover,
rebuildProducerState).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.base.errors import KafkaError, OdradekError, ProtocolError
from odradek.records.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    BatchHeader,
    check_crc,
    iter_headers,
    read_header,
)
from odradek.records.scan import Scan, ScanEnd, scan_batches
from odradek.storage.append import read_marker
from odradek.storage.batch_walk import MAX_RELATIVE_OFFSET
from odradek.storage.leader_epochs import LeaderEpochCache
from odradek.storage.producer_state import BATCHES_KEPT, BatchMetadata, ProducerStateManager
from odradek.storage.segment import Segment

_CHUNK = 1 << 20
_RECOVERY_CHUNK = 1 << 20
_RECOVERY_BATCHES = 2048
"""Limit of batches in one call of the scan, so that its columns stay small."""
_SMALLEST = 17
"""Bytes of the shortest prefix that shows a batch's size and magic."""
_RECENT_BYTES = tuple(1 << power for power in range(16, 25))
"""Bytes from the end in which a repeated batch is searched, step by step.

The last step has room for five requests of a megabyte among those of other producers.
"""
_MOST_LOOKED_AT = 8 << 20
"""Bytes that `may_hold_markers` reads at most."""
_RECENT_BATCHES = 8192
"""Limit of batches read to find a repeated one: some ten milliseconds."""


def walk_batches(segment: Segment, position: int = 0, end: int | None = None) -> Iterator[tuple[int, memoryview, int, BatchHeader]]:
    """Yield (position in the file, buffer, position in the buffer, header) of every whole batch, read a megabyte at a time.

    Ends without error at an incomplete batch. Raises KafkaError or ProtocolError for an invalid length.
    """
    limit = segment.size if end is None else min(end, segment.size)
    file = segment.file
    want = _CHUNK
    while position + HEADER_SIZE <= limit:
        data = file.pread(min(want, limit - position), position)
        buffer = memoryview(data)
        used = 0
        for at, header in iter_headers(buffer):
            yield position + at, buffer, at, header
            used = at + header.size
        if used:
            position += used
            want = _CHUNK
            continue
        if len(data) < HEADER_SIZE:
            return
        size = read_header(data, 0).size
        if size > limit - position or size <= len(data):
            return
        want = size


class Recovered(NamedTuple):
    """Result of `recover_segment`."""

    cut: int
    """Bytes removed from the end."""
    next_offset: int
    contiguous: bool
    """True if no offset is missing from the base offset on, as in a segment that was never compacted."""


def recover_segment(
    segment: Segment, state: ProducerStateManager, leader_epochs: LeaderEpochCache, former_epochs: Mapping[int, int] | None = None
) -> Recovered:
    """Truncate the segment after its last valid batch and rebuild its indexes from scratch.

    The producer state must be that of the segment's base offset. Epochs newer than those of the cache are added to it (unflushed). An epoch
    begins at its offset in `former_epochs` (epoch -> offset), if the batches allow that, else with its first batch.
    """
    segment.reset_indexes()
    size = segment.size
    segment.bytes_since_index_entry = 0
    segment.first_batch_timestamp = None
    segment.max_timestamp, segment.max_timestamp_offset, segment.max_timestamp_known = -1, segment.base_offset, True
    valid, next_offset, contiguous = _Walk(segment, state, leader_epochs, former_epochs=former_epochs).run()
    segment.size = valid
    if valid < size:
        segment.file.truncate(valid)
        # After a power cut the truncated bytes must not come back behind new batches that overwrite their beginning.
        segment.file.fsync()
    segment.time_index.maybe_append(segment.max_timestamp, segment.max_timestamp_offset)
    segment.offset_index.trim()
    segment.time_index.trim()
    return Recovered(size - valid, next_offset, contiguous)


class _Walk:
    """Single pass over a segment. The compiled scan reads many batches at a time; batches that it does not support are read one by one."""

    def __init__(
        self,
        segment: Segment,
        state: ProducerStateManager | None,
        leader_epochs: LeaderEpochCache,
        *,
        check_crcs: bool = True,
        former_epochs: Mapping[int, int] | None = None,
    ) -> None:
        """Without a producer state only the epochs are updated."""
        self._former_epochs = former_epochs or {}
        self._segment = segment
        self._state = state
        self._check_crcs = check_crcs
        self._needed = 0
        self._ended = False
        self._leader_epochs = leader_epochs
        self._position = 0
        self._next_offset = segment.base_offset
        self._contiguous = True

    def run(self) -> tuple[int, int, bool]:
        """Return (valid bytes, the offset after them, whether no offset is missing)."""
        segment = self._segment
        size, file = segment.size, segment.file
        want = _RECOVERY_CHUNK
        # One buffer for all reads: it stays in the processor's cache, and its pages are mapped already.
        room = memoryview(bytearray(min(want, size)))
        while self._position + _SMALLEST <= size:
            if want > len(room):
                room = memoryview(bytearray(want))
            begin = self._position
            left = file.pread_into(room[: min(want, size - begin)], begin)
            buffer = room[:left]
            goes_on = True
            while goes_on and self._position - begin < left:
                goes_on = self._some(buffer, begin)
            if self._position == begin:
                # The read held no whole batch: the batch is larger than the read, or the log ends here.
                needed = self._needed
                if needed <= left or needed > size - begin:
                    break
                want = needed
            else:
                want = _RECOVERY_CHUNK
            if self._ended:
                break
        return self._position, self._next_offset, self._contiguous

    def _some(self, buffer: memoryview, begin: int) -> bool:
        """Handle the batches of one scan of the buffer, which lies at `begin` in the file. Return False when more has to be read."""
        scan = scan_batches(
            buffer, self._position - begin, limit=_RECOVERY_BATCHES, check_crcs=self._check_crcs, next_offset=self._next_offset
        )
        if scan.batches:
            if scan.next_offset - 1 - self._segment.base_offset > MAX_RELATIVE_OFFSET:
                self._one_by_one(buffer, begin, scan)
                self._ended = True
                return False
            self._take(scan, scan.batches - self._last_jumped(scan, buffer), buffer, begin)
        self._needed = scan.needed
        if scan.reason is ScanEnd.LIMIT:
            return True
        if scan.reason is ScanEnd.LEGACY and scan.needed <= len(buffer) - scan.end:
            return self._legacy(buffer, begin)
        self._ended = scan.reason not in (ScanEnd.BUFFER, ScanEnd.CUT_OFF, ScanEnd.LEGACY)
        return False

    def _last_jumped(self, scan: Scan, buffer: memoryview) -> bool:
        """Return whether the last batch, and not the next one, is damaged when the two overlap: the CRC does not cover the base offset."""
        if scan.reason is not ScanEnd.OFFSETS or scan.needed > len(buffer) - scan.end:
            return False
        before = scan.last_offsets[scan.batches - 2] + 1 if scan.batches > 1 else self._next_offset
        return before <= read_header(buffer, scan.end).base_offset and scan.base_offsets[scan.batches - 1] > before

    def _one_by_one(self, buffer: memoryview, begin: int, scan: Scan) -> None:
        """Handle the batches before the first one whose offset the segment cannot hold."""
        fits = 0
        while scan.last_offsets[fits] - self._segment.base_offset <= MAX_RELATIVE_OFFSET:
            fits += 1
        self._take(scan, fits, buffer, begin)

    def _take(self, scan: Scan, count: int, buffer: memoryview, begin: int) -> None:
        if not count:
            return
        if max(scan.leader_epochs[:count]) > self._leader_epochs.latest_epoch:
            for index in range(count):
                epoch, base_offset = scan.leader_epochs[index], scan.base_offsets[index]
                if epoch > self._leader_epochs.latest_epoch:
                    # When offsets are missing before its first batch, the epoch may have begun at one of them.
                    start = self._former_epochs.get(epoch, base_offset)
                    before = scan.last_offsets[index - 1] + 1 if index else self._next_offset
                    self._leader_epochs.assign(epoch, start if before <= start <= base_offset else base_offset, flush=False)
        state = self._state
        if state is not None:
            follow_batches(self._segment, state, buffer, scan, count)
            self._segment.note_batches(scan, count, begin)
        self._contiguous = self._contiguous and scan.contiguous
        self._next_offset = scan.last_offsets[count - 1] + 1
        self._position = begin + scan.positions[count - 1] + scan.sizes[count - 1]

    def _legacy(self, buffer: memoryview, begin: int) -> bool:
        """Handle one message of magic 0 or 1. Return False when it is damaged."""
        at = self._position - begin
        try:
            header = read_header(buffer, at)
            if check_crc(buffer, at, header) and _in_range(self._segment, header, self._next_offset):
                if self._state is not None:
                    follow_batch(self._segment, self._state, buffer, at, header)
                    self._segment.note_batch(self._position, header.size, header.last_offset, header.max_timestamp)
                self._next_offset = header.next_offset
                self._position += header.size
                self._contiguous = False
                return True
        except OdradekError:
            pass
        self._ended = True
        return False


def _in_range(segment: Segment, header: BatchHeader, next_offset: int) -> bool:
    """Return whether the offsets rise and stay within the segment's 31 bits."""
    return (
        header.base_offset >= next_offset
        and header.last_offset_delta >= 0
        and header.last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
    )


def note_epochs(segment: Segment, leader_epochs: LeaderEpochCache) -> None:
    """Add the epochs of a segment's batches that are newer than the cache's (unflushed), as far as headers can be read."""
    _Walk(segment, None, leader_epochs, check_crcs=False).run()


def follow_batch(segment: Segment | None, state: ProducerStateManager, buffer: memoryview, at: int, header: BatchHeader) -> None:
    """Replay one batch of the log into the producer state; with a segment, add aborted transactions to its index."""
    if header.magic == 2 and header.producer_id >= 0:
        marker = read_marker(buffer, at, header) if header.is_control else None
        aborted = state.follow(header, header.base_offset, header.max_timestamp, marker)
        if aborted is not None and segment is not None:
            segment.txn_index.append(aborted)
    state.map_end_offset = header.next_offset


def follow_batches(segment: Segment, state: ProducerStateManager, buffer: memoryview, scan: Scan, count: int) -> None:
    """Replay the first `count` batches of a scan of the buffer, as `follow_batch` does."""
    if scan.has_producers:
        first = 0
        for index, attributes in enumerate(scan.attributes[:count]):
            if attributes & CONTROL_MASK:
                state.apply_batches(scan, first, index)
                at = scan.positions[index]
                follow_batch(segment, state, buffer, at, read_header(buffer, at))
                first = index + 1
        state.apply_batches(scan, first, count)
    state.map_end_offset = scan.last_offsets[count - 1] + 1


def recent_batches(segments: Sequence[Segment], producer_id: int, epoch: int) -> list[BatchMetadata]:
    """Return the last batches (at most five) of a producer's epoch, oldest first, in the last 16 MiB or 8,192 batches of the log.

    The search goes back step by step and reads nothing twice, so it is cheap enough for the loop.
    """
    recent: list[BatchMetadata] = []
    seen = 0
    for segment, start, end in _tail_windows(segments):
        found: list[BatchMetadata] = []
        for _, _, _, header in walk_batches(segment, start, end):
            seen += 1
            if header.magic == 2 and header.producer_id == producer_id and header.producer_epoch == epoch and not header.is_control:
                delta = header.last_offset - header.base_offset
                found.append(BatchMetadata(header.last_sequence, header.last_offset, delta, header.max_timestamp))
        recent = [*found[-BATCHES_KEPT:], *recent][-BATCHES_KEPT:]
        if len(recent) == BATCHES_KEPT or seen >= _RECENT_BATCHES:
            break
    return recent


def _tail_windows(segments: Sequence[Segment]) -> Iterator[tuple[Segment, int, int]]:
    """Yield parts of the log as (segment, start, end), at batch boundaries, from the log end backwards."""
    done = 0
    for segment in reversed(segments):
        end = segment.size
        for reach in _RECENT_BYTES:
            start = _boundary_before(segment, max(segment.size - max(reach - done, 0), 0))
            if start < end:
                yield segment, start, end
                end = start
        done += segment.size
        if end:
            return


def _boundary_before(segment: Segment, position: int) -> int:
    """Return the last batch boundary at or before `position` in the offset index; 0 without one."""
    index = segment.offset_index
    after = bisect_right(range(index.entries), position, key=lambda entry: index.entry(entry)[1])
    return index.entry(after - 1)[1] if after else 0


def rebuild_producer_state(
    state: ProducerStateManager,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    clean: bool,
    owe: Callable[[str], object] | None = None,
) -> None:
    """Bring the state to `end_offset`: load the newest usable snapshot and replay the batches after it.

    Snapshots taken on the way are fsynced, or with `owe` their paths are passed to `owe`. A cleanly shut down log without a snapshot was
    written by a release without snapshots, or is empty, and needs no scan.
    """
    if clean and not state.snapshots.offsets:
        state.map_end_offset = end_offset
        return

    def snapshot() -> None:
        path = state.take_snapshot(sync=owe is None)
        if path is not None and owe is not None:
            owe(path)

    was_empty = not state.producers and state.map_end_offset >= end_offset
    state.reload(log_start_offset, end_offset, now_ms)
    if end_offset > state.map_end_offset and not was_empty:
        snapshot_at = {segment.base_offset for segment in segments[-2:]}
        for index, segment in enumerate(segments):
            if index + 1 < len(segments) and segments[index + 1].base_offset <= state.map_end_offset:
                continue
            if segment.base_offset >= end_offset:
                break
            start = max(segment.base_offset, state.map_end_offset, log_start_offset)
            state.map_end_offset = start
            if segment.base_offset in snapshot_at and start == segment.base_offset:
                snapshot()
            _replay(segment, state, start, end_offset)
    state.map_end_offset = end_offset
    snapshot()


def may_hold_markers(segments: Sequence[Segment], offset: int) -> bool:
    """Return whether control batches may exist from `offset` on. Reads the headers of a few megabytes at most."""
    size = 0
    try:
        for segment in reversed(segments):
            first = segment.find(max(offset, segment.base_offset))
            if first is not None:
                size += segment.size - first.position
                if size > _MOST_LOOKED_AT or any(
                    batch.attributes & CONTROL_MASK for batch in segment.scan(first.position, read_ahead=1 << 16)
                ):
                    return True
            if segment.base_offset <= offset:
                return False
    except KafkaError:
        # An unreadable batch may be a control batch.
        return True
    return False


def _replay(segment: Segment, state: ProducerStateManager, start: int, end_offset: int) -> None:
    try:
        first = segment.find(start)
        if first is None:
            return
        for _, buffer, at, header in walk_batches(segment, first.position):
            if header.base_offset >= end_offset:
                return
            follow_batch(None, state, buffer, at, header)
    except (KafkaError, ProtocolError):
        # A reader of an unreadable batch below the recovery point gets the error.
        return
