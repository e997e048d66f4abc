"""Log compaction of one batch (org.apache.kafka.storage.internals.log.Cleaner, MemoryRecords.filterTo; KIP-534).

Two passes over a log: `index_batch` records the last offset of every key in an OffsetMap, then `filter_batch` drops the superseded records.
Both may run in a thread; the loops work on one batch per call, without the GIL where they are compiled.
"""

from __future__ import annotations

import secrets
import struct
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records import native
from odradek.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    decode_batch,
    malformed,
    records_of,
    seal_batch,
)
from odradek.records.compression import DEFAULT_LIMIT, Compression

_SLOT_SIZE = 24
_MAX_SLOTS = 0x7FFFFFFF
_KEY = struct.Struct("<QQ")
_KEPT_ATTRIBUTES = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
_LONG_MIN = -(1 << 63)
_LONG_MAX = (1 << 63) - 1
_GROWTH = 14
"""Bytes by which a record may grow when its timestamp delta changes: 9 for the delta, and 4 for its size."""


class OffsetMap:
    """Map from key to its last offset, by hash, in bounded memory (SkimpyOffsetMap).

    `memory` is in bytes, 24 for each key; `load_factor` is the maximal fill ratio (log.cleaner.io.buffer.load.factor). The hash is
    SipHash-2-4-128 with the secret `seed` of 16 bytes, random by default, so that clients cannot construct colliding keys. Memory is
    allocated as keys are added; during growth a quarter more than `memory` may be in use. One thread at a time.

    Raises ValueError when not a single key would fit.
    """

    __slots__ = ("table",)

    def __init__(self, memory: int, *, load_factor: float = 0.9, seed: bytes | None = None) -> None:
        slots = min(memory // _SLOT_SIZE, _MAX_SLOTS)
        capacity = min(int(slots * load_factor), slots - 1)
        if capacity < 1:
            raise ValueError(f"An offset map of {memory} bytes with load factor {load_factor} is too small for a single key")
        self.table = native.codec.OffsetTable(slots, capacity, _KEY.unpack(secrets.token_bytes(16) if seed is None else seed))

    @property
    def capacity(self) -> int:
        """Maximal number of keys."""
        return self.table.capacity

    @property
    def size(self) -> int:
        """Number of keys."""
        return self.table.size

    @property
    def latest_offset(self) -> int:
        """Offset up to which all records have been indexed; -1 when empty."""
        return self.table.latest_offset

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.table.latest_offset = offset

    @property
    def is_full(self) -> bool:
        return self.table.size >= self.table.capacity

    def put(self, key: bytes, offset: int) -> None:
        """Set the offset of a key, and `latest_offset`. Raises ValueError when the map is full."""
        if not self.table.put(key, offset):
            raise ValueError(f"The offset map is full with {self.table.size} keys")

    def get(self, key: bytes) -> int:
        """Return the offset of a key, -1 when the map does not hold it."""
        return self.table.get(key)

    def clear(self) -> None:
        """Remove all keys, and free the memory."""
        self.table.clear()


class FilteredBatch(NamedTuple):
    """Remaining part of a batch, and the figures that the new segment's indexes need."""

    data: bytes | memoryview | None
    """Batch to write: the given memoryview itself when nothing changed, None when nothing remains."""
    records_read: int
    records_kept: int
    max_timestamp: int
    """Milliseconds; -1 when no record has a timestamp, or nothing remains."""
    shallow_offset_of_max_timestamp: int
    last_offset: int
    """Both are the last offset of the batch, which compaction does not change; -1 when nothing remains."""


def index_batch(offset_map: OffsetMap, batch: memoryview, header: BatchHeader, start_offset: int, *, limit: int = DEFAULT_LIMIT) -> bool:
    """Put the keyed records of one whole batch, from `start_offset` on, into the map.

    The caller leaves out control batches and batches of aborted transactions, and sets `latest_offset` for those itself. Returns False when
    the map became full before the end of the batch; `latest_offset` is then that of the last record put. Otherwise it becomes the batch's
    last offset, unless that lies before `start_offset`. `limit` bounds the uncompressed bytes.

    Raises KafkaError INVALID_RECORD and those of compression.decompress.
    """
    _check_offsets(header)
    table = offset_map.table
    last_offset = header.last_offset
    if header.magic < MAGIC_V2:
        for record in decode_batch(batch, 0, header, limit):
            if record.key is not None and record.offset >= start_offset and not table.put(record.key, record.offset):
                return False
    elif header.record_count != 0:
        records, start, end = _records(batch, header, limit)
        status = table.index(records, start, end, header.record_count, header.base_offset, start_offset)
        if status == native.codec.TABLE_FULL:
            return False
        if status:
            raise malformed(status, 0, header.record_count)
    if last_offset >= start_offset:
        table.latest_offset = last_offset
    return True


def _check_offsets(header: BatchHeader) -> None:
    """Raise KafkaError INVALID_RECORD for offsets that no log assigns. The CRC does not cover a damaged base offset."""
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.next_offset > _LONG_MAX:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"No batch has base offset {header.base_offset} and last offset delta {header.last_offset_delta}",
        )


