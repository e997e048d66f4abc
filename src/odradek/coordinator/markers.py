"""Markers that end transactions, as coordinators append them to a partition (EndTransactionMarker, ControlRecordType)."""

from __future__ import annotations

from struct import Struct

from odradek.records.batch import encode_keyed

_KEYS = {False: b"\0\0\0\0", True: b"\0\0\0\1"}
"""Version and type of the marker's key; True for a commit."""
_VALUE = Struct(">hi")
_LARGEST = 64


def marker_batch(producer_id: int, producer_epoch: int, coordinator_epoch: int, *, committed: bool, now_ms: int) -> bytes:
    """Return a control batch with one marker."""
    record = (_KEYS[committed], _VALUE.pack(0, coordinator_epoch))
    return encode_keyed(
        [(now_ms, [record])], _LARGEST, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )
