"""Checks that a batch must pass before it is appended.

The checks are those of Kafka's UnifiedLog.analyzeAndValidateRecords, LogValidator and ProduceRequest.validateRecords, in this order: size,
CRC, header of a client's batch, decompression, framing of every record, keys, timestamps. Then follow the smallest changes that the topic
requires (compression, timestamps). Without a change the bytes stay as they came.

On purpose they are stricter than the JVM's (4.3.1) where it would store a batch that consumers cannot read or would misread. INVALID_RECORD
are uncompressed records whose offset deltas are not 0, 1, 2, ... and compressed records whose declared size is not their size;
decompression is bounded. Where the JVM answers UNKNOWN_SERVER_ERROR because a codec or varint reader threw, the answer here is
INVALID_RECORD.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records import native
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    check_crc,
    decode_batch,
    encode_batch,
    iter_headers,
    malformed,
    read_header,
    records_of,
    seal_batch,
)
from odradek.records.compression import DEFAULT_LIMIT, Compression
from odradek.records.crc32c import crc32c
from odradek.records.patch import with_max_timestamp

_LONG_MAX = 0x7FFFFFFFFFFFFFFF
_OUT_OF_THE_ORDINARY = COMPRESSION_MASK | TIMESTAMP_TYPE_MASK | CONTROL_MASK
_MAX_RECORD_ERRORS = 1000
"""Limit of record errors in one response; a batch may hold millions of records."""


class RecordError(NamedTuple):
    """Record that was refused, by its index in the batch."""

    batch_index: int
    message: str | None


class RecordValidationError(KafkaError):
    """Error for a batch that is refused because of single records; `record_errors` goes into the produce response."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class BatchCheck(NamedTuple):
    """Result of the walk over a batch."""

    record_count: int
    max_timestamp: int
    """Milliseconds; -1 when no record has a timestamp."""
    offset_of_max_timestamp: int
    """Kafka's shallow offset: that of the last record of the batch, as the header has it."""
    min_timestamp: int
    """Least timestamp other than -1; 2**63 - 1 without one."""
    offsets_in_order: bool
    """True if the offset deltas are 0, 1, 2, ..."""
    uncompressed_size: int
    """Bytes of the batch with its records uncompressed."""


class AppendRules(NamedTuple):
    """Rules of the topic's configuration for appended batches."""

    max_message_bytes: int
    compression: Compression | None = None
    """`compression.type`; None is `producer`."""
    compression_level: int | None = None
    log_append_time: bool = False
    """`message.timestamp.type` is LogAppendTime."""
    before_max_ms: int = _LONG_MAX
    after_max_ms: int = 3_600_000
    require_keys: bool = False
    """`cleanup.policy` contains compact."""
    max_uncompressed: int = DEFAULT_LIMIT


class ValidatedBatch(NamedTuple):
    """Batch that may be appended: only base offset and leader epoch are still to be set."""

    batch: memoryview
    header: BatchHeader
    max_timestamp: int
    record_count: int
    uncompressed_size: int
    rewritten: bool
    """True if the bytes of `batch` differ from the given ones."""


def validate_produce_records(records: Buffer, version: int) -> BatchHeader:
    """Return the header of the batch in a produce request of `version` (3 or later), which must hold exactly one batch of magic 2.

    The bytes of an incomplete batch at the end are ignored, as in Kafka. Raises KafkaError INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE
    (zstd before version 7), CORRUPT_MESSAGE.
    """
    batches = iter_headers(records)
    _, header = next(batches, (0, None))
    if header is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if header.magic != MAGIC_V2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    if version < 7 and header.compression == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    if next(batches, None) is not None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch per partition",
        )
    return header


def check_client_header(header: BatchHeader) -> None:
    """Check the header of a client's batch. Raises KafkaError INVALID_RECORD."""
    if header.base_offset != 0:
        raise _invalid(f"The base offset of an appended record batch must be 0, but it is {header.base_offset}")
    spanned = header.last_offset_delta + 1
    if spanned <= 0:
        raise _invalid(f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]")
    if header.record_count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {header.record_count}")
    if spanned != header.record_count:
        raise _invalid(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of records {header.record_count}"
        )
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise _invalid(f"Invalid sequence number {header.base_sequence} in record batch with producer id {header.producer_id}")


def validate_batch(
    buffer: Buffer, position: int, header: BatchHeader, *, max_uncompressed: int = DEFAULT_LIMIT, require_keys: bool = False
) -> BatchCheck:
    """Check size, CRC, record count and the framing of every record of the batch at `position`, decompressing if need be.

    Only in an uncompressed batch are offsets out of order an error.

    Raises KafkaError: CORRUPT_MESSAGE (size, CRC), UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD (framing, count, offsets; keys as
    RecordValidationError), MESSAGE_TOO_LARGE (more than `max_uncompressed` bytes).
    """
    check_integrity(buffer, position, header)
    check, _ = _walk(buffer, position, header, max_uncompressed, require_keys, None)
    return check


