"""Brokers on a simulated loop and a virtual disk."""

from __future__ import annotations

import random
from typing import Any

from odradek.base.deferred import Deferred
from odradek.config.broker import standalone_config
from odradek.network.transport import ClientConnection, dial
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.server.start.broker import Broker
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop

DATA = "/data"


def make_broker(loop: SimulatedLoop, disk: VirtualDisk, seed: int = 1, **overrides: str) -> Broker:
    settings = {"log.dirs": DATA, **{key.replace("_", "."): value for key, value in overrides.items()}}
    return Broker(
        standalone_config(settings), disk=disk, clock=SimulatedClock(loop), rng=random.Random(seed), loop=loop, format_if_empty=True
    )


async def connect(loop: SimulatedLoop, broker: Broker) -> ClientConnection:
    return await dial("127.0.0.1", broker.port(), clock=broker.clock, client_id="test", loop=loop)


async def result(loop: SimulatedLoop, deferred: Deferred[Any]) -> Any:
    future = loop.create_future()
    deferred.add_callback(lambda done: future.set_exception(done.error) if done.error else future.set_result(done.result()))
    return await future


async def create_topic(loop: SimulatedLoop, broker: Broker, name: str) -> int:
    connection = await connect(loop, broker)
    request = CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=5000
    )
    response: CreateTopicsResponse = await result(loop, connection.request(request, CreateTopicsResponse, 7))
    connection.close()
    return response.topics[0].error_code
