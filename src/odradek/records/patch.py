"""Changes to the header of a stored batch, without changes to its records."""

from __future__ import annotations

import struct

from odradek.records import crc32c

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")

_LOG_APPEND_TIME_MASK = 0x08
_TRANSACTIONAL_MASK = 0x10

Buffer = bytes | bytearray | memoryview


def patched_chunks(batch: memoryview, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview, bytes, memoryview]:
    """Return the batch with another base offset and leader epoch, as four buffers for one vectored write.

    The CRC covers neither field, so that the rest is the producer's bytes. `batch` is one whole batch of magic 2.
    """
    return _OFFSET.pack(base_offset), batch[8:12], _EPOCH.pack(leader_epoch), batch[16:]


def patched(batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """Return the result of `patched_chunks` as one bytes object."""
    return b"".join(patched_chunks(memoryview(batch), base_offset, leader_epoch))


def with_max_timestamp(batch: Buffer, max_timestamp: int, *, log_append_time: bool) -> bytes:
    """Return the batch with this maximum timestamp and timestamp type and a new CRC (DefaultRecordBatch.setMaxTimestamp).

    With `log_append_time` every record of the batch is read with this timestamp.
    """
    changed = bytearray(batch)
    attributes = int(_ATTRIBUTES.unpack_from(changed, 21)[0]) & 0x7F & ~_LOG_APPEND_TIME_MASK
    if log_append_time:
        attributes |= _LOG_APPEND_TIME_MASK
    _ATTRIBUTES.pack_into(changed, 21, attributes)
    _TIMESTAMP.pack_into(changed, 35, max_timestamp)
    seal(changed)
    return bytes(changed)


def with_producer(batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False) -> bytes:
    """Return the batch with another producer id, epoch and base sequence and a new CRC, as a client needs it after a new epoch.

    `transactional` makes the batch part of a transaction.
    """
    changed = bytearray(batch)
    set_producer(changed, producer_id, producer_epoch, base_sequence, transactional=transactional)
    return bytes(changed)


def set_producer(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> None:
    """Change the producer in place, as `with_producer` does."""
    if transactional:
        _ATTRIBUTES.pack_into(batch, 21, int(_ATTRIBUTES.unpack_from(batch, 21)[0]) | _TRANSACTIONAL_MASK)
    struct.pack_into(">qhi", batch, 43, producer_id, producer_epoch, base_sequence)
    seal(batch)


def seal(batch: bytearray | memoryview) -> None:
    """Write the CRC of a whole batch of magic 2 in place."""
    with memoryview(batch) as view:
        _CRC.pack_into(batch, 17, crc32c.crc32c(view[21:]))