def check_integrity(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise KafkaError CORRUPT_MESSAGE unless the batch is complete and its CRC is right, INVALID_RECORD for magic 0 and 1."""
    if header.magic != MAGIC_V2:
        raise _invalid(f"Batches of magic {header.magic} cannot be appended any more, only those of magic 2")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or position + header.size > len(buffer):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt (the size {header.size} is not the size of a complete batch)")
    if not check_crc(buffer, position, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")


def validate_append(
    buffer: Buffer, position: int, header: BatchHeader, rules: AppendRules, *, now_ms: int, from_client: bool = True
) -> ValidatedBatch:
    """Check one received batch and return the batch to write, for every append on a leader.

    `from_client` is false for batches of coordinators and the Raft leader, which may be control batches and carry offsets. This process
    itself has encoded them: of a batch that needs no change only the header is checked.

    Raises KafkaError and RecordValidationError as the module says; MESSAGE_TOO_LARGE when the batch, as received or rewritten, exceeds
    `rules.max_message_bytes`.
    """
    plain = (_plain_batch if from_client else _own_batch)(buffer, position, header, rules, now_ms)
    if plain is not None:
        return plain
    if from_client and header.magic == MAGIC_V2 and header.base_offset != 0:
        check_client_header(header)
    _check_size(header.size, rules)
    check_integrity(buffer, position, header)
    if from_client:
        check_client_header(header)
    check, records = _walk(buffer, position, header, rules.max_uncompressed, rules.require_keys, (rules, now_ms))
    batch = memoryview(buffer)[position : position + header.size]
    target = header.compression if rules.compression is None or (header.is_control and not header.is_compressed) else rules.compression
    rewritten = False
    if (not check.offsets_in_order or target != header.compression) and check.min_timestamp < 0:
        # Kafka's builder, which rewrites such a batch, accepts no negative timestamp (and answers UNKNOWN_SERVER_ERROR).
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"Invalid negative timestamp {check.min_timestamp}")
    if not check.offsets_in_order or (target != header.compression and header.is_log_append_time):
        batch = memoryview(_renumber(batch, header, target, rules))
        rewritten = True
    elif target != header.compression:
        batch = memoryview(_recompress(records, header, target, rules.compression_level))
        rewritten = True
    max_timestamp = now_ms if rules.log_append_time else check.max_timestamp
    if header.is_log_append_time != rules.log_append_time or header.max_timestamp != max_timestamp:
        batch = memoryview(with_max_timestamp(batch, max_timestamp, log_append_time=rules.log_append_time))
        rewritten = True
    if rewritten:
        header = read_header(batch)
        _check_size(header.size, rules)
    return ValidatedBatch(batch, header, max_timestamp, check.record_count, check.uncompressed_size, rewritten)


def _plain_batch(buffer: Buffer, position: int, header: BatchHeader, rules: AppendRules, now_ms: int) -> ValidatedBatch | None:
    """Validate quickly the common case: one uncompressed batch of magic 2 that is stored as it came.

    The checks are those of the slow path. None says only that the batch is not of this kind or invalid; the slow path then decides.
    """
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        _,
        sequence,
        count,
    ) = header
    size = batch_length + LOG_OVERHEAD
    if (
        magic != MAGIC_V2
        or attributes & _OUT_OF_THE_ORDINARY
        or position
        or size != len(buffer)
        or size > rules.max_message_bytes
        or size > rules.max_uncompressed
        or base_offset
        or count <= 0
        or last_offset_delta + 1 != count
        or (producer_id >= 0 and sequence < 0)
        or rules.log_append_time
        or (rules.compression is not None and rules.compression != Compression.NONE)
    ):
        return None
    view = memoryview(buffer)
    if crc32c(view[ATTRIBUTES_OFFSET:]) != crc:
        return None
    status, _, latest, earliest, in_order, null_keys = native.codec.walk(view, HEADER_SIZE, size, count, base_timestamp)
    if status or not in_order or latest != max_timestamp or (null_keys and rules.require_keys):
        return None
    if earliest != _LONG_MAX and (earliest < now_ms - rules.before_max_ms or latest > now_ms + rules.after_max_ms):
        return None
    return ValidatedBatch(view, header, latest, count, size, False)


def _own_batch(buffer: Buffer, position: int, header: BatchHeader, rules: AppendRules, now_ms: int) -> ValidatedBatch | None:
    """Validate quickly a batch that a coordinator of this process has just encoded and that is stored unchanged.

    Its records are known to be right, and its bytes have not left the process. Most of a transaction's batches are of this kind. None says
    that the slow path decides.
    """
    _, batch_length, _, magic, _, attributes, last_offset_delta, base_timestamp, max_timestamp, _, _, _, count = header
    size = batch_length + LOG_OVERHEAD
    if (
        magic != MAGIC_V2
        or attributes & (COMPRESSION_MASK | TIMESTAMP_TYPE_MASK)
        or position
        or size != len(buffer)
        or size > rules.max_message_bytes
        or count <= 0
        or last_offset_delta + 1 != count
        or rules.log_append_time
        or (rules.compression is not None and rules.compression != Compression.NONE and not attributes & CONTROL_MASK)
        or base_timestamp < now_ms - rules.before_max_ms
        or max_timestamp > now_ms + rules.after_max_ms
    ):
        return None
    return ValidatedBatch(memoryview(buffer), header, max_timestamp, count, size, False)


def recompress(batch: Buffer, compression: Compression, level: int | None = None, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """Return one whole batch with its records in another compression and everything else unchanged.

    Raises KafkaError when the batch does not decompress.
    """
    header = read_header(batch)
    return _recompress(records_of(batch, 0, header, limit), header, compression, level)


def _recompress(records: Buffer, header: BatchHeader, compression: Compression, level: int | None) -> bytes:
    body = bytearray(HEADER_SIZE)
    body += records
    return seal_batch(
        body,
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & 0x78,
        compression=compression,
        level=level,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )


def _renumber(batch: memoryview, header: BatchHeader, compression: Compression, rules: AppendRules) -> bytes:
    """Return the batch with every record rewritten, with the offset and timestamp that a reader sees.

    For the sake of old clients the JVM does so for compressed records whose offset deltas do not count up.
    """
    records = decode_batch(batch, 0, header, rules.max_uncompressed)
    return encode_batch(
        [(record.timestamp, record.key, record.value, record.headers) for record in records],
        base_offset=header.base_offset,
        compression=compression,
        level=rules.compression_level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        partition_leader_epoch=header.partition_leader_epoch,
        timestamp_type=LOG_APPEND_TIME if header.is_log_append_time else 0,
    )


def _walk(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    max_uncompressed: int,
    require_keys: bool,
    timestamps: tuple[AppendRules, int] | None,
) -> tuple[BatchCheck, Buffer]:
    """Walk over the records; return the result and the uncompressed records. `timestamps` are the rules to check, and the time (ms)."""
    count = header.record_count
    if count < 0:
        raise _invalid(f"Found invalid record count {count}")
    records = records_of(buffer, position, header, max_uncompressed)
    if count == 0 and len(records) == 0:
        return BatchCheck(0, header.max_timestamp, header.last_offset, _LONG_MAX, True, HEADER_SIZE), records
    walked = native.codec.walk(memoryview(records), 0, len(records), count, header.base_timestamp)
    status, good, max_timestamp, min_timestamp, in_order, null_keys = walked
    if status:
        raise malformed(status, good, count)
    if header.is_log_append_time:
        # Every record of such a batch is read with the header's timestamp.
        min_timestamp = header.max_timestamp if header.max_timestamp != NO_TIMESTAMP else _LONG_MAX
        max_timestamp = max(header.max_timestamp, NO_TIMESTAMP)
    if (require_keys and null_keys) or (timestamps is not None and not _timestamps_fit(header, min_timestamp, max_timestamp, *timestamps)):
        _refuse_records(bytes(records), header, require_keys, timestamps)
    if not in_order and not header.is_compressed:
        raise _invalid("The offset deltas of the records do not count up from 0")
    size = HEADER_SIZE + len(records)
    return BatchCheck(count, max_timestamp, header.last_offset, min_timestamp, in_order, size), records


def _timestamps_fit(header: BatchHeader, least: int, greatest: int, rules: AppendRules, now_ms: int) -> bool:
    """Return a quick answer for the whole batch; False only says that every record must be checked."""
    if rules.log_append_time or least == _LONG_MAX:
        return not header.is_log_append_time
    return least >= now_ms - rules.before_max_ms and greatest <= now_ms + rules.after_max_ms


def _refuse_records(records: bytes, header: BatchHeader, require_keys: bool, timestamps: tuple[AppendRules, int] | None) -> None:
    """Raise RecordValidationError with the invalid records; return if all are valid."""
    errors: list[RecordError] = []
    total = 0
    code = ErrorCode.INVALID_RECORD
    frames = native.codec.frames(records, 0, len(records), header.record_count, header.base_timestamp)
    for index, (_, timestamp, has_key) in enumerate(frames):
        message: str | None = None
        if require_keys and not has_key:
            message = "Compacted topic cannot accept message without key"
        elif timestamps is not None:
            message = _timestamp_error(header, header.max_timestamp if header.is_log_append_time else timestamp, *timestamps)
            if message is not None:
                code = ErrorCode.INVALID_TIMESTAMP
        if message is not None:
            total += 1
            if total <= _MAX_RECORD_ERRORS:
                errors.append(RecordError(index, message))
    if not errors:
        return
    if code == ErrorCode.INVALID_TIMESTAMP:
        raise RecordValidationError(code, "One or more records have been rejected due to invalid timestamp", errors)
    raise RecordValidationError(
        code, f"One or more records have been rejected: {total} record errors in total, the first: {errors[0].message}", errors
    )


def _timestamp_error(header: BatchHeader, timestamp: int, rules: AppendRules, now_ms: int) -> str | None:
    if not rules.log_append_time and timestamp != NO_TIMESTAMP:
        difference = _wrap(now_ms - timestamp)
        if difference > rules.before_max_ms or _wrap(-difference) > rules.after_max_ms:
            return f"Timestamp {timestamp} is out of range [{now_ms - rules.before_max_ms}, {now_ms + rules.after_max_ms}]"
    elif header.is_log_append_time:
        return "Producer should not set timestamp type to LogAppendTime"
    return None


def _wrap(value: int) -> int:
    """Wrap like Java's long arithmetic, so that extreme timestamps are judged as in Java."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _check_size(size: int, rules: AppendRules) -> None:
    if size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {size} bytes which exceeds the maximum configured value of {rules.max_message_bytes}",
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
