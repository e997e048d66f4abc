"""Clients against brokers that are down, refuse, or no longer lead: whom they dial, how often they ask, and when they give up."""

from __future__ import annotations

import asyncio
import signal
import threading
from itertools import pairwise

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import TopicPartition
from odradek.client.calls import loop_thread
from odradek.client.network.cluster import BOOTSTRAP, Cluster, NoBrokersAvailable
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, ScriptedBrokers, cluster, consumer, produced, produced_to, producer, run
from tests.loops import in_virtual_time


def test_a_node_that_is_down_is_dialled_after_longer_and_longer_pauses() -> None:
    async def story(loop: SimulatedLoop) -> list[float]:
        lonely = cluster(loop, reconnect_backoff_ms="100", reconnect_backoff_max_ms="1000")
        took: list[float] = []
        for _ in range(6):
            begin = loop.time()
            with pytest.raises(NoBrokersAvailable):
                await lonely.node(BOOTSTRAP)
            took.append(loop.time() - begin)
        await lonely.close()
        return took

    first, *pauses = run(story)
    assert first < 0.01
    for pause, wanted in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.0), strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted + 0.01


def test_a_node_that_is_back_is_dialled_at_once_the_next_time() -> None:
    async def story(loop: SimulatedLoop) -> float:
        client = cluster(loop, reconnect_backoff_ms="500")
        with pytest.raises(NoBrokersAvailable):
            await client.node(BOOTSTRAP)
        brokers = ScriptedBrokers(loop, 1, lambda *_: brokers.metadata(leader=1))
        (await client.node(BOOTSTRAP)).connection.close()
        begin = loop.time()
        await client.node(BOOTSTRAP)
        await client.close()
        return loop.time() - begin

    assert run(story) < 0.1


@in_virtual_time
async def test_two_callers_share_one_connection_and_none_is_left_open(loop: SimulatedLoop) -> None:
    brokers = ScriptedBrokers(loop, 2, lambda *_: brokers.metadata(leader=1))
    client = cluster(loop)
    await client.refresh([TOPIC])
    before = brokers.dialled
    one, other = await asyncio.gather(client.node(2), client.node(2))
    assert one is other
    assert brokers.dialled == before + 1
    await client.close()
    await asyncio.sleep(1)
    assert not brokers.open


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION])
def test_an_error_that_cannot_heal_is_told_at_once(code: ErrorCode) -> None:
    attempts, error, seconds = run(lambda loop: retried(loop, KafkaError(code)))
    assert (len(attempts), error.code, seconds) == (1, code, 0)


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.NOT_CONTROLLER), NoBrokersAvailable(["broker1 is down"])])
def test_an_error_that_may_heal_is_told_when_the_time_is_over(failure: KafkaError) -> None:
    attempts, error, seconds = run(lambda loop: retried(loop, failure))
    assert error is failure
    assert 8 <= seconds <= 10
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert min(pauses) >= 0.08
    assert max(pauses) <= 1


async def retried(loop: SimulatedLoop, failure: KafkaError) -> tuple[list[float], KafkaError, float]:
    """When it was tried, what came of it, after how many seconds."""
    client: Cluster = cluster(loop)
    attempts: list[float] = []

    async def attempt() -> None:
        attempts.append(loop.time())
        raise failure

    with pytest.raises(KafkaError) as caught:
        await client.retrying("something", attempt, timeout_ms=10_000)
    await client.close()
    return attempts, caught.value, loop.time()


def test_a_producer_that_may_not_have_an_id_says_so_at_once() -> None:
    async def story(loop: SimulatedLoop) -> ErrorCode:
        def answer(_: int, request: Message) -> Message:
            if isinstance(request, InitProducerIdRequest):
                return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return brokers.metadata(leader=1)

        brokers = ScriptedBrokers(loop, 1, answer)
        async with producer(loop) as client:
            with pytest.raises(KafkaError) as caught:
                await client.send_and_wait(TOPIC, "v")
        assert loop.time() < 1
        return caught.value.code

    assert run(story) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_records_for_a_topic_that_may_no_longer_be_written_fail_when_that_is_heard() -> None:
    async def story(loop: SimulatedLoop) -> ErrorCode:
        def answer(_: int, request: Message) -> Message:
            if isinstance(request, InitProducerIdRequest):
                return InitProducerIdResponse(producer_id=4)
            # First without a leader, so that the record waits.
            refused = brokers.count(MetadataRequest) > 1
            return brokers.metadata(leader=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else ErrorCode.NONE)

        brokers = ScriptedBrokers(loop, 1, answer)
        async with producer(loop) as client:
            with pytest.raises(KafkaError) as caught:
                await client.send_and_wait(TOPIC, "v")
        assert loop.time() < 5
        return caught.value.code

    assert run(story) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_producer_that_is_refused_asks_who_leads_now() -> None:
    async def story(loop: SimulatedLoop) -> tuple[int, int, int]:
        def answer(node: int, request: Message) -> Message:
            if isinstance(request, InitProducerIdRequest):
                return InitProducerIdResponse(producer_id=4)
            if isinstance(request, ProduceRequest):
                return produced(ErrorCode.NOT_LEADER_OR_FOLLOWER if node == 1 else ErrorCode.NONE)
            moved = brokers.count(ProduceRequest) > 0
            return brokers.metadata(leader=2 if moved else 1, leader_epoch=int(moved))

        brokers = ScriptedBrokers(loop, 2, answer)
        async with producer(loop) as client:
            metadata = await client.send_and_wait(TOPIC, "v")
        assert loop.time() < 5
        return metadata.offset, brokers.count(ProduceRequest, 1), brokers.count(ProduceRequest, 2)

    assert run(story) == (5, 1, 1)


