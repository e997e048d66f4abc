"""Idle clients leave the loop alone: counted on a virtual clock, in iterations of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.client import TopicPartition
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import TOPIC, ScriptedBrokers, consumer, produced_to, producer, run
from tests.loops import in_virtual_time

IDLE_S = 60
FEW = 300
"""Iterations of the loop in IDLE_S: five a second, for requests of metadata and their answers."""


async def sends_nothing(loop: SimulatedLoop, **settings: str) -> Any:
    return await producer(loop, **settings).start()


async def has_sent(loop: SimulatedLoop, **settings: str) -> Any:
    client = await producer(loop, **settings).start()
    await (await client.send(TOPIC, b"a"))
    return client


async def reads_nothing(loop: SimulatedLoop, **settings: str) -> Any:
    return await consumer(loop, **settings).start()


async def has_paused(loop: SimulatedLoop, **settings: str) -> Any:
    client = await consumer(loop, auto_offset_reset="none", **settings).start()
    partition = TopicPartition(TOPIC, 0)
    client.assign([partition])
    client.pause(partition)
    client.seek(partition, 0)
    await client.poll(10)
    return client


@pytest.mark.parametrize("begin", [sends_nothing, has_sent, reads_nothing, has_paused])
@pytest.mark.parametrize("age", ["300000", "5000"])
def test_an_idle_client_lets_the_loop_sleep(begin: Callable[..., Awaitable[Any]], age: str) -> None:
    async def story(loop: SimulatedLoop) -> tuple[int, int]:
        brokers = ScriptedBrokers(loop, 1, lambda _, request: answer(brokers, request))
        client = await begin(loop, metadata_max_age_ms=age, **({"metadata_max_idle_ms": "5000"} if "sen" in begin.__name__ else {}))
        counts = []
        # Twice: topics that are no longer used are forgotten on the way.
        for _ in range(2):
            before = loop.turns
            await asyncio.sleep(IDLE_S)
            counts.append(loop.turns - before)
        await client.close()
        return counts[0], counts[1]

    first, second = run(story)
    assert first < FEW
    assert second < FEW


@in_virtual_time
async def test_a_record_that_waits_longer_than_unused_topics_are_kept_is_sent(loop: SimulatedLoop) -> None:
    leader = -1
    brokers = ScriptedBrokers(loop, 1, lambda _, request: answer(brokers, request, leader))
    client = await producer(loop, metadata_max_idle_ms="5000").start()
    future = await client.send(TOPIC, b"a", partition=0)
    await asyncio.sleep(20)
    leader = 1
    await asyncio.wait_for(future, 5)
    await client.close()


def answer(brokers: ScriptedBrokers, request: object, leader: int = 1) -> Any:
    if isinstance(request, MetadataRequest):
        return brokers.metadata(leader=leader)
    if isinstance(request, InitProducerIdRequest):
        return InitProducerIdResponse(producer_id=1, producer_epoch=0)
    return produced_to(request) if isinstance(request, ProduceRequest) else None
