"""Bytes that no client should send end in a KafkaError or ProtocolError, alike in both builds."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records import native
from odradek.records.batch import encode_batch, read_header
from odradek.records.compaction import OffsetMap, filter_batch, index_batch
from odradek.records.validation import validate_append
from tests.records.mutated_runs import RULES, verdict

from .mutated_runs import mutated_run, treatment
from .strategies import mutated


@pytest.mark.parametrize("seed", range(400))
def test_mutated_batches_only_raise_our_errors(seed: int) -> None:
    batch, did = mutated(random.Random(seed))
    try:
        verdict(batch)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {did}") from error


def test_both_builds_judge_alike(build: str) -> None:
    """Runs the source next to the build under test."""
    ours = native.codec
    source = native.load_interpreted()
    for seed in range(1000, 1400):
        batch, did = mutated(random.Random(seed))
        verdicts = []
        for native.codec in (ours, source):
            verdicts.append(verdict(batch))
        native.codec = ours
        assert verdicts[0] == verdicts[1], f"seed {seed}: {did}"


def test_runs_of_mutated_batches_are_treated_as_one_batch_after_the_other(build: str) -> None:
    """And alike in both builds, with scarce memory, too; see `treatment`."""
    ours = native.codec
    source = native.load_interpreted()
    try:
        for seed in range(300):
            run, did = mutated_run(random.Random(seed))
            answers: list[str] = []
            for native.codec in (ours, source) if seed % 5 == 0 else (ours,):
                try:
                    answers.append(treatment(run, random.Random(seed)))
                except Exception as error:
                    raise AssertionError(f"seed {seed}: {did}") from error
            assert answers[0] == answers[-1], f"seed {seed}: {did}"
    finally:
        native.codec = ours


def test_offsets_that_overflow_are_refused_for_compaction() -> None:
    """The CRC does not cover the base offset: 2**63 - 3 and three records more would wrap."""
    batch = memoryview(encode_batch([(0, b"k", b"v", ())] * 4, base_offset=2**63 - 3))
    for act in (
        lambda: index_batch(OffsetMap(2400), batch, read_header(batch), 0),
        lambda: filter_batch(
            batch, read_header(batch), OffsetMap(2400), discard_records=False, retain_empty=True, now_ms=5, delete_retention_ms=5
        ),
    ):
        with pytest.raises(KafkaError) as raised:
            act()
        assert raised.value.code == ErrorCode.INVALID_RECORD


def test_an_offset_delta_that_overflows_wraps_as_in_java() -> None:
    """The header promises fewer offsets than its record takes."""
    batch = bytearray(encode_batch([(0, b"k", b"v", ())] * 4, base_offset=2**63 - 3))
    batch[23:27] = bytes(4)
    view = memoryview(batch)
    offset_map = OffsetMap(2400)
    assert index_batch(offset_map, view, read_header(view), 0)
    assert (offset_map.get(b"k"), offset_map.latest_offset) == (2**63 - 1, 2**63 - 3)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_read_behind_the_end(seed: int) -> None:
    """A record that reaches into the bytes behind its batch is refused, also when these look fine."""
    rng = random.Random(seed)
    batch, _ = mutated(rng)
    if len(batch) < 61:
        return
    follower = bytes([rng.randrange(256)]) * 200
    at = 61
    end = len(batch)
    count = rng.randint(0, 20)
    alone = native.codec.walk(memoryview(batch), at, end, count, 0)
    assert native.codec.walk(memoryview(batch + follower), at, end, count, 0) == alone


@pytest.mark.parametrize(("position", "end"), [(-1, 5), (0, 11), (6, 5), (11, 11), (2**40, 2**41)])
def test_ranges_outside_of_the_buffer(position: int, end: int) -> None:
    view = memoryview(bytes(10))
    codec = native.codec
    assert codec.walk(view, position, end, 1, 0)[0] == codec.WALK_MALFORMED
    assert codec.decode(bytes(view), position, end, 1, 0, 0, None, tuple, []) == codec.WALK_MALFORMED
    assert codec.frames(bytes(view), position, end, 1, 0) == []
    assert codec.measure(view, position, end, 1, 0, 0, 10, True)[0] == codec.WALK_MALFORMED
    assert codec.Columns(1, 1, 1, True, 1, 1, 1).fill(view, position, end, 1, 0, 0, False, 0, 10) == codec.WALK_MALFORMED


def test_rewriting_stays_within_its_buffers() -> None:
    batch = memoryview(encode_batch([(0, b"key", b"value" * 9, [])] * 3))
    records = len(batch) - 61
    codec = native.codec
    flags = memoryview(bytearray([1, 1, 1]))
    assert codec.rewrite(batch, 61, len(batch), 3, flags, memoryview(bytearray(records)), 0, 0, False) == records
    for room in range(records):
        assert codec.rewrite(batch, 61, len(batch), 3, flags, memoryview(bytearray(room)), 0, 0, False) == -1
        assert codec.rewrite(batch, 61, len(batch), 3, flags, memoryview(bytearray(room)), 0, 2**40, False) == -1
    assert codec.rewrite(batch, 61, len(batch), 4, flags, memoryview(bytearray(999)), 0, 0, False) == -1
    assert codec.rewrite(batch, 62, len(batch), 3, flags, memoryview(bytearray(999)), 0, 5, False) == -1


def test_columns_refuse_what_was_not_measured() -> None:
    batch = memoryview(encode_batch([(0, b"key", b"value", [("name", b"content")])]))
    codec = native.codec
    exact = (1, 3, 5, True, 1, 4, 7)
    assert codec.measure(batch, 61, len(batch), 1, 0, 0, 9, True) == (0, 1, 3, 5, 1, 4, 7)
    assert codec.Columns(*exact).fill(batch, 61, len(batch), 1, 0, 0, False, 0, 9) == codec.WALK_OK
    for index in (0, 1, 2, 4, 5, 6):
        short = list(exact)
        short[index] -= 1
        assert codec.Columns(*short).fill(batch, 61, len(batch), 1, 0, 0, False, 0, 9) == codec.WALK_MALFORMED


def test_a_count_of_two_billion_costs_nothing() -> None:
    from odradek.records.patch import seal

    batch = bytearray(encode_batch([(0, None, b"", ())] * 3))
    batch[23:27] = (2**31 - 2).to_bytes(4, "big")
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    seal(batch)
    with pytest.raises(KafkaError) as raised:
        validate_append(memoryview(batch), 0, read_header(batch), RULES, now_ms=0)
    assert raised.value.code == ErrorCode.INVALID_RECORD