def test_a_consumer_whose_leader_is_gone_asks_who_leads_now() -> None:
    async def story(loop: SimulatedLoop) -> int:
        def answer(_: int, request: Message) -> Message:
            if isinstance(request, FetchRequest):
                return FetchResponse()
            # Nobody listens as the third.
            moved = brokers.count(MetadataRequest) > 1
            metadata = brokers.metadata(leader=2 if moved else 3, leader_epoch=int(moved))
            metadata.brokers.append(MetadataResponse.MetadataResponseBroker(node_id=3, host="broker3", port=9092))
            return metadata

        brokers = ScriptedBrokers(loop, 2, answer)
        async with consumer(loop) as client:
            client.assign([TopicPartition(TOPIC, 0)])
            client.seek(TopicPartition(TOPIC, 0), 0)
            assert await client.poll(5000) == []
        return brokers.count(FetchRequest, 2)

    assert run(story) > 0


@in_virtual_time
async def test_a_consumer_waits_for_brokers_that_were_there_however_long_they_are_away(loop: SimulatedLoop) -> None:
    def begin() -> ScriptedBrokers:
        return ScriptedBrokers(
            loop, 1, lambda _, request: FetchResponse() if isinstance(request, FetchRequest) else begun[-1].metadata(leader=1)
        )

    begun: list[ScriptedBrokers] = []
    begun.append(begin())
    async with consumer(loop) as client:
        client.assign([TopicPartition(TOPIC, 0)])
        client.seek(TopicPartition(TOPIC, 0), 0)
        assert await client.poll(1000) == []
        loop.network.crash_host("broker1")
        for _ in range(120):
            assert await client.poll(1000) == []
        begun.append(begin())
        assert await client.poll(5000) == []
    assert begun[-1].count(FetchRequest) > 0


@in_virtual_time
async def test_a_consumer_that_never_reached_anybody_says_so(loop: SimulatedLoop) -> None:
    async with consumer(loop) as client:
        client.assign([TopicPartition(TOPIC, 0)])
        client.seek(TopicPartition(TOPIC, 0), 0)
        with pytest.raises(NoBrokersAvailable):
            await client.poll(10_000)


@in_virtual_time
async def test_new_partitions_are_found_by_who_only_asks_for_partitions(loop: SimulatedLoop) -> None:
    """As a streaming query does that plans and never polls."""
    counts = [1]
    brokers = ScriptedBrokers(loop, 1, lambda *_: brokers.metadata(leader=1, partitions=counts[-1]))
    async with consumer(loop, metadata_max_age_ms="5000") as client:
        assert await client.partitions_for(TOPIC) == [0]
        counts.append(3)
        await asyncio.sleep(4)
        assert await client.partitions_for(TOPIC) == [0], "what was heard four seconds ago is believed"
        await asyncio.sleep(1)
        assert await client.partitions_for(TOPIC) == [0, 1, 2]
        assert brokers.count(MetadataRequest) == 2


def test_a_loop_thread_that_has_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "_shared", None)
    before = set(threading.enumerate())
    first = loop_thread.shared_loop()
    assert loop_thread.shared_loop() is first
    [thread] = set(threading.enumerate()) - before
    first.call_soon(first.loop.stop)
    thread.join(10)
    assert not first.usable
    second = loop_thread.shared_loop()
    try:
        assert second is not first
        assert second.run(lambda: asyncio.sleep(0, "runs")) == "runs"
    finally:
        second.call_soon(second.loop.stop)


