"""Compaction of many small batches in one call. See `_frames` for how this source is run, and `runs` for its use.

A plain batch has magic 2, is whole, not compressed, and neither transactional nor control: the result depends only on the table and on the
batch's own bytes. Both loops stop at the first batch that is not plain, or that they cannot decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.records import _checksum, _compaction, _frames, _raw, layout

if TYPE_CHECKING:
    # For the compiler; the interpreter never reaches the lines that use it.
    import cython  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

_checksum.prepare()

_MAX64 = 0x7FFFFFFFFFFFFFFF
_MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_HEADER = layout.HEADER_SIZE


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    return _probe()


def _probe() -> bool:
    byte = len("C")
    byte += 255
    return byte == 0


def _plain(data: memoryview, position: int, end: int, limit: int) -> int:
    """Return the size of the plain batch at `position`; 0 without one, for invalid offsets, or for more than `limit` bytes."""
    if end - position < _HEADER or data[position + 16] != 2 or data[position + 22] & 0x37 != 0:
        return 0
    size = _raw.signed32(data, position + 8) + 12
    if size < _HEADER or size > end - position or size > limit:
        return 0
    base_offset = _raw.signed64(data, position)
    delta = _raw.signed32(data, position + 23)
    if base_offset < 0 or delta < 0 or base_offset >= _MAX64 - delta:
        return 0
    return size


def plain(data: memoryview, position: int, end: int, limit: int) -> int:
    """Return the result of `_plain`, for the other modules."""
    return _plain(data, position, end, limit)


def index_run(table: _compaction.OffsetTable, view: memoryview, position: int, end: int, limit: int, start_offset: int) -> int:
    """Put the keyed records of the plain batches in `view[position:end]` from `start_offset` on; `latest_offset` follows batch by batch.

    Returns the position of the first batch that is not plain, is malformed or does not fit into the table any more. Nothing or a part of
    that batch has been put; putting it again is harmless.
    """
    if position < 0 or end > len(view) or position > end:
        raise ValueError(f"Nothing can be indexed from {position} to {end} of {len(view)} bytes")
    data = _raw.octets(view)
    keys = 0
    while True:
        if _probe():
            with cython.nogil:
                position, keys = _index(table, data, position, end, limit, start_offset)
        else:
            position, keys = _index(table, data, position, end, limit, start_offset)
        if keys == 0:
            return position
        table.room_for(keys)


def _index(table: _compaction.OffsetTable, data: memoryview, position: int, end: int, limit: int, start_offset: int) -> tuple[int, int]:
    """Put records as `index_run` does, until the table must grow for more keys. Return the position and the number of these keys."""
    while position < end:
        size = _plain(data, position, end, limit)
        count = 0 if size == 0 else _raw.signed32(data, position + 57)
        if size == 0 or count < 0:
            return position, 0
        base_offset = _raw.signed64(data, position)
        if count > 0:
            # A record has at least 7 bytes, even if the header's count says otherwise.
            most = (size - _HEADER) // 7
            if count < most:
                most = count
            if not table.has_room(most):
                return position, most
            if table.put_records(data, position + _HEADER, position + size, count, base_offset, start_offset) != 0:
                return position, 0
        last_offset = base_offset + _raw.signed32(data, position + 23)
        if last_offset >= start_offset:
            table.latest_offset = last_offset
        position += size
    return position, 0


class RunFilter:
    """Removal of superseded records from consecutive plain batches, as `compaction.filter_batch` does for one batch.

    `scratch` takes the bytes that must be moved or rewritten, `marks` four numbers for each index entry, `flags` a byte for each record of
    a batch. `held` are the last offsets, ascending, of batches that must not be removed. The caller sets `since_entry`, `max_timestamp` and
    `max_timestamp_offset` of a segment that begins at `base_offset` before each call, which changes them.

    After a call the bytes to keep are the first `copied` of the scratch, then those in the buffer from `tail` to the returned position.
    """

    def __init__(
        self,
        table: _compaction.OffsetTable,
        limit: int,
        now_ms: int,
        horizon: int,
        held: memoryview,
        flags: memoryview,
        scratch: memoryview,
        marks: memoryview,
    ) -> None:
        self._table = table
        self._limit = limit
        self._now_ms = now_ms
        self._horizon = horizon
        self._held = held
        self._flags = flags
        self._scratch = scratch
        self._marks = marks
        self.base_offset = 0
        self.interval = 0
        self.since_entry = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = 0
        self.first_timestamp = 0
        self.records_read = 0
        self.records_kept = 0
        self.entries = 0
        self.copied = 0
        self.tail = 0

    def run(self, view: memoryview, position: int, end: int) -> int:
        """Filter `view[position:end]`. Return the position of the first batch that is not plain or cannot be decided here."""
        if position < 0 or end > len(view) or position > end:
            raise ValueError(f"Nothing can be filtered from {position} to {end} of {len(view)} bytes")
        data = _raw.octets(view)
        self.records_read = 0
        self.records_kept = 0
        self.entries = 0
        self.copied = 0
        self.tail = position
        if _probe():
            with cython.nogil:
                position = self._run(data, position, end)
        else:
            position = self._run(data, position, end)
        return position

    def _run(self, data: memoryview, position: int, end: int) -> int:
        while position < end:
            size = _plain(data, position, end, self._limit)
            if size == 0 or not self._filter(data, position, size):
                return position
            position += size
        return position

    def _filter(self, data: memoryview, position: int, size: int) -> bool:
        """Filter one batch. Return False without any change when the batch cannot be decided here."""
        count = _raw.signed32(data, position + 57)
        if count <= 0 or count > len(self._flags):
            return False
        if _raw.unsigned32(data, position + 17) != _checksum.checksum(data, position + 21, size - 21):
            return False
        base_offset = _raw.signed64(data, position)
        base_timestamp = _raw.signed64(data, position + 27)
        has_horizon = data[position + 22] & 0x40 != 0
        mode = 2 if has_horizon and self._now_ms >= base_timestamp else 1
        status, read, kept, kept_bytes, tombstones, first_delta, max_delta = self._table.choose(
            data, position + _HEADER, position + size, count, base_offset, mode, _raw.room(self._flags)
        )
        if status != 0:
            return False
        last_offset = base_offset + _raw.signed32(data, position + 23)
        if kept == 0:
            if self._is_held(last_offset):
                return False
            self._move(data, position)
            self.tail = position + size
        else:
            if last_offset < self.base_offset or last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
                return False
            if kept == count and (has_horizon or tombstones == 0):
                # The run ends before the kept bytes exceed the scratch, so that they can always be moved there.
                if self.copied + position + size - self.tail > len(self._scratch) or not self._note(
                    last_offset, _raw.signed64(data, position + 35), size, position
                ):
                    return False
            elif not self._rewrite(
                data, position, size, last_offset, kept_bytes, kept, first_delta, max_delta, has_horizon or tombstones > 0
            ):
                return False
        self.records_read += read
        self.records_kept += kept
        return True

    def _is_held(self, offset: int) -> bool:
        low = 0
        high = len(self._held)
        while low < high:
            middle = (low + high) >> 1
            if self._held[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low < len(self._held) and self._held[low] == offset

    def _move(self, data: memoryview, position: int) -> None:
        """Copy the unchanged bytes before `position` behind those copied already."""
        _raw.copy(_raw.room(self._scratch), self.copied, data, self.tail, position - self.tail)
        self.copied += position - self.tail
        self.tail = position

    def _note(self, last_offset: int, timestamp: int, size: int, position: int) -> bool:
        """Update the segment's figures for a batch of `size` bytes. Return False when `marks` has no space for another index entry."""
        entry = self.since_entry > self.interval
        if entry and self.entries * 4 + 4 > len(self._marks):
            return False
        if self.records_kept == 0:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if entry:
            at = self.entries * 4
            self._marks[at] = last_offset
            self._marks[at + 1] = self.copied + position - self.tail
            self._marks[at + 2] = self.max_timestamp
            self._marks[at + 3] = self.max_timestamp_offset
            self.entries += 1
            self.since_entry = 0
        self.since_entry += size
        return True

    def _rewrite(
        self,
        data: memoryview,
        position: int,
        size: int,
        last_offset: int,
        kept_bytes: int,
        kept: int,
        first_delta: int,
        max_delta: int,
        horizon: bool,
    ) -> bool:
        """Write the batch with only the flagged records to the scratch, as `compaction.filter_batch` does. Return False without space."""
        room = _raw.room(self._scratch)
        at = self.copied + position - self.tail
        # 14: the bytes by which a record can grow when its timestamp delta changes.
        if at + _HEADER + kept_bytes + kept * 14 > len(self._scratch):
            return False
        before = _raw.signed64(data, position + 27)
        max_timestamp = _raw.signed64(data, position + 35)
        fixed = data[position + 22] & 0x08 != 0
        base_timestamp = max_timestamp if fixed else _frames.wrap64(before + first_delta)
        if horizon:
            base_timestamp = before if data[position + 22] & 0x40 != 0 else self._horizon
        if fixed:
            shift = _frames.wrap64(max_timestamp - base_timestamp)
        else:
            shift = _frames.wrap64(before - base_timestamp)
            max_timestamp = _frames.wrap64(before + max_delta)
            if max_timestamp < -1:
                max_timestamp = -1
        count = _raw.signed32(data, position + 57)
        end = _compaction.put_kept(
            data, position + _HEADER, position + size, count, _raw.room(self._flags), room, at + _HEADER, len(self._scratch), shift, fixed
        )
        if end < 0 or not self._note(last_offset, max_timestamp, end - at, position):
            return False
        self._move(data, position)
        self.tail = position + size
        self.copied = end
        _raw.copy(room, at, data, position, _HEADER)
        _raw.put32(room, at + 8, end - at - 12)
        room[at + 21] = 0
        room[at + 22] = (0x08 if fixed else 0) | (0x40 if horizon else 0)
        _raw.put64(room, at + 27, base_timestamp)
        _raw.put64(room, at + 35, max_timestamp)
        _raw.put32(room, at + 57, kept)
        _raw.put32(room, at + 17, _checksum.checksum(room, at + 21, end - at - 21))
        return True
