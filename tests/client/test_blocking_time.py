"""max.block.ms counts once for a call: over its metadata and every time that it is woken and finds no room."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import Producer
from odradek.client.core.metadata import PartitionInfo, TopicInfo
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, ScriptedBrokers, producer, run

FULL = {"buffer_memory": "500", "batch_size": "500", "max_block_ms": "1000"}
RECORD = b"x" * 400


async def filled(loop: SimulatedLoop) -> SimulatedProducer:
    """A producer whose memory is taken by records that no broker answers."""

    def answer(_: int, request: Message) -> Message | None:
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return None if isinstance(request, ProduceRequest) else brokers.metadata(leader=1)

    brokers = ScriptedBrokers(loop, 1, answer)
    client = await producer(loop, **FULL).start()
    await client.send(TOPIC, RECORD, partition=0)
    return client


async def refused_after(loop: SimulatedLoop, client: SimulatedProducer, way: str, topic: str = TOPIC) -> float:
    begin = loop.time()
    call = client.send(topic, RECORD, partition=0) if way == "send" else client.send_many(topic, [RECORD], partition=0)
    with pytest.raises(KafkaError, match=r"max\.block\.ms") as caught:
        await call
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    return loop.time() - begin


@pytest.mark.parametrize("way", ["send", "send_many"])
def test_room_that_another_took_first_does_not_lengthen_the_wait(way: str) -> None:
    async def story(loop: SimulatedLoop) -> float:
        client = await filled(loop)

        async def give_and_take() -> None:
            for _ in range(20):
                await asyncio.sleep(0.3)
                client.engine._released()

        giving = asyncio.create_task(give_and_take())
        took = await refused_after(loop, client, way)
        giving.cancel()
        await client.close(timeout_s=0)
        return took

    assert run(story) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("way", ["send", "send_many"])
def test_the_wait_for_metadata_counts(way: str) -> None:
    async def story(loop: SimulatedLoop) -> float:
        client = await filled(loop)
        info = client.engine.cluster.known_topic(TOPIC)
        assert info is not None

        async def slowly(*_: object) -> TopicInfo:
            await asyncio.sleep(0.6)
            return info

        client.engine.topic = slowly  # type: ignore[method-assign]
        took = await refused_after(loop, client, way, "unknown")
        await client.close(timeout_s=0)
        return took

    assert run(story) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("way", ["send", "send_many"])
def test_a_thread_that_is_woken_again_and_again_gives_up_in_time(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Producer({"bootstrap.servers": "127.0.0.1:1"}, **FULL)
    engine = client._engine
    info = TopicInfo(TOPIC, UUID(int=1), False, ErrorCode.NONE, {0: PartitionInfo(0, 1, 0, (1,), (1,), ())})
    monkeypatch.setattr(engine.cluster, "known_topic", lambda *_: info)
    client.send(TOPIC, RECORD, partition=0)
    now, wakes = itertools.count(engine.cluster.now_ms(), 50), itertools.count()
    monkeypatch.setattr(engine.cluster, "now_ms", lambda: next(now))

    def woken(seconds: float) -> bool:
        assert next(wakes) < 100, "it waits for ever"
        return seconds > 0

    monkeypatch.setattr(engine.room, "wait", woken)
    call = partial(client.send, TOPIC, RECORD, partition=0) if way == "send" else partial(client.send_many, TOPIC, [RECORD], partition=0)
    with pytest.raises(KafkaError, match=r"max\.block\.ms"):
        call()
    client.close(timeout_s=0)
