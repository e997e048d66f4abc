"""Which of the logs on the disk are this broker's."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition
from odradek.config.broker import BrokerConfig, standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.protocol.messages.metadata_records import TopicRecord
from odradek.server.start.log_loading import LoadLogs
from odradek.server.start.process import run_loop
from odradek.server.upkeep.jobs import Jobs
from odradek.server.upkeep.log_directories import LockDirectories, LogDirectories
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.metadata.support import OTHER, TOPIC, applied, partition
from tests.storage.support import load_all, topic_config

FLIGHTS = TopicPartition("flights", 0)


def load(config: BrokerConfig, logs: LogManager, image: MetadataImage) -> None:
    """Locks and loads the directories of `logs` as a broker with this image does."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        dynamic = DynamicBrokerConfig(config)
        directories = LogDirectories(dynamic, logs, {}, lambda error: pytest.fail(str(error)))
        logs.lock_directories()
        node = SimpleNamespace(
            config=config, clock=ManualClock(), loop=loop, jobs=Jobs(loop), recovery={}, services=SimpleNamespace(dynamic_config=dynamic)
        )
        await LoadLogs(cast(Any, node), directories, image).start()

    run_loop(main())


@pytest.mark.parametrize(
    ("topic_id", "replicas", "kept"),
    [(TOPIC, (1, 2), True), (TOPIC, (2,), False), (OTHER, (1, 2), False)],
    ids=["a replica here", "a replica elsewhere", "a topic of the same name"],
)
def test_a_log_without_a_replica_here_is_set_aside(topic_id: Any, replicas: tuple[int, ...], kept: bool) -> None:
    config = standalone_config({"node.id": "1", "log.dirs": "/data"})
    disk = VirtualDisk()

    def log_manager() -> LogManager:
        return LogManager(disk, ManualClock(), ["/data"], config, random=random.Random(1))

    before = log_manager()
    load_all(before, lambda _: topic_config())
    before.create_log(FLIGHTS, TOPIC, topic_config())
    before.shutdown()
    image = applied(EMPTY, TopicRecord(name="flights", topic_id=topic_id), partition(0, topic_id, replicas))
    logs = log_manager()

    load(config, logs, image)
    assert [log.topic_partition for log in logs.logs] == [FLIGHTS] * kept
    assert len(logs.strays) == 1 - kept


def test_as_many_logs_of_a_directory_are_loaded_side_by_side_as_configured() -> None:
    config = standalone_config({"node.id": "1", "log.dirs": "/data", "num.recovery.threads.per.data.dir": "3"})
    disk = VirtualDisk()
    before = LogManager(disk, ManualClock(), ["/data"], config, random=random.Random(1))
    load_all(before, lambda _: topic_config())
    for number in range(3):
        before.create_log(TopicPartition("flights", number), TOPIC, topic_config())
    before.shutdown()
    together = threading.Barrier(3, timeout=10)

    def meet(operation: str, path: str) -> None:
        if operation == "read" and path.endswith("/partition.metadata"):
            together.wait()

    disk.fault = meet
    logs = LogManager(disk, ManualClock(), ["/data"], config, random=random.Random(1), new_lock=threading.Lock)
    image = applied(EMPTY, TopicRecord(name="flights", topic_id=TOPIC), *[partition(number, TOPIC, (1,)) for number in range(3)])
    load(config, logs, image)
    assert len(list(logs.logs)) == 3


def test_directories_are_unlocked_when_their_logs_cannot_be_closed() -> None:
    config = standalone_config({"node.id": "1", "log.dirs": "/data"})
    disk = VirtualDisk()

    def step(loop: asyncio.AbstractEventLoop) -> LockDirectories:
        failing = SimpleNamespace(run=lambda job: Deferred.failed(OSError("the disk is gone")))
        services = SimpleNamespace(dynamic_config=DynamicBrokerConfig(config))
        node = SimpleNamespace(
            config=config,
            services=services,
            disk=disk,
            clock=ManualClock(),
            random=random.Random(1),
            jobs=failing,
            loop=loop,
            fatal=pytest.fail,
        )
        return LockDirectories(cast(Any, node), cast(Any, SimpleNamespace(directory_ids={}, unusable={})))

    async def main() -> None:
        first = step(asyncio.get_running_loop())
        (await first.start()).loaded = True
        with pytest.raises(OSError, match="the disk is gone"):
            await first.stop()
        await step(asyncio.get_running_loop()).start()

    run_loop(main())
