"""Calls that their caller leaves go on, wherever that happens, and the next call neither trips over them nor waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import IllegalTransactionState, TransactionError
from odradek.client.calls.ongoing import Ongoing
from odradek.client.core.transactions import State
from odradek.client.failures import ClientClosed
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, producer
from tests.client.transactions_support import NEVER, TransactionsWorld, play
from tests.loops import in_virtual_time

ONE, TWO = ConsumerGroupMetadata("one"), ConsumerGroupMetadata("two")
PARTITION = TopicPartition(TOPIC, 0)
MOMENTS = [0.0, 0.001, 0.003, 0.01, 0.1]
"""Seconds after which a call is cancelled; an answer takes about a millisecond."""

Call = Callable[[SimulatedProducer], Coroutine[object, object, object]]
CALLS: dict[str, Call] = {
    "offsets": lambda sending: sending.send_offsets_to_transaction({PARTITION: 1}, ONE),
    "commit": lambda sending: sending.commit_transaction(),
    "abort": lambda sending: sending.abort_transaction(),
}


async def left(call: Coroutine[object, object, object], seconds: float) -> bool:
    """Begin the call, and cancel it after so long; False when it had ended."""
    task = asyncio.create_task(call)
    await asyncio.sleep(seconds)
    cancelled = task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return cancelled


def offsets_sent(world: TransactionsWorld) -> list[tuple[str, int]]:
    """(group, offset) of each commit that came."""
    found = []
    for request in world.of(TxnOffsetCommitRequest):
        assert isinstance(request, TxnOffsetCommitRequest)
        found.append((request.group_id, request.topics[0].partitions[0].committed_offset))
    return found


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("second", CALLS)
@pytest.mark.parametrize("first", CALLS)
def test_the_next_call_after_one_that_was_cancelled(first: str, second: str, waits: bool, level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        for moment in MOMENTS:
            sending.begin_transaction()
            await sending.send(TOPIC, b"a")
            await left(CALLS[first](sending), moment)
            if waits:
                await asyncio.sleep(10)
            try:
                await CALLS[second](sending)
            except IllegalTransactionState:
                assert first != "offsets"  # The other end of the transaction is under way, or is over.
            await asyncio.sleep(10)
            if sending.engine.transactions.core.state is State.IN_TRANSACTION:
                await sending.commit_transaction()
            assert sending.engine.transactions.core.state is State.READY
        # Of a transaction that is aborted before anything was sent version 1 tells nobody.
        assert len(world.of(EndTxnRequest)) == len(MOMENTS) or (first, level) == ("abort", 1)

    play(story, level)


@pytest.mark.parametrize("call", ["commit", "abort"])
def test_a_call_does_not_join_one_of_the_transaction_before(call: str) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        for _ in range(3):
            sending.begin_transaction()
            await sending.send(TOPIC, b"a")
            assert await left(CALLS[call](sending), 0.0001)
            await asyncio.sleep(10)
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        await CALLS[call](sending)
        assert sending.engine.transactions.core.state is State.READY
        assert len(world.of(EndTxnRequest)) == 4

    play(story)


@pytest.mark.parametrize("moment", MOMENTS)
def test_init_transactions_that_was_cancelled_is_called_again(moment: float) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        if await left(sending.init_transactions(), moment):
            await sending.init_transactions()
        assert len(world.of(InitProducerIdRequest)) == 1
        async with sending.transaction():
            await sending.send(TOPIC, b"a")

    play(story)


@pytest.mark.parametrize("level", [1, 2])
def test_offsets_of_two_calls_at_once_are_all_sent_in_the_order_of_the_calls(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        async with sending.transaction():
            calls = [sending.send_offsets_to_transaction({PARTITION: n}, group) for n, group in ((5, ONE), (7, TWO), (9, ONE))]
            assert await asyncio.gather(*calls) == [None] * 3
        assert offsets_sent(world) == [("one", 5), ("two", 7), ("one", 9)]

    play(story, level)


@pytest.mark.parametrize("moment", MOMENTS)
def test_newer_offsets_after_a_cancelled_call_are_sent_and_the_commit_waits_for_both(moment: float) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        async with sending.transaction():
            await left(sending.send_offsets_to_transaction({PARTITION: 5}, ONE), moment)
            await left(sending.send_offsets_to_transaction({PARTITION: 7}, ONE), moment)
        # A call that was cancelled before it began has never been.
        assert offsets_sent(world)[-1:] == [("one", 7)]
        assert world.story.index("EndTxn") > world.story.index("TxnOffsetCommit")

    play(story)


def test_a_commit_fails_when_offsets_that_nobody_waits_for_are_refused() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        world.plan[TxnOffsetCommitRequest] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        await left(sending.send_offsets_to_transaction({PARTITION: 5}, ONE), 0)
        with pytest.raises(TransactionError, match="GROUP_AUTHORIZATION_FAILED"):
            await sending.commit_transaction()
        await sending.abort_transaction()
        assert [request.committed for request in world.of(EndTxnRequest)] == [False]  # type: ignore[attr-defined]

    play(story)


def test_offsets_that_cannot_be_sent_are_refused_before_anything_is() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        bad = [{PARTITION: 1 << 64}, {PARTITION: "5"}, {PARTITION: -1}, {("t", "0"): 1}, {(b"t", 0): 1}, {"t": 1}, {("\ud800", 0): 1}]
        async with sending.transaction():
            for offsets in bad:
                with pytest.raises((TypeError, ValueError)):
                    await sending.send_offsets_to_transaction(offsets, ONE)  # type: ignore[arg-type]
            await sending.send_offsets_to_transaction({("t", 0): 3}, ONE)  # type: ignore[dict-item]
        assert offsets_sent(world) == [("one", 3)]

    play(story)


def test_a_block_whose_end_is_not_answered_ends_after_max_block_ms_and_the_next_one_waits_for_it() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        loop = asyncio.get_running_loop()
        world.plan[EndTxnRequest] = [NEVER]
        begun = loop.time()
        with pytest.raises(KafkaError, match=r"max\.block\.ms"):
            await _block(sending)
        assert loop.time() - begun < 1.5
        with pytest.raises(IllegalTransactionState, match="commit_transaction did not end in time"):
            sending.begin_transaction()
        await _block(sending)
        ends = world.of(EndTxnRequest)
        assert {request.committed for request in ends} == {True}  # type: ignore[attr-defined]
        assert len(world.of(ProduceRequest)) == 2

    play(story, max_block_ms="1000", request_timeout_ms="1500")


async def _block(sending: SimulatedProducer) -> None:
    async with sending.transaction():
        await sending.send(TOPIC, b"a")


def test_a_block_after_one_whose_commit_failed_unseen_aborts_that_first() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        world.plan[EndTxnRequest] = [NEVER, ErrorCode.TRANSACTION_ABORTABLE]
        with pytest.raises(KafkaError, match=r"max\.block\.ms"):
            await _block(sending)
        await asyncio.sleep(60)
        await _block(sending)
        assert [request.committed for request in world.of(EndTxnRequest)] == [True, True, False, True]  # type: ignore[attr-defined]

    play(story, max_block_ms="1000", request_timeout_ms="1500")


@pytest.mark.parametrize("level", [1, 2])
def test_an_abort_does_not_wait_for_a_batch_that_turns_out_too_large(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        loop = asyncio.get_running_loop()
        world.plan[ProduceRequest] = [ErrorCode.MESSAGE_TOO_LARGE]
        await sending.init_transactions()
        sending.begin_transaction()
        futures = await sending.send_many(TOPIC, [b"a", b"b"])
        for _ in range(1000):
            if world.of(ProduceRequest):
                break
            await asyncio.sleep(0.0001)
        assert not futures[0].done()
        begun = loop.time()
        await sending.abort_transaction()
        assert loop.time() - begun < 1
        assert all(future.exception() is not None for future in futures)
        await _block(sending)

    play(story, level)


@pytest.mark.parametrize("level", [1, 2])
def test_an_abort_waits_for_records_that_have_failed_on_the_wire(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        loop = asyncio.get_running_loop()
        await sending.init_transactions()
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        await sending.flush()
        world.plan[ProduceRequest] = [*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3, NEVER]
        begun = loop.time()
        future = await sending.send(TOPIC, b"b")
        with pytest.raises(KafkaError):
            await future
        assert loop.time() - begun == pytest.approx(5.0, abs=0.1)
        await sending.abort_transaction()
        # The request was sent about 0.7 s after the record, and loses its connection after 4.9 s.
        assert loop.time() - begun > 5.2
        await _block(sending)
        assert world.story[-2:] == ["Produce", "EndTxn"]

    play(story, level, delivery_timeout_ms="5000", request_timeout_ms="4900")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("transactional", [False, True])
@in_virtual_time
async def test_close_that_was_cancelled_goes_on_and_is_waited_for_the_next_time(
    loop: SimulatedLoop, moment: float, transactional: bool
) -> None:
    world = TransactionsWorld(loop, 2)
    more = {"transactional_id": "id"} if transactional else {}
    sending = await producer(loop, linger_ms="0", **more).start()
    if transactional:
        await sending.init_transactions()
        sending.begin_transaction()
    world.plan[ProduceRequest] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    future = await sending.send(TOPIC, b"a")
    await left(sending.close(), moment)
    await sending.close()
    assert future.done()
    assert transactional or future.exception() is None
    assert sending.engine.closed
    assert sending.engine.cluster.closed
    assert [request.committed for request in world.of(EndTxnRequest)] == [False] * transactional  # type: ignore[attr-defined]
    await asyncio.sleep(1)
    assert not world.brokers.open


@in_virtual_time
async def test_close_called_again_with_less_time_hastens_the_first(loop: SimulatedLoop) -> None:
    world = TransactionsWorld(loop, 2)
    sending = await producer(loop, linger_ms="0").start()
    world.plan[ProduceRequest] = [NEVER]
    future = await sending.send(TOPIC, b"a")
    await left(sending.close(), 0.5)
    await asyncio.gather(sending.close(timeout_s=60), sending.close(timeout_s=2))
    assert loop.time() < 3
    with pytest.raises(KafkaError):
        await future


def test_who_waits_for_a_call_that_close_ends_is_told_so() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        world.plan[EndTxnRequest] = [NEVER]
        call = asyncio.create_task(sending.commit_transaction())
        await asyncio.sleep(1)
        await sending.close(timeout_s=1)
        with pytest.raises(ClientClosed):
            await call

    play(story)


@in_virtual_time
async def test_an_outcome_goes_to_the_first_caller_that_stays(loop: SimulatedLoop) -> None:
    calls = 0

    async def fails() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(1)
        raise ZeroDivisionError

    ongoing = Ongoing()
    await left(ongoing.run("it", fails), 0.5)
    assert ongoing.name == "it"
    await asyncio.sleep(1)
    assert ongoing.name is None
    for expected in (1, 2):
        with pytest.raises(ZeroDivisionError):
            await ongoing.run("it", fails)
        assert calls == expected
