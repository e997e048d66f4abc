"""What single keys do to a whole node, and what it says of those that do nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.base.errors import StorageError
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.server.cluster.lifecycle import BrokerState
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.loops import in_virtual_time
from tests.server.boot_support import connect, create_topic, make_broker, result


def test_a_node_names_the_keys_that_do_nothing_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SimulatedLoop) -> None:
        broker = make_broker(loop, VirtualDisk(), num_io_threads="8")
        with caplog.at_level(logging.WARNING):
            await broker.start()
            connection = await connect(loop, broker)
            for name in ("a", "b"):
                config = CreateTopicsRequest.CreatableTopicConfig(name="local.retention.ms", value="5")
                topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[config])
                response = await result(loop, connection.request(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7))
                assert response.topics[0].error_code == 0
        connection.close()
        await broker.stop()

    run(main)
    assert sum("num.io.threads=8 has no effect" in line for line in caplog.messages) == 1
    assert sum("local.retention.ms=5 has no effect" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("delay_ms", [2_000, 30_000])
@in_virtual_time
async def test_the_tasks_of_the_logs_begin_after_a_delay_of_the_operators_choice(loop: SimulatedLoop, delay_ms: int) -> None:
    disk = VirtualDisk()
    settings = {"log_flush_offset_checkpoint_interval_ms": "3600000", "log_retention_check_interval_ms": "3600000"}
    broker = make_broker(loop, disk, log_initial_task_delay_ms=str(delay_ms), **settings)
    await broker.start()
    await create_topic(loop, broker, "topic")
    await asyncio.sleep(delay_ms / 1000 - 1.5)
    assert not disk.exists("/data/recovery-point-offset-checkpoint")
    await asyncio.sleep(2)
    assert b"topic 0 0" in disk.read_bytes("/data/recovery-point-offset-checkpoint")
    await broker.stop()


@in_virtual_time
async def test_the_tasks_of_the_logs_begin_within_their_own_interval(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk, log_flush_offset_checkpoint_interval_ms="4000")
    await broker.start()
    await create_topic(loop, broker, "topic")
    await asyncio.sleep(5)
    assert b"topic 0 0" in disk.read_bytes("/data/recovery-point-offset-checkpoint")
    await broker.stop()


@pytest.mark.parametrize("controlled", [True, False])
@in_virtual_time
async def test_a_controlled_shutdown_can_be_turned_off(loop: SimulatedLoop, controlled: bool) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk, controlled_shutdown_enable=str(controlled))
    seen: list[BrokerState] = []
    broker.states.listeners.append(seen.append)
    await broker.start()
    await broker.stop()
    assert (BrokerState.PENDING_CONTROLLED_SHUTDOWN in seen) == controlled
    again = make_broker(loop, disk, seed=2)
    await again.start()
    await again.stop()


@in_virtual_time
async def test_a_full_disk_is_said_in_one_line_with_the_directory(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    first = make_broker(loop, disk)
    await first.start()
    await first.stop()
    disk.capacity = 0
    broker = make_broker(loop, disk, seed=2)
    faults: list[Exception] = []
    broker.on_fatal = faults.append
    with pytest.raises(StorageError, match=r"/data.*No space left"):
        await broker.start()
    await broker.stop()
