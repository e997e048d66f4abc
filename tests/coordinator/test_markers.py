"""Markers, which are written and read without their records being taken apart, are those that would come of it."""

from __future__ import annotations

import random

import pytest

from odradek.coordinator.markers import marker_batch
from odradek.records.batch import check_crc, encode_batch, read_header
from odradek.storage.append import ControlMarker, read_marker

_LONG, _SHORT, _INT = (1 << 63) - 1, 32767, (1 << 31) - 1
KEYS = {False: b"\0\0\0\0", True: b"\0\0\0\1"}


def long_way(producer_id: int, epoch: int, coordinator_epoch: int, committed: bool, now_ms: int) -> bytes:
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big", signed=True)
    records = [(now_ms, KEYS[committed], value, ())]
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)


def test_a_marker_is_a_batch_of_one_record() -> None:
    rng = random.Random(5)
    cases = [(0, 0, 0, 0), (_LONG, _SHORT, _INT, _LONG)]
    cases += [(rng.randrange(_LONG), rng.randrange(_SHORT), rng.randrange(_INT), rng.randrange(_LONG)) for _ in range(50)]
    for producer_id, epoch, coordinator_epoch, now_ms in cases:
        for committed in (False, True):
            batch = marker_batch(producer_id, epoch, coordinator_epoch, committed=committed, now_ms=now_ms)
            assert batch == long_way(producer_id, epoch, coordinator_epoch, committed, now_ms)
            header = read_header(batch)
            assert check_crc(batch, 0, header)
            view = memoryview(b"before" + batch + b"after")
            assert read_marker(view, 6, header) == ControlMarker(not committed, coordinator_epoch, now_ms)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"\0\0\0\2", b"\0\0\0\0\0\1", None),
        (b"\0\1\0\1", b"\0\2\0\0\0\1", ControlMarker(False, 1, 9)),
        (b"\0\0\0\1!", b"\0\0\0\0\1", None),
        (b"\0\0\0\1!", b"\0\0\0\0\0\1", ControlMarker(False, 1, 9)),
        (b"\0\0\0\1", b"\0\0\0\0\0\1more", ControlMarker(False, 1, 9)),
        (None, b"0123456789", None),
        (b"0123456789", None, None),
    ],
    ids=["another kind", "later versions", "a longer key", "an odd size", "a longer value", "no key", "no value"],
)
def test_what_is_in_another_form_is_taken_apart(key: bytes | None, value: bytes | None, expected: ControlMarker | None) -> None:
    batch = encode_batch([(9, key, value, ())], producer_id=1, producer_epoch=0, transactional=True, control=True)
    assert read_marker(memoryview(batch), 0, read_header(batch)) == expected
