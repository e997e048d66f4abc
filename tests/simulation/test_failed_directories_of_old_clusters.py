"""Below metadata.version 3.7-IV2 the metadata does not say in which log directory a replica is: it must not look new there either."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.testing.simulation.cluster import SimulatedCluster
from odradek.testing.simulation.loop import SimulatedLoop
from tests.loops import in_virtual_time

A, B = "/a", "/b"
PATIENCE = {"retry_backoff_max_ms": 500, "request_timeout_ms": 3000, "default_api_timeout_ms": 8000}


@pytest.mark.parametrize("release", ["3.6", "3.9"])
@pytest.mark.parametrize("restarted", [False, True])
@in_virtual_time
async def test_a_replica_is_not_made_anew_while_its_directory_is_offline(loop: SimulatedLoop, release: str, restarted: bool) -> None:
    settings = {"log.dirs": f"{A},{B}", "metadata.log.dir": "/m"}
    cluster = SimulatedCluster(loop, nodes=1, controllers=1, separate_controllers=True, settings=settings, release_version=release)
    await cluster.start()
    broker = cluster.nodes[1]
    partitions = [TopicPartition("t", number) for number in range(4)]
    with cluster.client("client"):
        async with cluster.admin("admin", **PATIENCE) as admin, cluster.producer("producer", **PATIENCE) as producer:
            await admin.create_topics([NewTopic("t", 4, 1)])
            for each in partitions:
                await (await producer.send(each.topic, b"kept", partition=each.partition))
            failure = broker.disk.fail(B)
            sent = [await producer.send(each.topic, b"lost", partition=each.partition) for each in partitions]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 3)
    lost = [each for each in partitions if broker.disk.exists(f"{B}/{each.topic}-{each.partition}")]
    assert len(lost) == 2
    # The broker is fenced for a moment, and takes its roles anew.
    if restarted:
        broker.kill()
        failure = broker.disk.fail(B)
        cluster.begin(1)
        await cluster.wait_for_starts()
    else:
        cluster.isolate(1)
        await asyncio.sleep(20)
        cluster.loop.network.heal()
    await asyncio.sleep(20)
    assert not any(broker.disk.exists(f"{A}/{each.topic}-{each.partition}") for each in lost)
    failure.lift()
    await cluster.stop(1)
    cluster.begin(1)
    await cluster.wait_for_starts()
    await cluster.wait_until(lambda: all(cluster.leader(each) == 1 for each in partitions), 9)
    with cluster.client("client"):
        async with cluster.consumer("reader", auto_offset_reset="earliest", **PATIENCE) as consumer:
            consumer.assign(partitions)
            found = set[tuple[int, int]]()
            while records := await consumer.poll(2000):
                found |= {(record.partition, record.offset) for record in records if record.value == b"kept"}
    assert found == {(each.partition, 0) for each in partitions}
    await cluster.stop()