def test_nothing_lingers_while_somebody_waits_for_room() -> None:
    async def story(loop: SimulatedLoop) -> tuple[float, int]:
        brokers = ScriptedBrokers(loop, 1, lambda _, request: _leads_and_writes(brokers, request))
        async with producer(loop, linger_ms="60000", buffer_memory="1000", enable_idempotence="false") as sending:
            await sending.send(TOPIC, b"x" * 500)
            begin = loop.time()
            await sending.send(TOPIC, b"x" * 500)
            took = loop.time() - begin
        return took, brokers.count(ProduceRequest)

    took, requests = run(story)
    assert took < 1
    assert requests == 2


def test_room_that_comes_is_for_all_who_wait_for_it() -> None:
    async def story(loop: SimulatedLoop) -> float:
        brokers = ScriptedBrokers(loop, 1, lambda _, request: _leads_and_writes(brokers, request))
        async with producer(loop, linger_ms="0", buffer_memory="1000", enable_idempotence="false") as sending:
            await sending.send(TOPIC, b"x" * 800)
            begin = loop.time()
            await asyncio.gather(*[sending.send(TOPIC, b"x" * 200) for _ in range(3)])
            return loop.time() - begin

    assert run(story) < 1


def test_two_flushes_at_once_both_end_lingering() -> None:
    def answer(brokers: ScriptedBrokers, request: Message) -> Message:
        if isinstance(request, ProduceRequest):
            return produced_to(request)
        metadata = brokers.metadata(leader=1, partitions=2)
        metadata.topics[0].partitions[1].leader_id = 2
        return metadata

    async def story(loop: SimulatedLoop) -> float:
        brokers = ScriptedBrokers(loop, 2, lambda _, request: answer(brokers, request))
        async with producer(loop, linger_ms="60000", enable_idempotence="false") as sending:
            await sending.send(TOPIC, b"0", partition=0)
            await sending.flush()
            begin = loop.time()
            await sending.send(TOPIC, b"1", partition=0)
            first = asyncio.create_task(sending.flush())
            await asyncio.sleep(0)
            # To a broker that has to be dialled, by which time the first flush is over.
            await sending.send(TOPIC, b"2", partition=1)
            await asyncio.gather(first, sending.flush())
            return loop.time() - begin

    assert run(story) < 1


@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_a_close_that_waits_no_longer_fails_what_is_on_the_wire_and_what_waits_behind_it(idempotence: str) -> None:
    async def story(loop: SimulatedLoop) -> list[ErrorCode]:
        asked = asyncio.Event()

        def answer(_: int, request: Message) -> Message | None:
            if isinstance(request, InitProducerIdRequest):
                return InitProducerIdResponse(producer_id=4)
            if isinstance(request, ProduceRequest):
                asked.set()
                return None
            return brokers.metadata(leader=1)

        brokers = ScriptedBrokers(loop, 1, answer)
        settings = {"enable_idempotence": idempotence, "max_in_flight_requests_per_connection": "1", "linger_ms": "0"}
        async with producer(loop, **settings) as client:
            sent = [await client.send(TOPIC, b"on the wire")]
            await asked.wait()
            sent.append(await client.send(TOPIC, b"behind it"))
            await client.close(3)
            assert loop.time() < 4
            codes: list[ErrorCode] = []
            for future in sent:
                with pytest.raises(KafkaError) as caught:
                    await asyncio.wait_for(future, 60)
                codes.append(caught.value.code)
            return codes

    assert run(story) == [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize("answered", [False, True], ids=["no answer", "no versions"])
@in_virtual_time
async def test_a_connection_over_which_no_versions_can_be_agreed_is_closed(loop: SimulatedLoop, answered: bool) -> None:
    brokers = ScriptedBrokers(loop, 1, lambda *_: None)
    refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED) if answered else None
    brokers.respond = lambda node, request: refusal  # type: ignore[method-assign]
    client = cluster(loop, request_timeout_ms="1000")
    with pytest.raises(KafkaError):
        await client.node(BOOTSTRAP)
    await asyncio.sleep(1)
    assert brokers.dialled
    assert not brokers.open
    await client.close()


def _leads_and_writes(brokers: ScriptedBrokers, request: Message) -> Message:
    return produced() if isinstance(request, ProduceRequest) else brokers.metadata(leader=1)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("received_by", ["the caller", "another thread"])
def test_ctrl_c_cancels_what_a_blocking_call_waits_for(received_by: str) -> None:
    """A signal that another thread receives does not wake the caller from its wait, nor does one that comes just before the wait."""
    thread = loop_thread.LoopThread()
    ended = threading.Event()

    async def wait() -> None:
        receiver = threading.main_thread() if received_by == "the caller" else threading.current_thread()
        assert receiver.ident is not None
        thread.loop.call_soon(signal.pthread_kill, receiver.ident, signal.SIGINT)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    # In processes that test in parallel it is ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run(wait)
        assert ended.wait(10)
    finally:
        signal.signal(signal.SIGINT, handler)
        thread.call_soon(thread.loop.stop)
