"""The harness itself: what a killed process leaves, what a power cut takes, and that nothing of a dead life runs on."""

from __future__ import annotations

import asyncio
import random

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.testing.simulation.broker import BrokerDied, SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time


async def _write(loop: SimulatedLoop, broker: SimulatedBroker, values: list[bytes]) -> list[int]:
    with on_host("writer"):
        async with SimulatedProducer(SimulatedClock(loop), random.Random(1), bootstrap_servers=broker.bootstrap_servers) as producer:
            futures = [await producer.send("topic", value, partition=0) for value in values]
            return [(await future).offset for future in futures]


async def _read(loop: SimulatedLoop, broker: SimulatedBroker) -> list[bytes | None]:
    settings = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with on_host("reader"):
        async with SimulatedConsumer(SimulatedClock(loop), random.Random(2), **settings) as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            values: list[bytes | None] = []
            while records := await consumer.poll(2000):
                values += [record.value for record in records]
            return values


async def _create(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    with on_host("admin"):
        async with SimulatedAdmin(SimulatedClock(loop), random.Random(3), bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("topic", 1, 1)])


@in_virtual_time
async def test_a_killed_broker_finds_what_it_wrote_and_a_stopped_one_too(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, seed=1)
    await broker.start()
    await _create(loop, broker)
    assert await _write(loop, broker, [b"one", b"two"]) == [0, 1]
    broker.kill()
    assert not broker.alive
    await broker.start()
    assert await _write(loop, broker, [b"three"]) == [2]
    await broker.stop()
    await broker.start()
    assert await _read(loop, broker) == [b"one", b"two", b"three"]
    await broker.stop()


def test_power_cuts_lose_unflushed_records_unless_the_topic_flushes() -> None:
    def lost(seed: int, flush_messages: str) -> int:
        async def main(loop: SimulatedLoop) -> int:
            broker = SimulatedBroker(loop, seed=seed, settings={"log.flush.interval.messages": flush_messages})
            await broker.start()
            await _create(loop, broker)
            values = [b"%d" % number for number in range(10)]
            for value in values:
                await _write(loop, broker, [value])
            broker.power_cut()
            await broker.start()
            left = await _read(loop, broker)
            assert left == values[: len(left)]
            return len(values) - len(left)

        return run(main)

    assert sum(lost(seed, "9223372036854775807") for seed in range(3)) > 0
    assert sum(lost(seed, "1") for seed in range(3)) == 0


@in_virtual_time
async def test_a_life_can_end_before_any_disk_operation_of_its_boot(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, seed=3)
    deaths = 0
    for steps in range(0, 80, 7):
        broker.end_at_step(steps, power=steps % 2 == 0)
        try:
            await broker.start()
            break
        except BrokerDied:
            deaths += 1
    assert deaths > 3
    broker.disarm()
    if not broker.alive:
        await broker.start()
    await _create(loop, broker)
    await broker.stop()


def test_nothing_of_a_killed_process_runs_on() -> None:
    ran: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(1)
            ran.append(name)
        finally:
            ran.append(f"{name} cleaned up")

    async def main(loop: SimulatedLoop) -> None:
        doomed, other = loop.new_process("doomed"), loop.new_process("other")
        loop.create_task(work("doomed"), context=doomed.context())
        survivor = loop.create_task(work("other"), context=other.context())
        doomed.run(loop.call_later, 0.5, ran.append, "timer")
        await asyncio.sleep(0.1)
        doomed.kill()
        await survivor
        await asyncio.sleep(10)
        assert ran == ["other", "other cleaned up"]

    run(main)


@in_virtual_time
async def test_connections_are_refused_while_the_broker_is_down(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, seed=4)
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(asyncio.Protocol, "broker", 9092)
    await broker.start()
    transport, _ = await loop.create_connection(asyncio.Protocol, "broker", 9092)
    transport.close()
    broker.kill()
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(asyncio.Protocol, "broker", 9092)
