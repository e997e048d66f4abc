"""A whole broker with quotas on virtual time: clients settle at what they may use, others notice nothing, and ends change nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.security import ClientQuotaAlteration, ClientQuotaEntity
from odradek.client.types import NewTopic
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time

VALUE = b"v" * 8_000
MODEST = ClientQuotaEntity(client_id="modest")


class QuotasWorld:
    """A broker and clients that come for one call; they have made up client ids."""

    def __init__(self, loop: SimulatedLoop, **settings: str) -> None:
        self.loop = loop
        self.broker = SimulatedBroker(loop, seed=6, settings={key.replace("_", "."): value for key, value in settings.items()})

    async def start(self) -> None:
        await self.broker.start()
        await self.administer(lambda admin: admin.create_topics([NewTopic("topic", 1, 1)]))

    async def administer(self, ask: Callable[[SimulatedAdmin], Awaitable[Any]], client_id: str = "admin", **settings: Any) -> Any:
        given = {"bootstrap_servers": self.broker.bootstrap_servers, "client_id": client_id, **settings}
        with on_host("admin"):
            async with SimulatedAdmin(SimulatedClock(self.loop), random.Random(3), **given) as admin:
                return await ask(admin)

    async def limit(self, entity: ClientQuotaEntity, **quotas: float | None) -> None:
        await self.administer(lambda admin: admin.alter_client_quotas([ClientQuotaAlteration(entity, quotas)]))

    async def send(self, client_id: str, count: int, **settings: Any) -> float:
        """Bytes of values that were acknowledged in a second."""
        given = {"bootstrap_servers": self.broker.bootstrap_servers, "client_id": client_id, **settings}
        with on_host(client_id):
            async with SimulatedProducer(SimulatedClock(self.loop), random.Random(1), **given) as producer:
                begin = self.loop.time()
                for future in [await producer.send("topic", VALUE, partition=0) for _ in range(count)]:
                    await future
                return count * len(VALUE) / max(self.loop.time() - begin, 1e-9)

    async def read(self, client_id: str, count: int) -> float:
        """Bytes of values that were read in a second."""
        # What is more than a few of a second's bytes waits until the rate has forgotten what came before.
        settings: dict[str, Any] = {
            "bootstrap_servers": self.broker.bootstrap_servers,
            "client_id": client_id,
            "max_partition_fetch_bytes": 50_000,
        }
        with on_host(client_id):
            async with SimulatedConsumer(SimulatedClock(self.loop), random.Random(2), auto_offset_reset="earliest", **settings) as consumer:
                consumer.assign([TopicPartition("topic", 0)])
                begin, read = self.loop.time(), 0
                while read < count:
                    read += len(await consumer.poll(60_000))
                return read * len(VALUE) / max(self.loop.time() - begin, 1e-9)


@in_virtual_time
async def test_a_producer_and_a_consumer_settle_at_their_quotas_and_others_do_not_notice(loop: SimulatedLoop) -> None:
    world = QuotasWorld(loop)
    await world.start()
    assert await world.send("modest", 300) > 10e6
    await world.limit(MODEST, producer_byte_rate=100_000.0, consumer_byte_rate=150_000.0)
    modest = loop.create_task(world.send("modest", 1000))
    await asyncio.sleep(5)
    begin = loop.time()
    assert await world.send("greedy", 100) > 1e6
    assert loop.time() - begin < 1
    assert await modest == pytest.approx(100_000, rel=0.15)
    modest = loop.create_task(world.read("modest", 1400))
    assert await world.read("greedy", 1400) > 1e6
    assert await modest == pytest.approx(150_000, rel=0.2)
    await world.limit(MODEST, producer_byte_rate=None, consumer_byte_rate=None)
    assert await world.send("modest", 400) > 1e6
    await world.broker.stop()


def test_pipelined_produce_of_a_client_that_does_not_wait_is_held_back_by_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.network.cluster.held_back_ms", lambda *_: 0)

    async def main(loop: SimulatedLoop) -> None:
        world = QuotasWorld(loop)
        await world.start()
        await world.limit(MODEST, producer_byte_rate=100_000.0)
        for settings in ({"acks": "all", "max_in_flight_requests_per_connection": 5}, {"acks": "0", "enable_idempotence": False}):
            rate = await world.send("modest", 800, linger_ms=0, **settings)
            assert rate < 130_000 or settings["acks"] == "0", "the last of acks=0 lie in the sockets"
        await world.broker.stop()

    run(main)


@in_virtual_time
async def test_quotas_outlive_every_end_of_the_broker(loop: SimulatedLoop) -> None:
    world = QuotasWorld(loop)
    await world.start()
    await world.limit(ClientQuotaEntity(user=""), producer_byte_rate=50_000.0)
    for end in (world.broker.kill, world.broker.power_cut):
        end()
        await world.broker.start()
        assert await world.send("anybody", 200) == pytest.approx(50_000, rel=0.8)
        assert await world.send("anybody", 200) < 60_000
    await world.broker.stop()


@in_virtual_time
async def test_mutations_come_at_their_rate_and_a_client_that_does_not_wait_is_refused(loop: SimulatedLoop) -> None:
    world = QuotasWorld(loop, controller_quota_window_num="2")
    await world.start()
    await world.limit(ClientQuotaEntity(client_id="builder"), controller_mutation_rate=2.0)
    begin = loop.time()

    async def build(admin: SimulatedAdmin) -> None:
        for number in range(40):
            await admin.create_topics([NewTopic(f"t{number}", 1, 1)])

    await world.administer(build, client_id="builder", retries=1000)
    assert loop.time() - begin == pytest.approx((40 - 4) / 2, rel=0.2)

    async def burst(admin: SimulatedAdmin) -> Any:
        return await admin.try_create_topics([NewTopic(f"b{number}", 3, 1) for number in range(10)])

    await asyncio.sleep(60)
    outcomes = await world.administer(burst, client_id="builder", retries=0)
    refused = [each for each in outcomes.values() if isinstance(each, KafkaError)]
    assert {each.code for each in refused} == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert len(refused) == 8, "of four tokens two topics of three partitions take one after the other"
    await world.broker.stop()


@in_virtual_time
async def test_topics_that_are_created_because_somebody_asks_for_them_count_for_whoever_asks(loop: SimulatedLoop) -> None:
    world = QuotasWorld(loop, controller_quota_window_num="2", auto_create_topics_enable="true")
    await world.start()
    await world.limit(ClientQuotaEntity(client_id="asker"), controller_mutation_rate=0.2)

    async def made(client_id: str, count: int) -> int:
        names = [f"{client_id}-{number}" for number in range(count)]
        settings: dict[str, Any] = {
            "bootstrap_servers": world.broker.bootstrap_servers,
            "client_id": client_id,
            "max_block_ms": 2500,
        }
        with on_host(client_id):
            async with SimulatedProducer(SimulatedClock(loop), random.Random(1), **settings) as producer:
                sent = [loop.create_task(_sent(producer, name)) for name in names]
                await asyncio.gather(*sent)
        return sum([each.result() for each in sent])

    assert await made("other", 8) == 8
    assert 1 <= await made("asker", 8) <= 3
    await world.broker.stop()


async def _sent(producer: SimulatedProducer, topic: str) -> bool:
    try:
        await (await producer.send(topic, b"v"))
    except KafkaError:
        return False
    return True


@in_virtual_time
async def test_new_connections_are_limited_by_listener_and_address(loop: SimulatedLoop) -> None:
    world = QuotasWorld(loop, quota_window_num="2")
    await world.start()
    await world.administer(
        lambda admin: admin.alter_client_quotas([ClientQuotaAlteration(ClientQuotaEntity(ip=""), {"connection_creation_rate": 3.0})])
    )
    await asyncio.sleep(10)
    lost: list[asyncio.BaseTransport] = []

    class Peer(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def connection_lost(self, exc: BaseException | None) -> None:
            lost.append(self.transport)

    host, port = world.broker.bootstrap_servers.split(":")
    with on_host("flood"):
        transports = [(await loop.create_connection(Peer, host, int(port)))[0] for _ in range(9)]
    await asyncio.sleep(0.05)
    assert not lost
    await asyncio.sleep(2)
    assert len(lost) == 6
    for transport in transports:
        transport.close()
    await world.broker.stop()
