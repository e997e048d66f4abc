"""Loops of compaction: a table of key hashes and offsets, and removal of records from a batch. See `_frames` for how this source is run.

Each call works on one batch, without the GIL where it is compiled: it runs in a thread beside the event loop.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from odradek.records import _frames, _raw, _writer

if TYPE_CHECKING:
    # For the compiler; the interpreter never reaches the lines that use it.
    import cython  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

_MASK64 = 0xFFFFFFFFFFFFFFFF
_SIP_0 = 0x736F6D6570736575
_SIP_1 = 0x646F72616E646F6D ^ 0xEE
_SIP_2 = 0x6C7967656E657261
_SIP_3 = 0x7465646279746573
_MAX64 = 0x7FFFFFFFFFFFFFFF
_MIN64 = -0x7FFFFFFFFFFFFFFF - 1

SLOT_SIZE = 24
"""Bytes of a slot: a hash of 128 bits, and an offset plus 1, so that 0 is an empty slot."""
TABLE_FULL = 3
"""Status in addition to WALK_OK, WALK_MALFORMED and WALK_TRAILING, numbered after them."""
_FIRST_SLOTS = 4096
_MAX_SLOTS = 0x7FFFFFFF

KEEP = 0
"""Mode of `retain`: all records are kept."""
COMPACT = 1
"""Mode of `retain`: records with a newer one in the table and records without a key are dropped; tombstones are kept."""
COMPACT_TOMBSTONES = 2
"""Mode of `retain`: as COMPACT, and tombstones are dropped as well."""


def is_compiled() -> bool:
    """Return whether this module is compiled."""
    byte = len("C")
    byte += 255
    return byte == 0


def _probe() -> bool:
    byte = len("C")
    byte += 255
    return byte == 0


def _word(data: memoryview, at: int) -> int:
    """Return the little-endian 64-bit word at `at`."""
    # The highest byte of each half is widened before its shift: a C int would treat its highest bit as a sign.
    low = data[at + 3]
    high = data[at + 7]
    low = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | low << 24
    high = data[at + 4] | data[at + 5] << 8 | data[at + 6] << 16 | high << 24
    return low | high << 32


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK64
    v1 = ((v1 << 13 | v1 >> 51) & _MASK64) ^ v0
    v0 = (v0 << 32 | v0 >> 32) & _MASK64
    v2 = (v2 + v3) & _MASK64
    v3 = ((v3 << 16 | v3 >> 48) & _MASK64) ^ v2
    v0 = (v0 + v3) & _MASK64
    v3 = ((v3 << 21 | v3 >> 43) & _MASK64) ^ v0
    v2 = (v2 + v1) & _MASK64
    v1 = ((v1 << 17 | v1 >> 47) & _MASK64) ^ v2
    v2 = (v2 << 32 | v2 >> 32) & _MASK64
    return v0, v1, v2, v3


def _siphash(k0: int, k1: int, data: memoryview, at: int, size: int) -> tuple[int, int]:
    """Return SipHash-2-4 with 128 bits of `data[at : at + size]`, as two little-endian words. `k0` and `k1` are the words of the key."""
    v0 = k0 ^ _SIP_0
    v1 = k1 ^ _SIP_1
    v2 = k0 ^ _SIP_2
    v3 = k1 ^ _SIP_3
    end = at + size - (size & 7)
    while at < end:
        word = _word(data, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = (size & 0xFF) << 56
    index = 0
    while index < size & 7:
        byte = data[at + index]
        word |= byte << 8 * index
        index += 1
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def siphash(key: tuple[int, int], source: bytes) -> tuple[int, int]:
    """Return the hash of `source`, for tests."""
    view = memoryview(source)
    k0, k1 = key
    low, high = _siphash(k0, k1, _raw.octets(view), 0, len(source))
    return low, high


def _find(words: memoryview, slots: int, low: int, high: int) -> int:
    """Return the position of this hash's slot, or of the empty slot where the hash belongs. At least one slot is always empty."""
    slot = (low >> 32) * slots >> 32
    at = slot * 3
    while words[at + 2] != 0 and (words[at] != low or words[at + 1] != high):
        slot += 1
        at += 3
        if slot == slots:
            slot = 0
            at = 0
    return at


