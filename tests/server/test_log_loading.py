"""Which of the logs on the disk are this broker's."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.ids import TopicPartition
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.metadata.image import EMPTY
from odradek.protocol.messages.metadata_records import TopicRecord
from odradek.server.jobs import Jobs
from odradek.server.log_directories import LogDirectories
from odradek.server.log_loading import LoadLogs
from odradek.server.process import run_loop
from odradek.storage.log_manager import LogManager
from odradek.testing.disk import VirtualDisk
from tests.clock import ManualClock
from tests.metadata.test_image import OTHER, TOPIC, applied, partition
from tests.storage.support import topic_config

FLIGHTS = TopicPartition("flights", 0)


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
    before.load(lambda _: topic_config())
    before.create_log(FLIGHTS, TOPIC, topic_config())
    before.shutdown()
    image = applied(EMPTY, TopicRecord(name="flights", topic_id=topic_id), partition(0, topic_id, replicas))
    logs = log_manager()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        dynamic = DynamicBrokerConfig(config)
        directories = LogDirectories(dynamic, logs, {}, lambda error: pytest.fail(str(error)))
        logs.lock_directories()
        node = SimpleNamespace(
            config=config, clock=ManualClock(), loop=loop, jobs=Jobs(loop), services=SimpleNamespace(dynamic_config=dynamic)
        )
        await LoadLogs(cast(Any, node), directories, image).start()

    run_loop(main())
    assert [log.topic_partition for log in logs.logs] == [FLIGHTS] * kept
    assert len(logs.strays) == 1 - kept
