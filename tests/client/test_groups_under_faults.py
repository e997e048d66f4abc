"""Groups of our consumers on whole simulated clusters whose nodes, coordinators among them, are killed, paused and cut off: in the end all
is read, everything has one owner, and nothing was committed that had not been handed out. One seed is one story."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict

import pytest

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import NewTopic, RebalanceListener
from odradek.client.consumer.commits import CommitFailed
from odradek.testing.simulation.clients import SimulatedConsumer
from odradek.testing.simulation.cluster import SimulatedCluster
from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork
from tests.client.members import protocol_settings

TOPIC, PARTITIONS, RECORDS = "t", 4, 240
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


class _Group:
    """Three members, each a task on a machine of its own, and what they saw."""

    def __init__(self, cluster: SimulatedCluster, protocol: str) -> None:
        self.cluster = cluster
        self.seen: defaultdict[int, set[int]] = defaultdict(set)
        self.owned: dict[str, set[TopicPartition]] = {}
        self.wrong: list[str] = []
        self.over = False
        settings = protocol_settings(protocol)
        if protocol != "consumer":
            settings |= {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000}
        self.settings = {**settings, "auto_commit_interval_ms": 500, "max_poll_records": 10, "request_timeout_ms": 5_000}

    async def member(self, name: str) -> None:
        with self.cluster.client(name):
            consumer = self.cluster.consumer(name, group_id="g", auto_offset_reset="earliest", **self.settings)
            async with consumer:
                consumer.subscribe([TOPIC], _Listener(self, name, consumer))
                while not self.over:
                    try:
                        records = await consumer.poll(500)
                    except KafkaError as error:
                        # Nothing but what heals may be told while nodes come and go, and that seldom.
                        self.wrong += [] if error.code.retriable else [f"{name}: {error}"]
                        continue
                    for record in records:
                        self.seen[record.partition].add(record.offset)


class _Listener(RebalanceListener):
    def __init__(self, group: _Group, name: str, consumer: SimulatedConsumer) -> None:
        self.group = group
        self.consumer = consumer
        self.owned = group.owned.setdefault(name, set())

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.owned.update(partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.owned.difference_update(partitions)
        with contextlib.suppress(CommitFailed, KafkaError):
            await self.consumer.commit(timeout_ms=500)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.owned.difference_update(partitions)


async def _story(loop: SimulatedLoop, seed: int, protocol: str) -> None:
    cluster = SimulatedCluster(loop, seed=seed, nodes=3, settings=SETTINGS)
    await cluster.start()
    with cluster.client("boss"):
        async with cluster.admin("boss") as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
    group = _Group(cluster, protocol)
    tasks = [asyncio.create_task(group.member(f"member{number}")) for number in range(3)]
    tasks.append(asyncio.create_task(_produce(cluster)))
    await _faults(cluster, random.Random(seed))
    await cluster.heal()
    everything = {number: set(range(RECORDS // PARTITIONS)) for number in range(PARTITIONS)}

    def settled() -> bool:
        owners = sorted(each for owned in group.owned.values() for each in owned)
        return group.seen == everything and owners == [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]

    await cluster.wait_until(settled, 180, what=f"all is read by one owner each: {group.owned}")
    group.over = True
    await asyncio.gather(*tasks)
    assert group.wrong == []
    with cluster.client("boss"):
        async with cluster.consumer("judge", group_id="g") as judge:
            committed = await judge.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    # All had been handed out when the members closed, and that committed all of it.
    assert {partition.partition: None if each is None else each.offset for partition, each in committed.items()} == dict.fromkeys(
        range(PARTITIONS), RECORDS // PARTITIONS
    )
    await cluster.stop()


async def _produce(cluster: SimulatedCluster) -> None:
    with cluster.client("writer"):
        async with cluster.producer("writer", linger_ms=0, delivery_timeout_ms=600_000, request_timeout_ms=5_000) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                await asyncio.sleep(0.1)


async def _faults(cluster: SimulatedCluster, rng: random.Random) -> None:
    """One node at a time, so that a quorum is left: the coordinator is among them sooner or later."""
    for node in (*rng.sample((1, 2, 3), 3), rng.choice((1, 2, 3))):
        await asyncio.sleep(rng.uniform(1, 4))
        match rng.choice(("kill", "pause", "isolate")):
            case "kill":
                cluster.kill(node)
            case "pause":
                cluster.pause(node)
            case _:
                cluster.isolate(node)
        await asyncio.sleep(rng.uniform(2, 12))
        await cluster.heal()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_group_lives_through_the_loss_of_its_coordinators(protocol: str, seed: int) -> None:
    run(lambda loop: _story(loop, seed, protocol), VirtualNetwork(seed=seed))
