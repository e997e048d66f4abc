"""Record batches of magic 2: header, records, and the builders (KIP-98; org.apache.kafka.common.record.DefaultRecordBatch).

A buffer of records, in produce requests, fetch responses and segments, is a sequence of batches. The last batch may be incomplete, which is
not an error: Kafka's fetch returns whole byte ranges.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records import crc32c, native
from odradek.records.compression import DEFAULT_LIMIT, Compression, compress, decompress
from odradek.records.layout import HEADER_SIZE as HEADER_SIZE

P = TypeVar("P", bound=tuple[Any, ...])

Buffer = bytes | bytearray | memoryview
Headers = Sequence[tuple[str, bytes | None]]

LOG_OVERHEAD = 12
"""Bytes of base offset and batch length, which the batch length does not count."""
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
"""First byte that the CRC covers; it covers the rest of the batch."""
HEADER_SIZE_UP_TO_MAGIC = 17

MAGIC_V2 = 2

COMPRESSION_MASK = 0x07
_COMPRESSIONS = tuple(Compression)
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_LEGACY_MIN_LENGTH = 14
"""Smallest valid record length: an empty message of magic 0."""


class BatchHeader(NamedTuple):
    """Fixed part of a batch, in wire order. For a message of magic 0 or 1 see `odradek.records.legacy`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Compression codec. Raises KafkaError UNSUPPORTED_COMPRESSION_TYPE for an unknown id."""
        code = self.attributes & COMPRESSION_MASK
        if code >= len(_COMPRESSIONS):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {code}")
        return _COMPRESSIONS[code]

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & TIMESTAMP_TYPE_MASK != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without one; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time (ms) from which tombstones and markers of a compacted batch may be removed (KIP-534); None when not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None


_new_header = cast("Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""`BatchHeader._make` without the cost of a Python call: every append and every fetch needs it."""


class Record(NamedTuple):
    """Record as a consumer sees it. `timestamp` is milliseconds since the epoch, -1 when the producer sent none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence `increment` records later, wrapping from 2**31 - 1 to 0."""
    return (sequence + increment) & 0x7FFFFFFF


