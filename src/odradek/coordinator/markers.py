"""End-transaction markers as a coordinator writes them into a partition (EndTransactionMarker, ControlRecordType)."""

from __future__ import annotations

from odradek.records.batch import CONTROL_MASK, HEADER_SIZE, NO_PARTITION_LEADER_EPOCH, NO_SEQUENCE, TRANSACTIONAL_MASK, sealed
from odradek.storage.append import MARKER_BEGINNING, MARKER_RECORD, MARKER_VALUE_SIZE

_ABORT, _COMMIT = 0, 1
_ROOM = bytes(HEADER_SIZE)


def marker_batch(producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool, now_ms: int) -> bytes:
    """A control batch with one marker. Nothing in it has a size of its own, so that it is filled in like a form."""
    kind = _COMMIT if committed else _ABORT
    body = bytearray(_ROOM + MARKER_RECORD.pack(*MARKER_BEGINNING, 0, kind, MARKER_VALUE_SIZE, 0, coordinator_epoch, 0))
    attributes = TRANSACTIONAL_MASK | CONTROL_MASK
    return sealed(body, 0, NO_PARTITION_LEADER_EPOCH, attributes, 0, now_ms, now_ms, producer_id, producer_epoch, NO_SEQUENCE, 1)
