"""Encoding of a producer state snapshot (`.snapshot`; schema ProducerSnapshot version 1 of Kafka's storage module)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from odradek.records import crc32c

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """Error for a file that is not a snapshot or was damaged."""


class ProducerSnapshotEntry(NamedTuple):
    """Entry of one producer; `last_offset` is -1 without a batch, `txn_first_offset` -1 without an open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode_snapshot(entries: Sequence[ProducerSnapshotEntry]) -> bytes:
    body = _COUNT.pack(len(entries)) + b"".join([_ENTRY.pack(*entry) for entry in entries])
    return _HEAD.pack(_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerSnapshotEntry]:
    """Return the entries of a snapshot. Raises CorruptSnapshotError on an unknown version, a wrong checksum or a wrong size."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too short for a producer snapshot")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown snapshot version {version}")
    body = data[_HEAD.size :]
    if crc32c.crc32c(body) != crc:
        raise CorruptSnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) - _COUNT.size < count * _ENTRY.size or count < 0:
        raise CorruptSnapshotError(f"{count} entries do not fit into {len(body)} bytes")
    end = _COUNT.size + count * _ENTRY.size
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size : end])]
