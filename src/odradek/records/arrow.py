# pyarrow has no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Conversion of record batches to Arrow and back, without a Python object per record.

The columns are those of Spark's Kafka source: key binary, value binary, topic string, partition int32, offset int64, timestamp
timestamp[us, UTC], timestampType int32 (0 CreateTime, 1 LogAppendTime) and, on request, headers list<struct<key: string, value: binary>>.
pyarrow is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from odradek.records import native
from odradek.records.batch import (
    HEADER_SIZE,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    decode_batch,
    encode_batch,
    malformed,
    read_header,
    records_of,
    seal_in_place,
    seal_written,
)
from odradek.records.compression import DEFAULT_LIMIT, Compression
from odradek.records.visibility import AbortedTransactions, visible_batches

if TYPE_CHECKING:
    import pyarrow as pa

_INT64_MAX = 0x7FFFFFFFFFFFFFFF
_INT32_MAX = 0x7FFFFFFF
_ROW_OVERHEAD = 16
"""Bytes of a record without headers besides its key and value: seldom more, and then the buffer grows."""


def decode_to_arrow(
    buffers: Buffer | Sequence[Buffer],
    *,
    topic: str,
    partition: int,
    min_offset: int = 0,
    max_offset: int = _INT64_MAX,
    include_headers: bool = False,
    aborted: Iterable[tuple[int, int]] | AbortedTransactions = (),
    check_crcs: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> pa.RecordBatch:
    """Return the records with offsets in [min_offset, max_offset) of one partition as Spark's rows.

    Incomplete batches at the end of a buffer are ignored. `limit` bounds the uncompressed bytes of one batch. For `aborted` see
    `visibility.visible_batches`.

    Raises KafkaError (CORRUPT_MESSAGE, INVALID_RECORD, those of decompression). Raises OverflowError when keys or values exceed 2 GiB
    together: pass fewer buffers.
    """
    pieces = cast("Sequence[Buffer]", [buffers] if isinstance(buffers, bytes | bytearray | memoryview) else buffers)
    chunks: list[_Chunk] = []
    for buffer, position, header in visible_batches(pieces, aborted, check_crcs=check_crcs, name=f"{topic}-{partition}"):
        if header.next_offset <= min_offset or (header.base_offset >= max_offset and header.magic == MAGIC_V2):
            continue
        chunks += _chunks(buffer, position, header, limit)
    columns = _columns(chunks, min_offset, max_offset, include_headers)
    return _record_batch(columns, topic, partition, include_headers)


_Chunk = tuple[memoryview, int, int, int, bool]
"""Record bytes, record count, base offset, base timestamp (or the append time), whether it is the append time."""


def _chunks(buffer: Buffer, position: int, header: BatchHeader, limit: int) -> list[_Chunk]:
    if header.magic < MAGIC_V2:
        chunks: list[_Chunk] = []
        for record in decode_batch(buffer, position, header, limit):
            batch = encode_batch([(record.timestamp, record.key, record.value, ())])
            chunks.append((memoryview(batch)[HEADER_SIZE:], 1, record.offset, record.timestamp, header.is_log_append_time))
        return chunks
    if header.record_count <= 0:
        return []
    records = memoryview(records_of(buffer, position, header, limit))
    if header.is_log_append_time:
        return [(records, header.record_count, header.base_offset, header.max_timestamp, True)]
    return [(records, header.record_count, header.base_offset, header.base_timestamp, False)]


def _columns(chunks: list[_Chunk], min_offset: int, max_offset: int, with_headers: bool) -> Any:
    codec = native.codec
    sums = [0, 0, 0, 0, 0, 0]
    for records, count, base_offset, _, _ in chunks:
        status, *sizes = codec.measure(records, 0, len(records), count, base_offset, min_offset, max_offset, with_headers)
        if status:
            raise malformed(status, sizes[0], count)
        sums = [total + size for total, size in zip(sums, sizes, strict=True)]
    if max(sums) > _INT32_MAX:
        raise OverflowError("More than 2 GiB of keys or values for one Arrow batch")
    rows, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes = sums
    columns = codec.Columns(rows, key_bytes, value_bytes, with_headers, headers, header_key_bytes, header_value_bytes)
    for records, count, base_offset, base_timestamp, log_append_time in chunks:
        status = columns.fill(records, 0, len(records), count, base_offset, base_timestamp, log_append_time, min_offset, max_offset)
        if status:
            raise malformed(status, columns.rows, count)
    return columns


def _record_batch(columns: Any, topic: str, partition: int, include_headers: bool) -> pa.RecordBatch:
    import pyarrow as pa

    rows = columns.rows
    parts = [pa.py_buffer(buffer) for buffer in columns.buffers]
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    arrays = [
        pa.Array.from_buffers(pa.binary(), rows, [parts[0] if columns.key_nulls else None, parts[1], parts[2]], columns.key_nulls),
        pa.Array.from_buffers(pa.binary(), rows, [parts[3] if columns.value_nulls else None, parts[4], parts[5]], columns.value_nulls),
        pa.repeat(pa.scalar(topic, pa.string()), rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, parts[6]], 0),
        pa.Array.from_buffers(pa.timestamp("us", "UTC"), rows, [None, parts[7]], 0),
        pa.Array.from_buffers(pa.int32(), rows, [None, parts[8]], 0),
    ]
    if include_headers:
        names.append("headers")
        arrays.append(_headers(columns, parts))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _headers(columns: Any, parts: list[Any]) -> pa.Array:
    import pyarrow as pa

    count = columns.headers
    keys = pa.Array.from_buffers(pa.string(), count, [None, parts[10], parts[11]], 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        # Keys that are not UTF-8 are read as in Java, with U+FFFD.
        raw = pa.Array.from_buffers(pa.binary(), count, [None, parts[10], parts[11]], 0)
        keys = pa.array([name.decode("utf-8", "replace") for name in raw.to_pylist()], pa.string())
    nulls = columns.header_nulls
    values = pa.Array.from_buffers(pa.binary(), count, [parts[12] if nulls else None, parts[13], parts[14]], nulls)
    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    structs = pa.StructArray.from_arrays([keys, values], fields=list(entry))
    return pa.Array.from_buffers(pa.list_(entry), columns.rows, [None, parts[9]], 0, children=[structs])


def encode_from_arrow(
    data: pa.RecordBatch | pa.Table,
    *,
    max_batch_bytes: int = 1_000_000,
    default_timestamp_ms: int = -1,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    room: Callable[[int], bytearray] = bytearray,
) -> Iterator[bytes | memoryview]:
    """Yield rows as batches of at most `max_batch_bytes` (before compression) for a producer: base offset 0, no producer id, in row order.

    Each batch is encoded when it is requested.

    Columns by name: `value` and `key` (binary or string, also large or dictionary-encoded; a missing key is null), `timestamp` (any Arrow
    timestamp, or int64 milliseconds; missing or null is `default_timestamp_ms`), `headers` (list of structs of key and value). Other
    columns are ignored. A row larger than the limit gets a batch for itself. `room(size)` returns the buffer for an uncompressed batch of
    about `size` bytes; the yielded batch is a part of this buffer.

    Raises KeyError without `value`, pyarrow.ArrowInvalid for invalid arrays.
    """
    if compression != Compression.NONE:
        room = _Scratch().room
    for batch in data.to_batches() if hasattr(data, "to_batches") else [data]:
        if batch.num_rows:
            yield from _encode_record_batch(batch, max_batch_bytes, default_timestamp_ms, compression, level, room)


def _encode_record_batch(
    batch: Any,
    max_batch_bytes: int,
    default_timestamp_ms: int,
    compression: Compression,
    level: int | None,
    room: Callable[[int], bytearray],
) -> Iterator[bytes | memoryview]:
    import pyarrow as pa

    rows = batch.num_rows
    names = set(batch.schema.names)
    value_ends, values, value_validity, value_bit = _binary(batch.column("value"))
    key_ends, keys, key_validity, key_bit = _binary(batch.column("key")) if "key" in names else (None, memoryview(b""), None, 0)
    timestamps: memoryview | None = None
    if "timestamp" in names:
        column = batch.column("timestamp")
        if not pa.types.is_integer(column.type):
            column = column.cast(pa.timestamp("ms", getattr(column.type, "tz", None)), safe=False)
        column = column.cast(pa.int64()).fill_null(default_timestamp_ms)
        timestamps = memoryview(column.buffers()[1]).cast("q")[column.offset : column.offset + rows]
    headers: list[Any] | None = batch.column("headers").to_pylist() if "headers" in names else None
    if headers is not None and not any(headers):
        headers = None
    row = 0
    while row < rows:
        left = HEADER_SIZE + (rows - row) * _ROW_OVERHEAD + _bytes_from(key_ends, row) + _bytes_from(value_ends, row)
        writer = native.codec.RecordWriter(max_batch_bytes, HEADER_SIZE, room(min(left, max_batch_bytes)))
        if headers is None:
            row = writer.append_rows(
                row,
                rows,
                timestamps,
                default_timestamp_ms,
                key_ends,
                keys,
                key_validity,
                value_ends,
                values,
                value_validity,
                (key_bit, value_bit),
            )
        else:
            row = _append_with_headers(writer, batch, row, timestamps, default_timestamp_ms, headers)
        yield _seal(writer, compression, level)


def _bytes_from(ends: memoryview | None, row: int) -> int:
    """Return the bytes of a column's values from the row on."""
    return 0 if ends is None else ends[-1] - ends[row]


class _Scratch:
    """Reusable buffer for records that are compressed afterwards."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def room(self, size: int) -> bytearray:
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return self._buffer


def _append_with_headers(writer: Any, batch: Any, row: int, timestamps: memoryview | None, default: int, headers: list[Any]) -> int:
    keys = batch.column("key") if "key" in batch.schema.names else None
    values = batch.column("value")
    while row < batch.num_rows:
        entries = [(entry["key"], entry["value"]) for entry in headers[row] or ()]
        timestamp = default if timestamps is None else timestamps[row]
        key = None if keys is None else _octets(keys[row].as_py())
        if not writer.append(timestamp, key, _octets(values[row].as_py()), entries):
            break
        row += 1
    return row


def _octets(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _seal(writer: Any, compression: Compression, level: int | None) -> bytes | memoryview:
    return seal_in_place(writer) if compression == Compression.NONE else seal_written(writer, compression, level)


def _binary(column: Any) -> tuple[memoryview | None, memoryview, memoryview | None, int]:
    """Return offsets (from the first row on), data, validity bitmap and the bit of the first row of a column that can be binary."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return None, memoryview(b""), None, 0
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    column.validate(full=True)
    validity, ends, data = column.buffers()
    return (
        memoryview(ends).cast("B").cast("i")[column.offset : column.offset + len(column) + 1],
        memoryview(data).cast("B") if data is not None else memoryview(b""),
        memoryview(validity).cast("B") if validity is not None and column.null_count else None,
        column.offset,
    )


def schema(include_headers: bool = False) -> pa.Schema:
    """Return the schema of `decode_to_arrow`."""
    return decode_to_arrow(b"", topic="", partition=0, include_headers=include_headers).schema


__all__ = ["decode_to_arrow", "encode_from_arrow", "read_header", "schema"]
