"""Transactions in virtual time: what is asked of whom and in which order, and what becomes of each refusal and of lost answers."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client import IllegalTransactionState, KafkaError, TransactionAborted, TransactionError
from odradek.client.core.transactions import State, Transactions, Verdict, judge, judge_offsets, judge_partition
from odradek.client.types import ConsumerGroupMetadata
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.schema import Message
from odradek.records.batch import read_header
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, producer
from tests.client.transactions_support import NEVER, E, TransactionsWorld, play
from tests.loops import in_virtual_time

GROUP = ConsumerGroupMetadata("g", 3, "m", "i")


def test_version_1_tells_the_coordinator_of_partitions_and_keeps_its_epoch() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        for _ in range(2):
            async with sending.transaction():
                await sending.send(TOPIC, b"a")
                await sending.flush()
                await sending.send(TOPIC, b"b")
                await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
        turn = ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
        assert [kind for kind in world.story if kind != "Produce"] == ["InitProducerId", *[kind for kind in turn if kind != "Produce"] * 2]
        assert world.story.index("Produce") > world.story.index("AddPartitionsToTxn")
        assert world.headers() == [(5, 0), (5, 1), (5, 2), (5, 3)]
        versions = dict(world.brokers.versions)
        assert (versions[EndTxnRequest], versions[ProduceRequest], versions[TxnOffsetCommitRequest]) == (4, 11, 4)
        (commit, _) = world.of(TxnOffsetCommitRequest)
        assert isinstance(commit, TxnOffsetCommitRequest)
        assert (commit.group_id, commit.generation_id, commit.member_id, commit.group_instance_id) == tuple(GROUP)
        assert commit.topics[0].partitions[0].committed_offset == 5

    play(story, level=1)


def test_version_2_lets_the_leaders_tell_and_gets_an_epoch_with_each_end() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        for _ in range(2):
            async with sending.transaction():
                await sending.send(TOPIC, b"a")
                await sending.flush()
                await sending.send(TOPIC, b"b")
                await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
        assert set(world.story) == {"InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"}
        assert world.headers() == [(5, 0), (5, 1), (6, 0), (6, 1)]
        versions = dict(world.brokers.versions)
        assert (versions[EndTxnRequest], versions[ProduceRequest], versions[TxnOffsetCommitRequest]) == (5, 12, 5)
        assert [request.producer_epoch for request in world.of(EndTxnRequest)] == [5, 6]  # type: ignore[attr-defined]

    play(story)


@pytest.mark.parametrize("level", [1, 2])
def test_an_empty_transaction_is_told_to_nobody(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        async with sending.transaction():
            pass
        sending.begin_transaction()
        await sending.abort_transaction()
        assert world.story == ["InitProducerId"]

    play(story, level)


@pytest.mark.parametrize(
    "kind", [InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]
)
@pytest.mark.parametrize(
    "error", [E.COORDINATOR_LOAD_IN_PROGRESS, E.CONCURRENT_TRANSACTIONS, E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, NEVER]
)
def test_what_may_pass_is_asked_again(kind: type[Message], error: object) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        world.plan[kind] = [error, error]
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with sending.transaction():
            await sending.send(TOPIC, b"a")
            await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
        assert len(world.of(kind)) == 3
        # A transaction that is just about to end is waited for by the moment.
        assert (loop.time() - begun < 0.1) == (error is E.CONCURRENT_TRANSACTIONS)
        searched = len(world.of(FindCoordinatorRequest))
        assert searched == (4 if error in (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE) else searched)

    play(story, level=1, request_timeout_ms="1000", delivery_timeout_ms="60000")


FATAL = [
    (InitProducerIdRequest, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (InitProducerIdRequest, E.INVALID_TRANSACTION_TIMEOUT, E.INVALID_TRANSACTION_TIMEOUT),
    (AddPartitionsToTxnRequest, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    (AddPartitionsToTxnRequest, E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED),
    (AddOffsetsToTxnRequest, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    (TxnOffsetCommitRequest, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (EndTxnRequest, E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED),
    (EndTxnRequest, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    (ProduceRequest, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    (ProduceRequest, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
]
ABORTABLE = [
    (AddPartitionsToTxnRequest, E.TOPIC_AUTHORIZATION_FAILED),
    (AddPartitionsToTxnRequest, E.TRANSACTION_ABORTABLE),
    (AddOffsetsToTxnRequest, E.GROUP_AUTHORIZATION_FAILED),
    (TxnOffsetCommitRequest, E.ILLEGAL_GENERATION),
    (TxnOffsetCommitRequest, E.UNKNOWN_MEMBER_ID),
    (TxnOffsetCommitRequest, E.FENCED_INSTANCE_ID),
    (TxnOffsetCommitRequest, E.STALE_MEMBER_EPOCH),
    (EndTxnRequest, E.TRANSACTION_ABORTABLE),
    (ProduceRequest, E.TOPIC_AUTHORIZATION_FAILED),
    (ProduceRequest, E.INVALID_PRODUCER_EPOCH),
    (ProduceRequest, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
]


async def _one(sending: SimulatedProducer) -> None:
    async with sending.transaction():
        await sending.send(TOPIC, b"a")
        await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)


async def _complete(sending: SimulatedProducer) -> None:
    await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
    await sending.commit_transaction()


async def _breaks_off(sending: SimulatedProducer) -> None:
    async with sending.transaction():
        await (await sending.send(TOPIC, b"a"))
        raise ZeroDivisionError


@pytest.mark.parametrize(("kind", "error", "told"), FATAL)
def test_what_is_fatal_ends_the_producer(kind: type[Message], error: ErrorCode, told: ErrorCode) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        world.plan[kind] = [error]
        with pytest.raises(TransactionError) as caught:
            await _one(sending)
        assert (caught.value.code, caught.value.abortable) == (told, False)
        asked = len(world.brokers.asked)
        for call in (sending.abort_transaction, sending.commit_transaction, sending.init_transactions):
            with pytest.raises(TransactionError) as caught:
                await call()
            assert caught.value.code is told
        with pytest.raises(TransactionError):
            sending.begin_transaction()
        assert len(world.brokers.asked) == asked

    play(story, level=1)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize(("kind", "error"), ABORTABLE)
def test_what_is_abortable_is_aborted_and_the_next_transaction_goes_on(kind: type[Message], error: ErrorCode, level: int) -> None:
    if level == 2 and kind in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest):
        return  # version 2 asks for neither

    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        world.plan[kind] = [error]
        sending.begin_transaction()
        future = await sending.send(TOPIC, b"a")
        with pytest.raises(TransactionError) as caught:
            await _complete(sending)
        assert (caught.value.code, caught.value.abortable) == (error, True)
        for call in (sending.commit_transaction, lambda: sending.send(TOPIC, b"no")):
            with pytest.raises(TransactionError):
                await call()
        await sending.abort_transaction()
        assert future.done()
        ends = [request.committed for request in world.of(EndTxnRequest)]  # type: ignore[attr-defined]
        assert True not in ends or kind is EndTxnRequest
        await _one(sending)
        assert world.of(EndTxnRequest)[-1].committed  # type: ignore[attr-defined]

    play(story, level)


@pytest.mark.parametrize("level", [1, 2])
def test_a_batch_of_which_nobody_knows_whether_it_was_written_costs_an_epoch(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        await (await sending.send(TOPIC, b"a"))
        world.plan[ProduceRequest] = [NEVER] * 50
        lost = await sending.send(TOPIC, b"b")
        with pytest.raises(TransactionError, match="not delivered within") as caught:
            await sending.commit_transaction()
        assert caught.value.abortable
        with pytest.raises(KafkaError):
            lost.result()
        world.plan.clear()
        await sending.abort_transaction()
        async with sending.transaction():
            await sending.send(TOPIC, b"c")
        asked = world.of(InitProducerIdRequest)
        assert [(request.producer_id, request.producer_epoch) for request in asked] == (  # type: ignore[attr-defined]
            [(-1, -1), (7, 5)] if level == 1 else [(-1, -1)]
        )
        if level == 1:
            assert world.story.index("EndTxn") < len(world.story) - 1 - world.story[::-1].index("InitProducerId")
        assert world.headers()[-1] == (6, 0)

    play(story, level, request_timeout_ms="500", delivery_timeout_ms="2000")


def test_a_refusal_that_echoes_another_is_no_failure() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        await (await sending.send(TOPIC, b"0"))
        world.plan[ProduceRequest] = [E.NOT_LEADER_OR_FOLLOWER, E.OUT_OF_ORDER_SEQUENCE_NUMBER]
        futures = [await sending.send(TOPIC, b"x" * 100) for _ in range(2)]
        await sending.commit_transaction()
        assert all(future.exception() is None for future in futures)

    play(story, batch_size="100")


def test_what_was_not_sent_is_dropped_and_told_to_nobody() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        future = await sending.send(TOPIC, b"a")
        await sending.abort_transaction()
        with pytest.raises(TransactionAborted):
            future.result()
        assert isinstance(future.exception(), TransactionAborted)
        assert world.story == ["InitProducerId"], "version 1 has no end of what has not begun"
        await _one(sending)

    play(story, level=1, linger_ms="1000")


def test_an_abort_waits_until_it_is_known_what_the_coordinator_has_heard() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        world.plan[AddPartitionsToTxnRequest] = [NEVER]
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        await asyncio.sleep(0.1)
        await sending.abort_transaction()
        assert world.story == ["InitProducerId", "AddPartitionsToTxn", "AddPartitionsToTxn", "EndTxn"]

    play(story, level=1, request_timeout_ms="500")


def test_partitions_that_are_refused_for_now_are_not_insisted_on_after_an_abort() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        world.plan[AddPartitionsToTxnRequest] = [E.UNKNOWN_TOPIC_OR_PARTITION] * 1000
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        await asyncio.sleep(0.5)
        await sending.abort_transaction()
        assert "EndTxn" not in world.story
        world.plan.clear()
        await _one(sending)

    play(story, level=1)


def test_a_call_that_took_too_long_goes_on_and_is_called_again() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        world.plan[InitProducerIdRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS] * 10
        with pytest.raises(KafkaError, match=r"init_transactions did not end within 1000 ms \(max\.block\.ms\); it can be called again"):
            await sending.init_transactions()
        with pytest.raises(IllegalTransactionState, match="init_transactions did not end in time"):
            sending.begin_transaction()
        while world.plan[InitProducerIdRequest]:
            with pytest.raises(KafkaError, match="did not end within"):
                await sending.init_transactions()
        await sending.init_transactions()
        sending.begin_transaction()
        await sending.send(TOPIC, b"a")
        world.plan[EndTxnRequest] = [NEVER]
        with pytest.raises(KafkaError, match="commit_transaction did not end"):
            await sending.commit_transaction()
        with pytest.raises(IllegalTransactionState, match="abort_transaction: commit_transaction did not end in time"):
            await sending.abort_transaction()
        await sending.commit_transaction()
        assert len(world.of(EndTxnRequest)) == 2
        await _one(sending)

    play(story, max_block_ms="1000", request_timeout_ms="1500", delivery_timeout_ms="60000")


@pytest.mark.parametrize("level", [1, 2])
def test_an_abort_does_not_wait_for_offsets_that_nobody_takes(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        world.plan[TxnOffsetCommitRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        with pytest.raises(KafkaError, match="send_offsets_to_transaction did not end within 1000 ms"):
            await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
        await sending.abort_transaction()
        assert [request.committed for request in world.of(EndTxnRequest)] == [False]  # type: ignore[attr-defined]
        world.plan.clear()
        await _one(sending)

    play(story, level, max_block_ms="1000")


def test_what_waits_fails_with_the_transaction() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        world.plan[ProduceRequest] = [E.TOPIC_AUTHORIZATION_FAILED]
        sending.begin_transaction()
        first = await sending.send(TOPIC, b"a" * 100)
        later = [await sending.send(TOPIC, b"b" * 100) for _ in range(3)]
        await sending.flush()
        for future in (first, *later):
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                future.result()
        assert len(world.of(ProduceRequest)) == 1
        await sending.abort_transaction()

    play(story, batch_size="100")


def test_offsets_on_their_way_fail_with_the_error_of_a_refused_record() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        world.plan[ProduceRequest] = [E.TOPIC_AUTHORIZATION_FAILED]
        world.plan[TxnOffsetCommitRequest] = [E.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        sending.begin_transaction()
        refused = await sending.send(TOPIC, b"a")
        with pytest.raises(TransactionError, match="TOPIC_AUTHORIZATION_FAILED"):
            await sending.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 5}, GROUP)
        assert isinstance(refused.exception(), KafkaError)
        await sending.abort_transaction()

    play(story)


def test_a_block_that_fails_aborts_and_hands_out_what_failed() -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        with pytest.raises(ZeroDivisionError):
            await _breaks_off(sending)
        assert [request.committed for request in world.of(EndTxnRequest)] == [False]  # type: ignore[attr-defined]
        world.plan[EndTxnRequest] = [E.TRANSACTION_ABORTABLE]
        with pytest.raises(TransactionError, match="TRANSACTION_ABORTABLE"):
            await _one(sending)
        assert [request.committed for request in world.of(EndTxnRequest)] == [False, True, False]  # type: ignore[attr-defined]
        await _one(sending)

    play(story)


def test_a_producer_that_is_closed_aborts_first() -> None:
    worlds: list[TransactionsWorld] = []

    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        worlds.append(world)
        await sending.init_transactions()
        sending.begin_transaction()
        await (await sending.send(TOPIC, b"a"))

    play(story)
    assert [request.committed for request in worlds[0].of(EndTxnRequest)] == [False]  # type: ignore[attr-defined]


@in_virtual_time
async def test_an_idempotent_producer_has_no_part_in_it(loop: SimulatedLoop) -> None:
    world = TransactionsWorld(loop, 2)
    async with producer(loop) as sending:
        await sending.send(TOPIC, b"a")
        await sending.flush()
        with pytest.raises(IllegalTransactionState):
            await sending.init_transactions()
    (request,) = world.of(ProduceRequest)
    assert isinstance(request, ProduceRequest)
    assert request.transactional_id is None
    assert not read_header(bytes(request.topic_data[0].partition_data[0].records or b"")).is_transactional


def test_verdicts_by_request() -> None:
    assert judge(E.NONE) is judge_partition(E.NONE) is judge_offsets(E.NONE) is Verdict.DONE
    assert judge(E.UNKNOWN_TOPIC_OR_PARTITION) is Verdict.FATAL
    assert judge_offsets(E.REQUEST_TIMED_OUT) is Verdict.MOVED
    assert judge(E.UNKNOWN_PRODUCER_ID) is Verdict.ABORTABLE


def test_outside_of_a_transaction_there_is_nothing_to_abort() -> None:
    core = Transactions("id")
    core.initialize()
    assert not core.fail(E.TRANSACTION_ABORTABLE, "no", abortable=True).abortable
    assert core.state is State.FATAL
    assert core.fail(E.NONE, "later", abortable=True).message == "no", "the first one counts"
    assert not core.admits(TopicPartition(TOPIC, 0))
    assert core.wanted == []


@pytest.mark.parametrize("level", [1, 2])
def test_what_is_on_the_wire_at_an_abort_is_not_sent_again(level: int) -> None:
    async def story(world: TransactionsWorld, sending: SimulatedProducer) -> None:
        await sending.init_transactions()
        sending.begin_transaction()
        world.plan[ProduceRequest] = [NEVER]
        lost = await sending.send(TOPIC, b"a")
        await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        await sending.abort_transaction()
        assert asyncio.get_running_loop().time() - begun < 2
        assert len(world.of(ProduceRequest)) == 1
        with pytest.raises(KafkaError):
            lost.result()
        await _one(sending)
        assert world.headers()[-1] == (6, 0)

    play(story, level, request_timeout_ms="500", delivery_timeout_ms="60000")


def test_partitions_are_wanted_only_while_something_is_sent() -> None:
    core = Transactions("id")
    core.initialize()
    core.end()
    core.begin(implicit=False)
    assert not core.admits(TopicPartition(TOPIC, 0))
    assert core.wanted == [TopicPartition(TOPIC, 0)]
    assert core.fail(E.TRANSACTION_ABORTABLE, "no", abortable=True).abortable
    assert not core.admits(TopicPartition(TOPIC, 1))
    assert core.wanted == []
