"""Whole broker on virtual time, with clients for one call."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from odradek.base.ids import TopicPartition
from odradek.client.types import ConfigChange, ConfigResource, NewTopic
from odradek.storage.log import Log
from odradek.testing.simulation.broker import SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from odradek.testing.simulation.network import on_host

KEY = TopicPartition("topic", 0)


TOPIC, NODE, CLUSTER = ConfigResource("topic", "topic"), ConfigResource("broker", "1"), ConfigResource("broker", "")


class World:
    """A broker, and clients that come for one call."""

    def __init__(self, loop: SimulatedLoop, settings: Mapping[str, str] | None = None) -> None:
        self.loop = loop
        self.broker = SimulatedBroker(loop, seed=5, settings=settings)

    async def start(self, **configs: str) -> None:
        await self.broker.start()
        if configs or self.broker.lives == 1:
            async with self.admin() as admin:
                await admin.create_topics([NewTopic("topic", 1, 1, {key.replace("_", "."): value for key, value in configs.items()})])

    def admin(self) -> SimulatedAdmin:
        return SimulatedAdmin(SimulatedClock(self.loop), random.Random(3), bootstrap_servers=self.broker.bootstrap_servers)

    async def change(self, resource: ConfigResource, **configs: str | None) -> None:
        changes = [ConfigChange(key.replace("_", "."), value, "delete" if value is None else "set") for key, value in configs.items()]
        with on_host("admin"):
            async with self.admin() as admin:
                await admin.incremental_alter_configs({resource: changes})

    async def send(self, *values: bytes) -> None:
        with on_host("writer"):
            settings: dict[str, Any] = {"bootstrap_servers": self.broker.bootstrap_servers}
            async with SimulatedProducer(SimulatedClock(self.loop), random.Random(1), **settings) as producer:
                for value in values:
                    await (await producer.send("topic", value, partition=0))

    @property
    def log(self) -> Log:
        assert self.broker.broker is not None
        log = self.broker.broker.node.log_manager.get_log(KEY)
        assert log is not None
        return log
