"""What a node leaves behind when it stops, and what its steps do for one another."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.replication.partition import Partition
from odradek.server.cluster.lifecycle import BrokerState
from odradek.server.step import Startup, Step
from odradek.server.upkeep.cleaning import CleanLogs
from odradek.server.upkeep.tasks import RunTasks
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.loops import in_virtual_time
from tests.server.boot_support import DATA, create_topic, make_broker


@in_virtual_time
async def test_a_stopped_broker_has_written_everything_and_does_nothing_more(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)
    await broker.start()
    epoch = broker.services.metadata.image.cluster.brokers[1].epoch
    assert await create_topic(loop, broker, "flights") == 0
    kraft = broker.node.kraft
    await broker.stop()
    assert json.loads(disk.read_bytes(f"{DATA}/.kafka_cleanshutdown"))["brokerEpoch"] == epoch
    assert b"flights 0 0" in disk.read_bytes(f"{DATA}/replication-offset-checkpoint"), "high watermarks"
    assert kraft.loader.publishers == ()
    assert disk.locks == set()
    steps = disk.steps
    await asyncio.sleep(3600)
    assert disk.steps == steps


@in_virtual_time
async def test_a_stopped_broker_follows_no_leader(loop: SimulatedLoop) -> None:
    broker = make_broker(loop, VirtualDisk())
    await broker.start()
    fetchers = broker.node.replica_manager.changes.fetchers
    cut: list[int] = []

    def followed_log() -> None:
        cut.append(1)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "closed")

    follower = cast(Partition, SimpleNamespace(leader_id=2, topic_partition=None, followed_log=followed_log))
    fetchers.start([follower])
    assert cut == [1]
    await broker.stop()
    fetchers.start([follower])
    assert cut == [1], "a log that is closed"


@in_virtual_time
async def test_a_second_stop_waits_for_the_first(loop: SimulatedLoop) -> None:
    broker = make_broker(loop, VirtualDisk())
    await broker.start()
    first = asyncio.ensure_future(broker.stop())
    await asyncio.sleep(0)
    assert broker.states.state is not BrokerState.NOT_RUNNING
    await broker.stop()
    assert broker.states.state is BrokerState.NOT_RUNNING
    assert first.done() or not await first


def test_a_stop_that_fails_does_not_keep_the_rest_from_stopping(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(self: Step[Any]) -> None:
        raise RuntimeError("made to fail")

    for step in (RunTasks, CleanLogs):
        monkeypatch.setattr(step, "stop", fail)

    async def main(loop: SimulatedLoop) -> None:
        disk = VirtualDisk()
        broker = make_broker(loop, disk)
        await broker.start()
        await broker.stop()
        assert disk.exists(f"{DATA}/.kafka_cleanshutdown")
        assert disk.locks == set()

    run(main)
    assert [line for line in caplog.messages if "continuing" in line] == [
        "stopping cleaner failed; continuing",
        "stopping tasks failed; continuing",
    ]


def test_a_step_that_fails_half_way_is_stopped() -> None:
    stopped: list[str] = []

    class Half(Step[None]):
        name = "half"

        async def start(self) -> None:
            raise OSError(5, "Input/output error")

        async def stop(self) -> None:
            stopped.append(self.name)

    async def main(_: SimulatedLoop) -> None:
        startup = Startup()
        with pytest.raises(OSError, match="Input/output"):
            await startup.start(Half())
        await startup.stop()
        await startup.stop()

    run(main)
    assert stopped == ["half"]


@in_virtual_time
async def test_a_start_that_is_cancelled_stops_what_it_had_begun(loop: SimulatedLoop) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk)
    starting = asyncio.ensure_future(broker.start())
    for _ in range(100):
        if disk.locks:
            break
        await asyncio.sleep(0)
    assert disk.locks
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await broker.stop()
    assert disk.locks == set()
    again = make_broker(loop, disk, 2)
    await again.start()
    await again.stop()


@pytest.mark.parametrize(("path", "reason"), [("/meta", "metadata log directory /meta failed"), (DATA, "all log directories have failed")])
@in_virtual_time
async def test_a_node_ends_with_the_metadata_directory_and_with_the_last_one_for_logs(loop: SimulatedLoop, path: str, reason: str) -> None:
    broker = make_broker(loop, VirtualDisk(), metadata_log_dir="/meta")
    told: list[Exception] = []
    broker.on_fatal = told.append
    await broker.start()
    broker.node.log_manager.directory_failed(path, OSError(5, "Input/output error", path))
    assert [reason in str(error) for error in told] == [True]
    await broker.stop()


@pytest.mark.parametrize("metadata", ["/meta", DATA])
@pytest.mark.parametrize(("operation", "error"), [("write", errno.ENOSPC), ("fsync", errno.EIO)])
@in_virtual_time
async def test_a_node_whose_metadata_log_fails_says_so_at_once_and_does_not_wait_for_itself(
    loop: SimulatedLoop, metadata: str, operation: str, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = VirtualDisk()
    broker = make_broker(loop, disk, metadata_log_dir=metadata)
    fatal: asyncio.Future[Exception] = loop.create_future()
    broker.on_fatal = fatal.set_result
    await broker.start()
    await asyncio.sleep(1)
    disk.fail(f"{metadata}/__cluster_metadata-0", operation, error)
    creating = asyncio.create_task(create_topic(loop, broker, "flights"))
    reason = await asyncio.wait_for(fatal, 2)
    assert str(reason).startswith(metadata)
    said = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert [str(reason) in record.getMessage() for record in said] == [True], "before it ends, and once"
    begin = loop.time()
    await broker.stop()
    assert loop.time() - begin < 1
    creating.cancel()
    await asyncio.gather(creating, return_exceptions=True)
    disk.lift_failures()
    again = make_broker(loop, disk, 2, metadata_log_dir=metadata)
    await again.start()
    await again.stop()


def test_tasks_end_with_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[float] = []
    expire = LogManager.expire_producers

    async def main(loop: SimulatedLoop) -> None:
        def counted(self: LogManager) -> None:
            runs.append(loop.time())
            expire(self)

        monkeypatch.setattr(LogManager, "expire_producers", counted)
        broker = make_broker(loop, VirtualDisk())
        await broker.start()
        await asyncio.sleep(1300)
        assert len(runs) == 2
        await broker.stop()
        await asyncio.sleep(3600)
        assert len(runs) == 2

    run(main)