def _records(batch: memoryview, header: BatchHeader, limit: int) -> tuple[memoryview, int, int]:
    """Return the buffer with the uncompressed records, and their start and end in it."""
    size = header.size
    if header.attributes & COMPRESSION_MASK or size > len(batch) or size > limit:
        records = memoryview(records_of(batch, 0, header, limit))
        return records, 0, len(records)
    return batch, HEADER_SIZE, size


def filter_batch(
    batch: memoryview,
    header: BatchHeader,
    offset_map: OffsetMap,
    *,
    discard_records: bool,
    retain_empty: bool,
    now_ms: int,
    delete_retention_ms: int,
    legacy_retain_deletes: bool = True,
    empty_transaction: bool = False,
    limit: int = DEFAULT_LIMIT,
) -> FilteredBatch:
    """Remove from one whole batch the records that the map supersedes.

    A record is kept when it lies beyond `offset_map.latest_offset`, or has a key for which the map knows no later offset. A tombstone is
    kept only until the batch's delete horizon. A batch whose first tombstone is kept gets that horizon: `now_ms + delete_retention_ms`. The
    records of control batches are kept. The header keeps everything but attribute bit 6, base and maximum timestamp, record count, size and
    CRC. The compression is kept as well, at its default level.

    - `discard_records`: no record of the batch is kept (its transaction was aborted, or it is a marker whose transaction is gone and whose
      delete horizon has passed).
    - `retain_empty`: a batch without kept records remains as a bare header (it is its producer's last, or the last of the cleaning).
    - `empty_transaction`: the batch is a marker whose transaction is gone, and gets a delete horizon unless it has one.
    - `legacy_retain_deletes`: whether tombstones of magic 0 and 1, which have no horizon, are kept. The kept part of such a message is
      written with magic 2, as Kafka 4 does.

    The CRC is not checked. Raises KafkaError INVALID_RECORD and those of compression.decompress.
    """
    _check_offsets(header)
    if discard_records:
        return _emptied(header, 0, retain_empty)
    if header.magic < MAGIC_V2:
        return _filter_legacy(
            batch, header, offset_map, retain_empty, now_ms + delete_retention_ms, retain_deletes=legacy_retain_deletes, limit=limit
        )
    count = header.record_count
    if count < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record count {count} in magic v{header.magic} batch")
    if count == 0:
        return _emptied(header, 0, retain_empty)
    attributes = header.attributes
    horizon = header.base_timestamp if attributes & DELETE_HORIZON_MASK else None
    codec = native.codec
    if attributes & CONTROL_MASK:
        mode = codec.KEEP
    elif horizon is not None and now_ms >= horizon:
        mode = codec.COMPACT_TOMBSTONES
    else:
        mode = codec.COMPACT
    records, start, end = _records(batch, header, limit)
    # A record has at least 7 bytes: a wrong count in the header cannot allocate more than the batch holds.
    flags = memoryview(bytearray(min(count, (end - start) // 7 + 1)))
    status, read, kept, kept_bytes, tombstones, first_delta, max_delta = codec.retain(
        offset_map.table, records, start, end, count, header.base_offset, mode, flags
    )
    if status:
        raise malformed(status, read, count)
    if kept == 0:
        return _emptied(header, read, retain_empty)
    set_horizon = horizon is None and (tombstones > 0 or empty_transaction)
    if kept == count and not set_horizon:
        last_offset = header.last_offset
        return FilteredBatch(batch, read, kept, header.max_timestamp, last_offset, last_offset)
    if set_horizon:
        horizon = now_ms + delete_retention_ms
    return _rewritten(header, (records, start, end), flags, kept, kept_bytes, first_delta, max_delta, horizon)


def _rewritten(
    header: BatchHeader,
    records: tuple[memoryview, int, int],
    flags: memoryview,
    kept: int,
    kept_bytes: int,
    first_delta: int,
    max_delta: int,
    horizon: int | None,
) -> FilteredBatch:
    """Return the batch with only the flagged records, and with `horizon` as its delete horizon."""
    fixed = header.is_log_append_time
    if fixed:
        # Every record is read with the header's timestamp, whatever its delta.
        max_timestamp = header.max_timestamp
        base_timestamp = max_timestamp if horizon is None else horizon
        shift = max_timestamp - base_timestamp
    else:
        max_timestamp = max(_wrap(header.base_timestamp + max_delta), NO_TIMESTAMP)
        base_timestamp = _wrap(header.base_timestamp + first_delta) if horizon is None else horizon
        shift = _wrap(header.base_timestamp - base_timestamp)
    body = bytearray(HEADER_SIZE + kept_bytes + (kept * _GROWTH if shift or fixed else 0))
    with memoryview(body) as output:
        end = native.codec.rewrite(*records, header.record_count, flags, output, HEADER_SIZE, shift, fixed)
    if end < 0:
        raise malformed(native.codec.WALK_MALFORMED, 0, header.record_count)
    del body[end:]
    attributes = header.attributes & _KEPT_ATTRIBUTES
    if horizon is not None:
        attributes |= DELETE_HORIZON_MASK
    data = seal_batch(
        body,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        compression=header.compression,
        level=None,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=kept,
    )
    last_offset = header.last_offset
    return FilteredBatch(data, header.record_count, kept, max_timestamp, last_offset if max_timestamp != NO_TIMESTAMP else -1, last_offset)


def _emptied(header: BatchHeader, read: int, retain_empty: bool) -> FilteredBatch:
    """Return the result for a batch without kept records: a bare header with `retain_empty` (DefaultRecordBatch.writeEmptyHeader)."""
    if not retain_empty:
        return FilteredBatch(None, read, 0, NO_TIMESTAMP, -1, -1)
    data = seal_batch(
        bytearray(HEADER_SIZE),
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & _KEPT_ATTRIBUTES,
        compression=Compression.NONE,
        level=None,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=0,
    )
    return FilteredBatch(data, read, 0, header.max_timestamp, header.last_offset, header.last_offset)


def _filter_legacy(
    batch: memoryview,
    header: BatchHeader,
    offset_map: OffsetMap,
    retain_empty: bool,
    horizon: int,
    *,
    retain_deletes: bool,
    limit: int,
) -> FilteredBatch:
    """Filter a message of magic 0 or 1, or the messages of a compressed one. The kept records become a batch of magic 2."""
    records = decode_batch(batch, 0, header, limit)
    table = offset_map.table
    kept = [
        record
        for record in records
        if record.offset > table.latest_offset
        or (record.key is not None and (record.value is not None or retain_deletes) and record.offset >= table.get(record.key))
    ]
    if not kept:
        first = records[0].offset
        header = header._replace(base_offset=first, last_offset_delta=header.last_offset - first)
        return _emptied(header, len(records), retain_empty)
    set_horizon = any(record.value is None for record in kept)
    base_timestamp = horizon if set_horizon else kept[0].timestamp
    base_offset, last_offset = kept[0].offset, kept[-1].offset
    body = bytearray(HEADER_SIZE)
    for record in kept:
        body += native.codec.encode_record(record.timestamp - base_timestamp, record.offset - base_offset, record.key, record.value)
    max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in kept))
    data = seal_batch(
        body,
        base_offset=base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & TIMESTAMP_TYPE_MASK | (DELETE_HORIZON_MASK if set_horizon else 0),
        compression=header.compression,
        level=None,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=len(kept),
    )
    return FilteredBatch(data, len(records), len(kept), max_timestamp, last_offset if max_timestamp != NO_TIMESTAMP else -1, last_offset)


def _wrap(value: int) -> int:
    """Wrap like Java's long arithmetic, with which the readers of such deltas compute."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