class OffsetTable:
    """Table from hashes of keys to offsets: open addressing, linear probing, secret key (org.apache.kafka.storage SkimpyOffsetMap).

    The table grows with its content, up to `slots`; during growth a quarter more memory is in use. Attributes for reading: `capacity`,
    `size`, `latest_offset`. One thread at a time.
    """

    def __init__(self, slots: int, capacity: int, key: tuple[int, int]) -> None:
        if not 1 <= capacity < slots <= _MAX_SLOTS:
            raise ValueError(f"A table of {slots} slots cannot hold {capacity} keys")
        self.capacity = capacity
        self.size = 0
        self.latest_offset = -1
        self._most = slots
        self._k0, self._k1 = key
        self.clear()

    def clear(self) -> None:
        """Remove all keys and free the memory."""
        slots = self._most
        while slots > _FIRST_SLOTS:
            slots = (slots + 3) >> 2
        self._slots = slots
        self._view = _allocate(slots)
        self.size = 0
        self.latest_offset = -1

    def room_for(self, keys: int) -> None:
        """Grow the table, up to its limit, so that `keys` more keys fit."""
        if keys > self.capacity - self.size:
            keys = self.capacity - self.size
        need = (self.size + keys) * 2
        while self._slots < self._most and self._slots < need:
            self._grow()

    def has_room(self, keys: int) -> bool:
        """Return whether `keys` more keys fit without growth, or the table is at its limit."""
        if keys > self.capacity - self.size:
            keys = self.capacity - self.size
        need = (self.size + keys) * 2
        return self._slots >= self._most or self._slots >= need

    def put_records(self, data: memoryview, position: int, end: int, count: int, base_offset: int, start_offset: int) -> int:
        """Put records as `index` does, for a checked range and count, when the table has grown already."""
        return self._index(_raw.words(self._view), data, position, end, count, base_offset, start_offset)

    def _grow(self) -> None:
        slots = self._most
        while (slots + 3) >> 2 > self._slots:
            slots = (slots + 3) >> 2
        view = _allocate(slots)
        before = _raw.words(self._view)
        after = _raw.words(view)
        if _probe():
            with cython.nogil:
                _move(before, self._slots, after, slots)
        else:
            _move(before, self._slots, after, slots)
        self._view = view
        self._slots = slots

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of a key and `latest_offset`. Return False when the table is full."""
        view = memoryview(key)
        data = _raw.octets(view)
        if self.size >= self.capacity:
            return False
        self.room_for(1)
        self._put(_raw.words(self._view), data, 0, len(key), offset)
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the offset of a key, -1 when the table does not hold it."""
        view = memoryview(key)
        data = _raw.octets(view)
        return self._get(_raw.words(self._view), data, 0, len(key))

    def _put(self, words: memoryview, data: memoryview, at: int, size: int, offset: int) -> None:
        low, high = _siphash(self._k0, self._k1, data, at, size)
        slot = _find(words, self._slots, low, high)
        if words[slot + 2] == 0:
            words[slot] = low
            words[slot + 1] = high
            self.size += 1
        words[slot + 2] = offset + 1

    def _get(self, words: memoryview, data: memoryview, at: int, size: int) -> int:
        low, high = _siphash(self._k0, self._k1, data, at, size)
        return words[_find(words, self._slots, low, high) + 2] - 1

    def index(self, view: memoryview, position: int, end: int, count: int, base_offset: int, start_offset: int) -> int:
        """Put the keyed records of `view[position:end]` from `start_offset` on; return WALK_* or TABLE_FULL.

        `latest_offset` becomes the offset of the last record put.
        """
        if position < 0 or end > len(view) or position > end or count < 0:
            return 1
        # A record has at least 7 bytes, even if the header's count says otherwise.
        self.room_for(min(count, (end - position) // 7))
        data = _raw.octets(view)
        status = 0
        if _probe():
            with cython.nogil:
                status = self._index(_raw.words(self._view), data, position, end, count, base_offset, start_offset)
        else:
            status = self._index(_raw.words(self._view), data, position, end, count, base_offset, start_offset)
        return status

    def _index(self, words: memoryview, data: memoryview, position: int, end: int, count: int, base_offset: int, start_offset: int) -> int:
        index = 0
        while index < count:
            position, _, offset_delta, key_at, key_size, _, _, _, _ = _frames.parse(data, position, end)
            if position < 0:
                return 1
            index += 1
            offset = base_offset + offset_delta
            if offset > _MAX64:
                offset = _frames.wrap64(offset)
            if key_size < 0 or offset < start_offset:
                continue
            if self.size >= self.capacity:
                return 3
            self._put(words, data, key_at, key_size, offset)
            self.latest_offset = offset
        return 0 if position == end else 2

    def choose(
        self, data: memoryview, position: int, end: int, count: int, base_offset: int, mode: int, flags: memoryview
    ) -> tuple[int, int, int, int, int, int, int]:
        """Choose records as `retain` describes."""
        words = _raw.words(self._view)
        latest_offset = self.latest_offset
        kept = 0
        kept_bytes = 0
        tombstones = 0
        first_delta = 0
        max_delta = _MIN64
        index = 0
        while index < count:
            start = position
            position, delta, offset_delta, key_at, key_size, _, value_size, _, _ = _frames.parse(data, position, end)
            if position < 0:
                return 1, index, kept, kept_bytes, tombstones, first_delta, max_delta
            keep = True
            offset = base_offset + offset_delta
            if offset > _MAX64:
                offset = _frames.wrap64(offset)
            if mode != 0 and offset <= latest_offset:
                keep = key_size >= 0 and (value_size >= 0 or mode == 1)
                if keep:
                    keep = offset >= self._get(words, data, key_at, key_size)
            flags[index] = keep
            index += 1
            if keep:
                if kept == 0:
                    first_delta = delta
                if delta > max_delta:
                    max_delta = delta
                kept += 1
                kept_bytes += position - start
                if value_size < 0:
                    tombstones += 1
        return 0 if position == end else 2, index, kept, kept_bytes, tombstones, first_delta, max_delta


def _allocate(slots: int) -> memoryview:
    """Return zeroed words, which use memory only when they are written."""
    return memoryview(mmap.mmap(-1, slots * SLOT_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)).cast("Q")


def _move(before: memoryview, slots_before: int, after: memoryview, slots: int) -> None:
    at = 0
    while at < slots_before * 3:
        if before[at + 2] != 0:
            to = _find(after, slots, before[at], before[at + 1])
            after[to] = before[at]
            after[to + 1] = before[at + 1]
            after[to + 2] = before[at + 2]
        at += 3


def retain(
    table: OffsetTable, view: memoryview, position: int, end: int, count: int, base_offset: int, mode: int, flags: memoryview
) -> tuple[int, int, int, int, int, int, int]:
    """Decide which records of `view[position:end]` are kept, and set a byte of `flags` (room for `count`) for each of them.

    Returns WALK_*; the number of records read; the number and bytes of kept records; the number of kept tombstones; the timestamp deltas of
    the first kept record and the largest among the kept.
    """
    if position < 0 or end > len(view) or position > end or count < 0 or count > len(flags):
        return 1, 0, 0, 0, 0, 0, 0
    data = _raw.octets(view)
    room = _raw.room(flags)
    status = read = kept = kept_bytes = tombstones = first_delta = max_delta = 0
    if _probe():
        with cython.nogil:
            status, read, kept, kept_bytes, tombstones, first_delta, max_delta = table.choose(
                data, position, end, count, base_offset, mode, room
            )
    else:
        status, read, kept, kept_bytes, tombstones, first_delta, max_delta = table.choose(
            data, position, end, count, base_offset, mode, room
        )
    return status, read, kept, kept_bytes, tombstones, first_delta, max_delta


def rewrite(
    view: memoryview, position: int, end: int, count: int, flags: memoryview, output: memoryview, at: int, shift: int, fixed: bool
) -> int:
    """Write the flagged records of `view[position:end]`, which `retain` has found well-formed, to `output` from `at` on.

    `shift` is added to their timestamp deltas, or with `fixed` replaces them. Returns the position after the records, -1 when `output` is
    too small. `output` needs the bytes of the records and, if deltas change, 14 more for each.
    """
    if position < 0 or end > len(view) or position > end or count < 0 or count > len(flags) or at < 0:
        return -1
    data = _raw.octets(view)
    room = _raw.room(output)
    chosen = _raw.room(flags)
    most = len(output)
    if _probe():
        with cython.nogil:
            at = put_kept(data, position, end, count, chosen, room, at, most, shift, fixed)
    else:
        at = put_kept(data, position, end, count, chosen, room, at, most, shift, fixed)
    return at


def put_kept(
    data: memoryview, position: int, end: int, count: int, flags: memoryview, room: memoryview, at: int, most: int, shift: int, fixed: bool
) -> int:
    """Write records as `rewrite` describes."""
    index = 0
    run = position
    while index < count:
        start = position
        body, head = _frames.varint(data, position, end)
        if head < 0 or body < 0 or body > end - head:
            return -1
        position = head + body
        if flags[index] == 0:
            # The kept records up to here are copied together.
            if start - run > most - at:
                return -1
            _raw.copy(room, at, data, run, start - run)
            at += start - run
            run = position
        elif shift != 0 or fixed:
            delta, rest = _frames.varlong(data, head + 1, position)
            wanted = shift
            if not fixed:
                wanted = delta + shift
                if wanted > _MAX64 or wanted < _MIN64:
                    wanted = _frames.wrap64(wanted)
            if wanted != delta:
                if rest < 0 or position - run + 14 > most - at:
                    return -1
                _raw.copy(room, at, data, run, start - run)
                at += start - run
                zigzag = _writer.zigzag(wanted)
                body = 1 + _writer.varint_size(zigzag) + position - rest
                at = _writer.put_varint(room, at, _writer.zigzag(body))
                room[at] = data[head]
                at = _writer.put_varint(room, at + 1, zigzag)
                _raw.copy(room, at, data, rest, position - rest)
                at += position - rest
                run = position
        index += 1
    if position - run > most - at:
        return -1
    _raw.copy(room, at, data, run, position - run)
    return at + position - run
