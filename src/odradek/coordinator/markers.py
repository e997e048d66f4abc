"""End-transaction markers as a coordinator writes them into a partition (EndTransactionMarker, ControlRecordType)."""

from __future__ import annotations

import struct

from odradek.records.batch import encode_batch

_ABORT, _COMMIT = 0, 1


def marker_batch(producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool, now_ms: int) -> bytes:
    """A control batch with one marker."""
    key = struct.pack(">hh", 0, _COMMIT if committed else _ABORT)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return encode_batch(
        [(now_ms, key, value, ())], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
