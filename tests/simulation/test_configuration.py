"""A whole broker whose configuration changes: a setting is in effect at once, survives every end, and again before the logs are loaded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.types import ConfigResource, NewTopic
from odradek.server.upkeep.jobs import Jobs
from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time
from tests.simulation.configuration_support import CLUSTER, KEY, NODE, TOPIC, World


@in_virtual_time
async def test_layers_hold_at_once_and_after_every_end(loop: SimulatedLoop) -> None:
    world = World(loop, {"message.max.bytes": "1000"})
    await world.start()
    assert world.log.config.max_message_bytes == 1000
    await world.change(CLUSTER, message_max_bytes="2000")
    assert world.log.config.max_message_bytes == 2000
    await world.change(NODE, message_max_bytes="3000", log_segment_delete_delay_ms="7")
    assert (world.log.config.max_message_bytes, world.log.config.file_delete_delay_ms) == (3000, 7)
    await world.change(TOPIC, max_message_bytes="4000")
    assert (world.log.config.max_message_bytes, world.log.config.file_delete_delay_ms) == (4000, 7)
    world.broker.kill()
    await world.broker.start()
    assert (world.log.config.max_message_bytes, world.log.config.file_delete_delay_ms) == (4000, 7)
    await world.change(TOPIC, max_message_bytes=None)
    assert world.log.config.max_message_bytes == 3000
    await world.broker.stop()
    await world.broker.start()
    assert world.log.config.max_message_bytes == 3000
    await world.change(NODE, message_max_bytes=None)
    assert world.log.config.max_message_bytes == 2000
    await world.change(CLUSTER, message_max_bytes=None)
    assert world.log.config.max_message_bytes == 1000
    await world.broker.stop()


def test_what_was_set_holds_before_the_logs_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pool = Jobs.pool

    def counting(jobs: Jobs, workers: int) -> Any:
        asked.append(workers)
        return pool(jobs, workers)

    monkeypatch.setattr(Jobs, "pool", counting)

    async def main(loop: SimulatedLoop) -> None:
        world = World(loop)
        await world.start()
        await world.change(CLUSTER, num_recovery_threads_per_data_dir="3")
        world.broker.kill()
        await world.broker.start()
        await world.broker.stop()

    run(main)
    assert asked == [2, 3]


@in_virtual_time
async def test_a_topic_made_after_the_change_has_it_too(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.broker.start()
    await world.change(CLUSTER, log_retention_ms="123456")
    with on_host("admin"):
        async with world.admin() as admin:
            await admin.create_topics([NewTopic("topic", 1, 1)])
    assert world.log.config.retention_ms == 123456
    await world.broker.stop()


@in_virtual_time
async def test_retention_follows_a_changed_topic(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"old")
    await asyncio.sleep(3600)
    assert world.log.log_start_offset == 0
    await world.change(TOPIC, retention_ms="60000")
    await asyncio.sleep(301)
    assert world.log.log_start_offset == 1
    await world.broker.stop()


@pytest.mark.parametrize("resource", [TOPIC, CLUSTER])
@in_virtual_time
async def test_flushing_by_time_begins_when_it_is_asked_for(loop: SimulatedLoop, resource: ConfigResource) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"a")
    await asyncio.sleep(100)
    assert world.log.recovery_point == 0
    if resource is TOPIC:
        await world.change(TOPIC, flush_ms="1000")
    else:
        await world.change(CLUSTER, log_flush_interval_ms="1000")
    await asyncio.sleep(1.5)
    assert world.log.recovery_point == 1
    await world.send(b"b")
    await asyncio.sleep(2.5)
    assert world.log.recovery_point == 2
    await world.broker.stop()


@in_virtual_time
async def test_flushing_by_time_follows_every_change(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start(flush_ms="60000")
    await world.change(TOPIC, flush_ms="1000")
    await world.send(b"a")
    await asyncio.sleep(2.5)
    assert world.log.recovery_point == 1
    await world.broker.stop()


class _Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False


async def _stay_open(loop: SimulatedLoop, host: str) -> int:
    """How many of six connections of a host the broker keeps."""
    with on_host(host):
        made = [await loop.create_connection(_Peer, "broker", 9092) for _ in range(6)]
        await asyncio.sleep(1)
        stayed = sum(peer.open for _, peer in made)
        for transport, _ in made:
            transport.close()
        await asyncio.sleep(1)
    return stayed


@in_virtual_time
async def test_connections_are_limited_from_now_on(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.change(NODE, max_connections_per_ip="4", max_connections_per_ip_overrides="10.1.1.1:3")
    assert await _stay_open(loop, "10.1.1.1") == 3
    assert await _stay_open(loop, "10.1.1.2") == 4
    await world.change(NODE, max_connections_per_ip_overrides=None)
    assert await _stay_open(loop, "10.1.1.1") == 4
    await world.broker.stop()


@in_virtual_time
async def test_idle_producers_are_forgotten_sooner(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"a")
    await asyncio.sleep(1300)
    assert len(world.log.producer_state.producers) == 1
    await world.change(CLUSTER, producer_id_expiration_ms="60000")
    await asyncio.sleep(601)
    assert len(world.log.producer_state.producers) == 0
    await world.broker.stop()


@in_virtual_time
async def test_deleted_records_stay_deleted_when_the_broker_is_killed_at_once(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"a", b"b", b"c")
    with on_host("admin"):
        async with world.admin() as admin:
            assert await admin.delete_records({KEY: 2}) == {KEY: 2}
            with pytest.raises(KafkaError) as refused:
                await admin.delete_records({KEY: 4})
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    world.broker.kill()
    await world.broker.start()
    assert (world.log.log_start_offset, world.log.log_end_offset) == (2, 3)
    with on_host("admin"):
        async with world.admin() as admin:
            assert await admin.delete_records({KEY: -1}) == {KEY: 3}
    await world.broker.stop()
    await world.broker.start()
    assert (world.log.log_start_offset, world.log.log_end_offset) == (3, 3)
    await world.broker.stop()


@in_virtual_time
async def test_segments_below_the_log_start_go_with_the_next_retention_check(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start(retention_ms="-1")
    await world.send(b"a", b"b")
    world.log.roll()
    await world.send(b"c")
    with on_host("admin"):
        async with world.admin() as admin:
            await admin.delete_records({KEY: 2})
    assert len(world.log.segments) == 2
    await asyncio.sleep(301)
    assert len(world.log.segments) == 1
    await world.broker.stop()
