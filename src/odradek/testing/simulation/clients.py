"""Asyncio clients of `odradek.client` with the clock and the random source of a simulation.

Make and use the clients inside `with on_host("name")`, so that their connections belong to that host.
"""

from __future__ import annotations

import random
from typing import Self

from odradek.client.admin.aio import AsyncAdmin
from odradek.client.consumer.aio import AsyncConsumer
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.network.cluster import Cluster
from odradek.client.producer.aio import AsyncProducer
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.hooks import Given
from odradek.client.settings.config import Setting
from odradek.testing.simulation.loop import SimulatedClock


class SimulatedProducer(AsyncProducer):
    """`AsyncProducer` with the clock and the random source of a simulation."""

    def __init__(self, clock: SimulatedClock, rng: random.Random, **settings: Given) -> None:
        super().__init__(**settings)
        self._clock = clock
        self._rng = rng

    async def start(self) -> Self:
        if self._engine is None:
            config, hooks = self._settings
            self._engine = ProducerEngine(config, Cluster(config, clock=self._clock, rng=self._rng), hooks)
        return self


class SimulatedConsumer(AsyncConsumer):
    """`AsyncConsumer` with the clock and the random source of a simulation."""

    def __init__(self, clock: SimulatedClock, rng: random.Random, **settings: Setting) -> None:
        super().__init__(**settings)
        self._clock = clock
        self._rng = rng

    async def start(self) -> Self:
        if self._engine is None:
            self._engine = ConsumerEngine(self._config, Cluster(self._config, clock=self._clock, rng=self._rng))
            self._engine.deserializers = self._deserializers
            self.take_over(self._engine)
        return self


class SimulatedAdmin(AsyncAdmin):
    """`AsyncAdmin` with the clock and the random source of a simulation."""

    def __init__(self, clock: SimulatedClock, rng: random.Random, **settings: Setting) -> None:
        super().__init__(**settings)
        self._clock = clock
        self._rng = rng

    async def start(self) -> Self:
        if self._cluster is None:
            self._cluster = Cluster(self._config, clock=self._clock, rng=self._rng)
        return self
