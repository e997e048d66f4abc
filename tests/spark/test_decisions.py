"""Decisions of exactly-once sinks: what is written of them is what is read, and nobody else's transactions are touched."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.admin.aio import AsyncAdmin
from odradek.client.core.transactions import PreparedTransaction
from odradek.spark.decisions import OUTSIDE_OF_QUERIES, BadDecision, Decision, Sink, SinkConflict, TaskId, open_ones
from odradek.spark.exactly_once import HalfWritten, _complete

SINK = Sink("orders")


def prepared(
    sink: Sink, *, run: str = "1a2b3c4d", batch: int = 7, partition: int = 0, attempt: int = 0, epoch: int = 3
) -> PreparedTransaction:
    return PreparedTransaction(sink.transactional_id(TaskId(run, batch, partition, attempt)), 1000 + partition, epoch, 2)


@given(
    st.lists(
        st.builds(
            PreparedTransaction,
            st.builds(
                lambda run, batch, partition, attempt: SINK.transactional_id(TaskId(run, batch, partition, attempt)),
                st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
                st.integers(0, 2**40),
                st.integers(0, 100_000),
                st.integers(0, 9),
            ),
            st.integers(0, 2**62),
            st.integers(0, 32767),
            st.integers(1, 2),
        ),
        max_size=400,
    ),
    st.integers(0, 2**62),
)
def test_a_decision_is_read_as_it_was_written(transactions: list[PreparedTransaction], batch: int) -> None:
    chunks = SINK.encode(transactions)
    assert SINK.chunk_count(chunks[0]) == len(chunks)
    assert all(len(chunk.encode()) <= 4096 for chunk in chunks)  # offset.metadata.max.bytes
    assert SINK.decode(batch, chunks) == Decision(batch, tuple(transactions))


class _Answering:
    """An admin client that answers the end of each transaction with what the test says."""

    def __init__(self, *outcomes: KafkaError | None) -> None:
        self.outcomes = outcomes

    async def try_end_transactions(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> dict[Any, Any]:
        assert commit
        return dict(zip(transactions, self.outcomes, strict=True))


@pytest.mark.parametrize(
    ("codes", "raised"),
    [
        ((ErrorCode.NONE, ErrorCode.NONE), None),
        ((ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE), KafkaError),
        ((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE), KafkaError),
        ((ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE), HalfWritten),
        ((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_TXN_STATE), HalfWritten),
    ],
)
def test_a_batch_is_done_when_each_of_its_transactions_is(codes: tuple[ErrorCode, ...], raised: type[Exception] | None) -> None:
    """An error that passes fails the batch as well: Spark tries it again."""
    admin = _Answering(*(KafkaError(code) if code else None for code in codes))
    decision = Decision(7, (PreparedTransaction("a", 1, 0, 2), PreparedTransaction("b", 2, 0, 2)))
    with nullcontext() if raised is None else pytest.raises(raised):
        asyncio.run(_complete(cast(AsyncAdmin, admin), Sink("app"), decision))


@pytest.mark.parametrize("query", ["", "0b1c2d3e-0000-4000-8000-00000000000a", OUTSIDE_OF_QUERIES])
def test_a_decision_says_whose_it_is(query: str) -> None:
    sink = Sink("orders", query)
    chunks = sink.encode(prepared(sink, partition=number) for number in range(300))
    assert len(chunks) > 1
    assert max(map(len, chunks)) <= 4000
    assert SINK.decode(3, chunks).query == query


def test_a_decision_of_an_older_release_is_read() -> None:
    assert SINK.decode(3, ['{"of":1,"t":[["run/0/0.0",7,1,2]]}']).query == ""


@pytest.mark.parametrize(
    ("mine", "batch", "last", "outcome"),
    [
        ("a", 0, None, False),
        ("a", 6, ("a", 5), False),
        ("a", 9, ("a", 5), False),
        ("a", 5, ("a", 5), True),
        ("a", 4, ("a", 5), "the last batch is 5, and batch numbers must increase"),
        ("a", 4, ("b", 5), "this txnAppId belongs to query b, whose last batch is 5, and this is query a"),
        ("a", 5, ("b", 5), "belongs to query b"),
        ("a", 6, ("b", 5), "belongs to query b"),
        ("a", 6, (OUTSIDE_OF_QUERIES, 5), "belongs to a batch outside of queries, .* and this is query a"),
        (OUTSIDE_OF_QUERIES, 5, (OUTSIDE_OF_QUERIES, 5), True),
        (OUTSIDE_OF_QUERIES, 4, (OUTSIDE_OF_QUERIES, 5), "numbers must increase"),
        (OUTSIDE_OF_QUERIES, 6, ("a", 5), "this is a batch outside of queries"),
        ("a", 5, ("", 5), True),
        ("a", 4, ("", 5), "numbers must increase"),
        ("a", 6, ("", 5), False),
        ("", 5, ("a", 5), True),
        ("", 4, ("a", 5), "numbers must increase"),
    ],
)
def test_a_batch_follows_repeats_or_is_a_conflict(mine: str, batch: int, last: tuple[str, int] | None, outcome: bool | str) -> None:
    sink, before = Sink("orders", mine), None if last is None else Decision(last[1], (), last[0])
    if isinstance(outcome, bool):
        assert sink.repeats(batch, before) is outcome
        return
    with pytest.raises(SinkConflict, match=f"batch {batch} of orders is not written: .*{outcome}.*delete the group odradek-spark/orders"):
        sink.repeats(batch, before)


def test_many_tasks_need_several_groups() -> None:
    chunks = SINK.encode(prepared(SINK, partition=number) for number in range(1000))
    assert len(chunks) > 5
    assert min(len(chunk) for chunk in chunks[:-1]) > 3800
    assert max(map(len, chunks)) <= 4000
    assert [SINK.group(number) for number in (0, 1, 12)] == ["odradek-spark/orders", "odradek-spark/orders/1", "odradek-spark/orders/12"]


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"of":0,"t":[]}', '{"of":"many","t":[]}', '{"of":1,"t":[["a",1]]}', '{"of":1,"t":7}']
)
def test_what_somebody_else_has_committed_is_no_decision(text: str) -> None:
    with pytest.raises(BadDecision, match="group odradek-spark/orders has an offset that was not committed by an exactly-once sink"):
        SINK.decode(1, [text])


def test_batches_that_follow_one_another_have_transactional_ids_of_their_own() -> None:
    ids = [prepared(SINK, batch=number).transactional_id for number in range(8)]
    assert len(set(ids)) == 4
    assert all(before != after for before, after in itertools.pairwise(ids))
    others = [prepared(SINK), prepared(SINK, run="5e6f7a8b"), prepared(SINK, partition=1), prepared(SINK, attempt=1)]
    assert len({each.transactional_id for each in others}) == 4


def test_only_attempts_of_the_sink_that_nobody_waits_for_are_aborted() -> None:
    mine, abandoned, earlier = prepared(SINK), prepared(SINK, attempt=1), prepared(SINK, batch=6, run="ffffffff")
    of_others = [prepared(Sink(name)).transactional_id for name in ("order", "orders2", "orders-eu", "eu-orders")]
    ongoing = [mine.transactional_id, abandoned.transactional_id, earlier.transactional_id, SINK.owner, "orders", *of_others]
    assert open_ones(SINK, ongoing, [mine], Decision(6, (earlier, prepared(SINK, batch=6)))) == ([earlier], [abandoned.transactional_id])
    assert open_ones(SINK, ongoing, [mine], None) == ([], [abandoned.transactional_id, earlier.transactional_id])