def read_header(buffer: Buffer, offset: int = 0) -> BatchHeader:
    """Return the header at `offset`; for a message of magic 0 or 1 the one from `legacy.read_header`.

    Raises ProtocolError when fewer bytes are left than the header has, and KafkaError CORRUPT_MESSAGE for an impossible length or magic (as
    Kafka's ByteBufferLogInputStream).
    """
    remaining = len(buffer) - offset
    if offset < 0 or remaining < HEADER_SIZE_UP_TO_MAGIC:
        raise ProtocolError(f"{max(remaining, 0)} bytes are left where a batch header should be")
    if remaining >= HEADER_SIZE and buffer[offset + MAGIC_OFFSET] == MAGIC_V2:
        header = _new_header(BatchHeader, _HEADER.unpack_from(buffer, offset))
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record batch size {header.batch_length} is less than a batch header")
        return header
    _, length, _, magic = _PREFIX.unpack_from(buffer, offset)
    if length < _LEGACY_MIN_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({_LEGACY_MIN_LENGTH})")
    if not 0 <= magic <= MAGIC_V2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    if magic == MAGIC_V2:
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record batch size {length} is less than a batch header")
        raise ProtocolError(f"{remaining} bytes are left where a batch header should be")
    from odradek.records import legacy

    return legacy.read_header(buffer, offset)


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch in the buffer; an incomplete batch at the end is left out.

    Raises KafkaError CORRUPT_MESSAGE for an impossible length or magic.
    """
    position = 0
    end = len(buffer)
    while end - position >= HEADER_SIZE_UP_TO_MAGIC:
        length = int.from_bytes(buffer[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        if length >= _LEGACY_MIN_LENGTH and length + LOG_OVERHEAD > end - position and 0 <= buffer[position + MAGIC_OFFSET] <= MAGIC_V2:
            return
        header = read_header(buffer, position)
        yield position, header
        position += header.batch_length + LOG_OVERHEAD


def check_crc(buffer: Buffer, offset: int, header: BatchHeader) -> bool:
    """Return whether the stored CRC matches the batch at `offset`, False for an incomplete batch."""
    end = offset + header.batch_length + LOG_OVERHEAD
    if end > len(buffer) or header.batch_length < _LEGACY_MIN_LENGTH:
        return False
    if header.magic < MAGIC_V2:
        from odradek.records import legacy

        return legacy.check_crc(buffer, offset, header)
    with memoryview(buffer) as view, view[offset + ATTRIBUTES_OFFSET : end] as covered:
        return crc32c.crc32c(covered) == header.crc


def records_of(buffer: Buffer, position: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> Buffer:
    """Return the bytes of the batch's records, decompressed if need be: at most `limit` bytes.

    Raises KafkaError (see compression.decompress), and ProtocolError when the batch is incomplete.
    """
    end = position + header.batch_length + LOG_OVERHEAD
    if end > len(buffer):
        raise ProtocolError("The record batch is truncated")
    payload = memoryview(buffer)[position + HEADER_SIZE : end]
    return decompress(payload, header.compression, limit)


def decode_batch(buffer: Buffer, position: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """Return the records of one batch, control records too. The CRC is not checked.

    Raises KafkaError INVALID_RECORD (or those of decompression), and ProtocolError when the batch is incomplete.
    """
    if header.magic < MAGIC_V2:
        from odradek.records import legacy

        return legacy.decode_message(buffer, position, header, limit)
    output: list[Record] = []
    _decode(buffer, position, header, limit, Record, output)
    return output


def decode_placed(
    buffer: Buffer, position: int, header: BatchHeader, record_class: type[P], topic: str, partition: int, least: int, output: list[P]
) -> None:
    """Append the records of one batch with offsets from `least` on to `output`, each as a `record_class`.

    `record_class` is a NamedTuple of topic, partition, offset, timestamp, type of timestamp (0 or 1), key, value and headers. Raises as
    `decode_batch`.
    """
    kind = 1 if header.is_log_append_time else 0
    if header.magic < MAGIC_V2:
        make = cast("Callable[..., P]", record_class)
        for offset, timestamp, key, value, headers in decode_batch(buffer, position, header):
            if offset >= least:
                output.append(make(topic, partition, offset, timestamp, kind, key, value, headers))
        return
    _decode(buffer, position, header, DEFAULT_LIMIT, record_class, output, (topic, partition, kind), least)


def _decode(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    limit: int,
    record_class: type[P],
    output: list[P],
    place: tuple[str, int, int] | None = None,
    least: int = -(1 << 63),
) -> None:
    count = header.record_count
    if count < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record count {count} in magic v{header.magic} batch")
    if count == 0:
        # Compaction leaves empty batches; bytes after their header are ignored, as in Kafka.
        return
    payload = bytes(records_of(buffer, position, header, limit))
    append_timestamp = header.max_timestamp if header.is_log_append_time else None
    before = len(output)
    status = native.codec.decode(
        payload, 0, len(payload), count, header.base_offset, header.base_timestamp, append_timestamp, record_class, output, place, least
    )
    if status:
        raise malformed(status, len(output) - before, count)


def decode_records(buffer: Buffer, *, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """Return the records of all whole batches in the buffer, in order, without control batches. An incomplete batch at the end is ignored.

    `limit` bounds the uncompressed bytes of each batch. The CRC is not checked (see `check_crc`). Raises KafkaError.
    """
    output: list[Record] = []
    for position, header in iter_headers(buffer):
        if not header.is_control:
            output += decode_batch(buffer, position, header, limit)
    return output


def malformed(status: int, index: int, count: int) -> KafkaError:
    """Return the error for a status of `native.codec.walk` or `decode`."""
    if status == native.codec.WALK_TRAILING:
        return KafkaError(ErrorCode.INVALID_RECORD, f"Incorrect declared batch size, bytes remain after the {count} records of the batch")
    return KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record structure in record {index} of {count}")


def encode_batch(
    records: Sequence[tuple[int, bytes | None, bytes | None, Headers]],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    timestamp_type: int = CREATE_TIME,
) -> bytes:
    """Return one batch of (timestamp in ms, key, value, headers), offsets counting up from `base_offset`.

    An empty sequence gives a batch without records, as compaction leaves it. Raises OverflowError beyond 2 GiB.
    """
    attributes = 0
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_MASK
    if transactional:
        attributes |= TRANSACTIONAL_MASK
    if control:
        attributes |= CONTROL_MASK
    return seal_written(
        _written(records, None),
        compression,
        level,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_batch_in(
    buffer: bytearray,
    records: Sequence[tuple[int, bytes | None, bytes | None, Headers]],
    *,
    compression: Compression,
    level: int | None,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> bytes | memoryview:
    """Return a batch as `encode_batch` does; an uncompressed batch is written into `buffer`, and the used part is returned.

    If `buffer` is too small, another one is used. A compressed batch does not use `buffer` after the return.
    """
    writer = _written(records, buffer)
    attributes = TRANSACTIONAL_MASK if transactional else 0
    if compression == Compression.NONE:
        return seal_in_place(writer, attributes, producer_id, producer_epoch, base_sequence)
    return seal_written(
        writer,
        compression,
        level,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def _written(records: Sequence[tuple[int, bytes | None, bytes | None, Headers]], buffer: bytearray | None) -> Any:
    writer = native.codec.RecordWriter(0x7FFFFFFF, HEADER_SIZE, buffer)
    if not writer.append_records(records):
        raise OverflowError("A record batch must be smaller than 2 GiB")
    return writer


def seal_in_place(
    writer: Any,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> memoryview:
    """Return the records of a RecordWriter as an uncompressed batch, a part of its buffer. The writer must not be used afterwards."""
    sealed: memoryview = writer.seal_in_place(0, NO_PARTITION_LEADER_EPOCH, attributes, producer_id, producer_epoch, base_sequence)
    return sealed


def seal_written(
    writer: Any,
    compression: Compression,
    level: int | None,
    *,
    attributes: int = 0,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Return the records of a RecordWriter as a batch. The writer must not be used afterwards."""
    if compression == Compression.NONE:
        whole: bytes = writer.seal(base_offset, partition_leader_epoch, attributes, producer_id, producer_epoch, base_sequence)
        return whole
    count = writer.count
    return seal_batch(
        writer.body(),
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        compression=compression,
        level=level,
        last_offset_delta=max(count - 1, 0),
        base_timestamp=writer.base_timestamp,
        max_timestamp=writer.max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )


def encode_keyed(
    records: Iterable[tuple[int, Sequence[tuple[bytes | None, bytes | None]]]],
    size: int,
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """Return a batch as `encode_batch` does, from keys and values in groups of one timestamp each, as coordinators write them.

    `size` bounds the uncompressed records, so that a few records need no large buffer. Raises OverflowError when they take more bytes.
    """
    writer = native.codec.RecordWriter(min(HEADER_SIZE + size, 0x7FFFFFFF), HEADER_SIZE)
    for timestamp, group in records:
        if not writer.append_all(timestamp, group):
            raise OverflowError(f"The records take more than {size} bytes")
    return seal_written(
        writer,
        compression,
        None,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=(TRANSACTIONAL_MASK if transactional else 0) | (CONTROL_MASK if control else 0),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def seal_batch(
    body: bytearray | memoryview,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    compression: Compression,
    level: int | None,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """Return a batch made from a buffer with HEADER_SIZE bytes of space and then the uncompressed records."""
    if compression != Compression.NONE and record_count > 0:
        body = _compressed(body, compression, level)
        attributes |= compression
    _HEADER.pack_into(
        body,
        0,
        base_offset,
        len(body) - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    _CRC.pack_into(body, CRC_OFFSET, crc32c.crc32c(memoryview(body)[ATTRIBUTES_OFFSET:]))
    return bytes(body)


def _compressed(body: bytearray | memoryview, compression: Compression, level: int | None) -> bytearray:
    """Return the buffer, space for the header included, with its records compressed."""
    with memoryview(body) as view:
        compressed = compress(view[HEADER_SIZE:], compression, level)
    return bytearray(HEADER_SIZE) + compressed


class BatchBuilder:
    """Builder of one batch of a producer.

    `append(timestamp_ms, key, value, headers=()) -> bool` adds a record, or returns False when the batch is full: then close it and open
    another. The first record always fits. `limit` is the size of the batch in bytes. With compression it is compared with the uncompressed
    size times `expected_ratio` (compressed / uncompressed, as the producer has seen it so far).
    """

    __slots__ = ("_compression", "_level", "_ratio", "_writer", "append")

    append: Callable[..., bool]

    def __init__(
        self, limit: int, *, compression: Compression = Compression.NONE, level: int | None = None, expected_ratio: float = 1.0
    ) -> None:
        ratio = 1.0 if compression == Compression.NONE else min(max(expected_ratio, 0.01), 1.0)
        room = max(int((limit - HEADER_SIZE) / ratio), 0) + HEADER_SIZE
        self._writer = native.codec.RecordWriter(min(room, 0x7FFFFFFF), HEADER_SIZE)
        self._compression = compression
        self._level = level
        self._ratio = ratio
        self.append = self._writer.append

    @property
    def record_count(self) -> int:
        return self._writer.count

    @property
    def uncompressed_size(self) -> int:
        """Size of the batch before compression in bytes, header included."""
        return self._writer.position

    @property
    def size_estimate(self) -> int:
        """Expected size of the closed batch in bytes."""
        return HEADER_SIZE + int((self._writer.position - HEADER_SIZE) * self._ratio)

    @property
    def base_timestamp(self) -> int:
        return self._writer.base_timestamp

    @property
    def max_timestamp(self) -> int:
        return self._writer.max_timestamp

    def close(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytes:
        """Return the batch, with base offset 0; the builder must not be used afterwards. Raises ValueError when it is empty."""
        writer = self._writer
        if writer.count == 0:
            raise ValueError("A batch needs at least one record")
        return seal_written(
            writer,
            self._compression,
            self._level,
            attributes=TRANSACTIONAL_MASK if transactional else 0,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
