# pyarrow has no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""Encoder of Arrow rows into record batches of a topic's partitions, without a Python object per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.client.core.partitioner import partition_for_key
from odradek.client.types import ArrowRows
from odradek.records.arrow import encode_from_arrow
from odradek.records.batch import read_header
from odradek.records.compression import Compression

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("key", "value", "headers", "timestamp", "partition")
"""Allowed columns of rows; only `value` is required."""


class EncodedRows(NamedTuple):
    """Record batch and its partition, None where any partition will do."""

    partition: int | None
    payload: bytes | memoryview
    record_count: int


class RowEncoder:
    """Encoder that assigns rows to partitions, by their column `partition`, else by key as `send` does."""

    def __init__(
        self,
        max_batch_bytes: int,
        compression: Compression,
        level: int | None,
        *,
        ignore_keys: bool = False,
        room: Callable[[int], bytearray] = bytearray,
    ) -> None:
        """Create an encoder of batches of at most `max_batch_bytes` before compression; a single larger row gets a batch to itself.

        `room` returns a buffer of at least the given number of bytes.
        """
        self._max_batch_bytes = max_batch_bytes
        self._compression = compression
        self._level = level
        self._ignore_keys = ignore_keys
        self._room = room

    def encode(self, topic: str, rows: ArrowRows, partitions: Sequence[int], partition: int | None, stamp_ms: int) -> Iterator[EncodedRows]:
        """Return batches in the order of the rows within a partition. Each batch is encoded when the iterator reaches it.

        `partitions` are the topic's; `partition` is for all rows (None: by row); rows without a timestamp get `stamp_ms` (Unix
        milliseconds).

        All rows are checked before the first is encoded. Raises ValueError for an unknown partition or column, for a column type that
        records cannot have, and for headers without a name. Raises KeyError without `value`.
        """
        if unknown := [name for name in rows.schema.names if name not in COLUMNS]:
            raise ValueError(f"{topic}: rows have an unknown column {unknown[0]!r}; the columns of records are {', '.join(COLUMNS)}")
        if "value" not in rows.schema.names:
            raise KeyError("value")
        pieces = [_checked(topic, piece) for piece in (rows.to_batches() if hasattr(rows, "to_batches") else [rows])]
        if partition is not None:
            _check_partition(topic, partition, partitions)
        if "partition" in rows.schema.names:
            if partition is not None:
                raise ValueError(f"{topic}: give either a partition for all rows or a column 'partition', not both")
            for number in [number for piece in pieces for number in _asked(piece).unique().to_pylist() if number is not None]:
                _check_partition(topic, number, partitions)
        return self._encoded(pieces, len(partitions), partition, stamp_ms)

    def _encoded(self, pieces: list[pa.RecordBatch], count: int, partition: int | None, stamp_ms: int) -> Iterator[EncodedRows]:
        for piece in pieces:
            for number, chosen in self._divided(piece, count, partition):
                payloads = encode_from_arrow(
                    chosen,
                    max_batch_bytes=self._max_batch_bytes,
                    default_timestamp_ms=stamp_ms,
                    compression=self._compression,
                    level=self._level,
                    room=self._room,
                )
                for payload in payloads:
                    yield EncodedRows(number, payload, read_header(payload).record_count)

    def _divided(self, rows: pa.RecordBatch, count: int, partition: int | None) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        import pyarrow.compute as pc

        numbers = None if partition is not None else _numbers(rows, count, ignore_keys=self._ignore_keys)
        rows = rows.select([name for name in rows.schema.names if name != "partition"])
        if numbers is None:
            yield partition, rows
            return
        for number in numbers.unique().to_pylist():
            yield number, rows.filter(numbers.is_null() if number is None else pc.equal(numbers, number))


def _checked(topic: str, piece: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with headers cast to one type. Raises ValueError for columns whose type or content records cannot have."""
    import pyarrow as pa

    wanted = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32()}
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for index, name in enumerate(piece.schema.names):
        column = piece.column(index)
        try:
            if name in wanted:
                # Check the type alone: these columns can be large.
                column.slice(0, 0).cast(wanted[name])
            elif name == "timestamp" and not pa.types.is_integer(column.type):
                column.cast(pa.timestamp("ms", getattr(column.type, "tz", None)), safe=False)
            elif name == "timestamp":
                column.cast(pa.int64())
            elif name == "headers" and not pa.types.is_null(column.type):
                column = column.cast(headers)
                column.validate(full=True)
                _check_names(column.flatten())
                piece = piece.set_column(index, name, column)
        except (pa.ArrowException, NotImplementedError, ValueError) as error:
            raise ValueError(f"{topic}: the column {name!r} cannot be used for records: {error}") from None
    return piece


def _check_names(headers: pa.StructArray) -> None:
    if headers.null_count or headers.field("key").null_count:
        raise ValueError("a header must have a name")


def _check_partition(topic: str, number: int, partitions: Sequence[int]) -> None:
    if number not in partitions:
        raise ValueError(f"Topic {topic} has partitions 0 to {len(partitions) - 1}, but a row names partition {number}")


def _asked(rows: pa.RecordBatch) -> pa.Array:
    import pyarrow as pa

    return rows.column("partition").cast(pa.int32())


def _numbers(rows: pa.RecordBatch, count: int, *, ignore_keys: bool) -> pa.Array | None:
    """Return the partition of each row: from its column, else by key unless keys are ignored, else null. None if all would be null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = rows.schema.names
    asked = _asked(rows) if "partition" in names else None
    by_key: pa.Array | None = None
    if not ignore_keys and "key" in names and rows.column("key").null_count < rows.num_rows and (asked is None or asked.null_count):
        keys = rows.column("key").cast(pa.binary()).dictionary_encode()
        hashed = pa.array([partition_for_key(key, count) for key in keys.dictionary.to_pylist()], pa.int32())
        by_key = hashed.take(keys.indices)
    if asked is None:
        return by_key
    return asked if by_key is None else pc.coalesce(asked, by_key)
