"""What a consumer sees of transactions, whatever pieces the log comes in."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import encode_batch
from odradek.records.visibility import AbortedTransactions, visible_batches


def data(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    return encode_batch(
        [(0, None, b"v", ())], base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    record = (0, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0" * 6, ())
    return encode_batch([record], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True)


def seen(pieces: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    return [header.base_offset for _, _, header in visible_batches(pieces, aborted)]


def test_without_a_list_everything_but_markers_is_seen() -> None:
    log = [data(0, 1), marker(1, 1, commit=False), data(2, 1, transactional=False)]
    assert seen(log, []) == [0, 2]


def test_a_transaction_that_was_aborted_in_one_piece_is_over_in_the_next() -> None:
    assert seen([data(0, 1) + marker(1, 1, commit=False), data(2, 1) + marker(3, 1, commit=True)], [(1, 0)]) == [2]


def test_an_answer_may_be_read_in_several_calls() -> None:
    # The second one finds neither the beginning of the aborted transactions nor the marker of the first of them.
    aborted = AbortedTransactions([(2, 1), (1, 0)])
    calls = [[data(0, 1), data(1, 2), marker(2, 1, commit=False)], [data(3, 1), data(4, 2), marker(5, 2, commit=False), data(6, 2)]]
    assert [[header.base_offset for _, _, header in visible_batches(call, aborted)] for call in calls] == [[], [3, 6]]


def test_what_began_before_the_first_piece_is_left_out() -> None:
    assert seen([data(7, 1) + data(8, 2), marker(9, 1, commit=False) + data(10, 1)], [(1, 3)]) == [8, 10]


def test_a_commit_marker_ends_nothing() -> None:
    # Of the transaction before the aborted one, within one batch of another producer.
    other = encode_batch([(0, None, b"v", ())] * 3, base_offset=4)
    assert seen([data(0, 1), other, marker(7, 1, commit=True), data(8, 1), marker(9, 1, commit=False)], [(1, 5)]) == [0, 4]


def test_plain_records_of_a_producer_that_aborts_are_seen() -> None:
    assert seen([data(0, 1), data(1, 1, transactional=False), marker(2, 1, commit=False)], [(1, 0)]) == [1]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_make_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    batches: list[bytes] = []
    began: dict[int, list[int]] = {}
    aborted: list[tuple[int, int]] = []
    wanted: set[int] = set()
    for offset in range(120):
        producer_id = rng.randrange(4)
        if rng.random() < 0.3 and producer_id in began:
            commit = rng.random() < 0.5
            offsets = began.pop(producer_id)
            if commit:
                wanted.update(offsets)
            else:
                aborted.append((producer_id, offsets[0]))
            batches.append(marker(offset, producer_id, commit=commit))
        else:
            began.setdefault(producer_id, []).append(offset)
            batches.append(data(offset, producer_id))
    # What is still open lies above the last stable offset, where no answer reaches.
    end = min((offsets[0] for offsets in began.values()), default=len(batches))
    expected = sorted(offset for offset in wanted if offset < end)
    listed = [entry for entry in aborted if entry[1] < end]
    cuts = sorted(rng.sample(range(end), min(3, end)))
    pieces = [b"".join(batches[start:stop]) for start, stop in zip([0, *cuts], [*cuts, end], strict=True)]
    rng.shuffle(listed)
    assert seen(pieces, listed) == expected


def test_a_corrupt_batch_is_named() -> None:
    broken = bytearray(data(3, 1))
    broken[-1] ^= 1
    with pytest.raises(KafkaError, match="offset 3 of t-0") as caught:
        list(visible_batches([bytes(broken)], name="t-0"))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert len(list(visible_batches([bytes(broken)], check_crcs=False))) == 1
