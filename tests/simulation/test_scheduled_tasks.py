"""The tasks of the log layer at their intervals, in a whole broker on the virtual clock."""

from __future__ import annotations

import asyncio

from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.testing.simulation.broker import DATA
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time
from tests.simulation.configuration_support import CLUSTER, KEY, World

DIRECTORY = f"{DATA}/topic-0"


def names(world: World, suffix: str, directory: str = DIRECTORY) -> list[str]:
    return [name for name in world.broker.disk.listdir(directory) if name.endswith(suffix)]


def checkpoint(world: World, name: str) -> dict[TopicPartition, int]:
    return read_offset_checkpoint(world.broker.disk, f"{DATA}/{name}-checkpoint")


async def sleep_until(loop: SimulatedLoop, seconds: float) -> None:
    await asyncio.sleep(seconds - loop.time())


@in_virtual_time
async def test_retention_runs_every_five_minutes_and_files_go_a_minute_later(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start(retention_ms="1000")
    started = loop.time()
    await world.send(b"a", b"b")
    # The first look comes 30 s after the start, then every 300 s.
    await sleep_until(loop, started + 29)
    assert world.log.log_start_offset == 0
    await sleep_until(loop, started + 31)
    assert (world.log.log_start_offset, len(world.log.segments)) == (2, 1)
    await world.send(b"c")
    await sleep_until(loop, started + 320)
    assert world.log.log_start_offset == 2
    # Renamed at once, removed after file.delete.delay.ms, at one of the looks that deletion takes every ten seconds.
    assert names(world, ".deleted") == []
    await sleep_until(loop, started + 335)
    assert world.log.log_start_offset == 3
    assert any(name.startswith("00000000000000000002.log") for name in names(world, ".deleted"))
    await sleep_until(loop, started + 385)
    assert names(world, ".deleted")
    await sleep_until(loop, started + 412)
    assert names(world, ".deleted") == []
    assert names(world, ".log") == ["00000000000000000003.log"]
    await world.broker.stop()


@in_virtual_time
async def test_an_idle_segment_is_rolled_by_nobody_until_all_of_it_has_expired(loop: SimulatedLoop) -> None:
    """As in Kafka: segment.ms is looked at when something is appended."""
    world = World(loop)
    await world.start(segment_ms="60000", retention_ms="1200000")
    await world.send(b"a")
    await asyncio.sleep(600)
    assert len(world.log.segments) == 1
    await world.send(b"b")
    assert world.log.bases == [0, 1]
    await asyncio.sleep(1800)
    assert world.log.bases == [2]
    await world.broker.stop()


@in_virtual_time
async def test_checkpoints_are_written_every_minute(loop: SimulatedLoop) -> None:
    world = World(loop, {"log.flush.interval.messages": "1"})
    await world.start()
    started = loop.time()
    await world.send(*(b"%d" % number for number in range(10)))
    world.log.maybe_increment_log_start_offset(4)
    assert world.log.recovery_point == 10
    await sleep_until(loop, started + 29)
    assert checkpoint(world, "recovery-point-offset").get(KEY, 0) == 0
    await sleep_until(loop, started + 31)
    # The last offset stays above the point, so that the segment's indexes are looked at again after a crash.
    assert checkpoint(world, "recovery-point-offset")[KEY] == 9
    assert checkpoint(world, "log-start-offset")[KEY] == 4
    assert checkpoint(world, "replication-offset")[KEY] == 10
    await world.send(b"more")
    world.log.maybe_increment_log_start_offset(5)
    await sleep_until(loop, started + 85)
    assert checkpoint(world, "recovery-point-offset")[KEY] == 9
    await sleep_until(loop, started + 92)
    assert checkpoint(world, "recovery-point-offset")[KEY] == 10
    assert checkpoint(world, "log-start-offset")[KEY] == 5
    await world.broker.stop()
    assert checkpoint(world, "recovery-point-offset")[KEY] == 11


@in_virtual_time
async def test_producers_are_forgotten_after_the_expiration_as_it_is_now(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"a")
    await asyncio.sleep(1200)
    assert len(world.log.producer_state.producers) == 1
    await world.change(CLUSTER, producer_id_expiration_ms="600000")
    await asyncio.sleep(601)
    assert len(world.log.producer_state.producers) == 0
    await world.broker.stop()


@in_virtual_time
async def test_a_topic_made_again_at_once_is_empty_while_a_reader_holds_the_old_one(loop: SimulatedLoop) -> None:
    world = World(loop)
    await world.start()
    await world.send(b"old", b"older")
    old = world.log
    found = old.read(0, max_bytes=1 << 20, max_offset=2, min_one_message=True)
    (piece,) = found.slices
    expected = piece.read(0, piece.size)
    with on_host("admin"):
        async with world.admin() as admin:
            await admin.delete_topics(["topic"])
            await admin.create_topics([NewTopic("topic", 1, 1)])
    assert (world.log is old, world.log.log_end_offset, old.closed) == (False, 0, True)
    await world.send(b"new")
    assert piece.read(0, piece.size) == expected
    (gone,) = [name for name in world.broker.disk.listdir(DATA) if name.endswith("-delete")]
    await asyncio.sleep(50)
    assert gone in world.broker.disk.listdir(DATA)
    await asyncio.sleep(30)
    assert gone not in world.broker.disk.listdir(DATA)
    # On Unix the bytes live as long as somebody holds them.
    assert piece.read(0, piece.size) == expected
    found.release()
    world.broker.kill()
    await world.broker.start()
    assert world.log.log_end_offset == 1
    await world.broker.stop()
