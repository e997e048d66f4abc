"""Whole brokers on virtual time copy from one another: what was acknowledged by all in sync survives any one of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.storage.log import Log
from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time
from tests.server.several_nodes import BOTH, Cluster

TOPIC = "orders"
PARTITIONS = 3


class Following(Cluster):
    """Three nodes and a topic with a replica on each."""

    async def begin(self, **configs: str) -> None:
        await self.start()
        await self.until(lambda: all(self.registered(node) == dict.fromkeys(self.nodes, False) for node in self.nodes))
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=3,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in ({"min_insync_replicas": "2"} | configs).items()
            ],
        )
        response: CreateTopicsResponse = await self.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse, 7)
        assert [each.error_code for each in response.topics] == [0]
        await self.until(lambda: all(self.has_topic(node) for node in self.nodes))

    def has_topic(self, node: int) -> bool:
        return TOPIC in self.kraft(node).image.topics.by_name

    def manager(self, node: int) -> Any:
        broker = self.nodes[node].broker
        assert broker is not None
        return broker.node.replica_manager

    def log(self, node: int, partition: int) -> Log:
        log = self.manager(node).partition(TopicPartition(TOPIC, partition)).log
        assert isinstance(log, Log)
        return log

    def stored(self, node: int, partition: int) -> bytes:
        disk = self.nodes[node].disk
        return b"".join([disk.read_bytes(segment.log_path)[: segment.size] for segment in self.log(node, partition).segments])

    def agree(self, *nodes: int) -> bool:
        """Whether all replicas of the living nodes are the same, byte for byte."""
        alive = [node for node in nodes or self.nodes if self.nodes[node].alive and self.has_topic(node)]
        return all(len({self.stored(node, partition) for node in alive}) == 1 for partition in range(PARTITIONS))

    def registration(self, partition: int, node: int) -> Any:
        return self.kraft(node).image.topics.by_name[TOPIC].partitions[partition]

    def in_sync(self, node: int) -> bool:
        """Whether every ISR is full, as this node's image says."""
        return all(len(self.registration(partition, node).isr) == 3 for partition in range(PARTITIONS))

    def producer(self, **settings: Any) -> SimulatedProducer:
        servers = ",".join(f"n{node}:9092" for node in self.nodes)
        return SimulatedProducer(self.nodes[1].clock, random.Random(5), bootstrap_servers=servers, acks="all", **settings)

    async def read_all(self, partition: int, count: int) -> list[bytes]:
        servers = ",".join(f"n{node}:9092" for node in self.nodes if self.nodes[node].alive)
        with on_host("reader"):
            async with SimulatedConsumer(self.nodes[1].clock, random.Random(6), bootstrap_servers=servers) as consumer:
                consumer.assign([(TOPIC, partition)])
                consumer.seek_to_beginning()
                found: list[bytes] = []
                while len(found) < count:
                    found += [record.value for record in await consumer.poll(1.0) if record.value is not None]
                return found


async def produce(cluster: Following, count: int, acknowledged: list[list[bytes]], pause_s: float = 0.02) -> None:
    with on_host("writer"):
        async with cluster.producer() as producer:
            for index in range(count):
                value = b"%d" % index
                await producer.send(TOPIC, value, partition=index % PARTITIONS)
                acknowledged[index % PARTITIONS].append(value)
                await asyncio.sleep(pause_s)


@in_virtual_time
async def test_what_is_new_to_a_leader_is_copied_at_once(loop: SimulatedLoop) -> None:
    """Its followers have parked their fetches for half a second, and do not ask for the partition yet: of a new topic, and after a kill."""
    cluster = Following(loop, {1: BOTH, 2: BOTH, 3: BOTH})
    await cluster.begin()
    took = []
    with on_host("writer"):
        async with cluster.producer() as producer:
            for number in range(6):
                name = f"more-{number}"
                assert await cluster.create(1, name, replicas=3) == [0]
                await cluster.until(lambda name=name: all(name in cluster.kraft(node).image.topics.by_name for node in cluster.nodes))
                begin = loop.time()
                for partition in range(3):
                    await (await producer.send(name, b"first", partition=partition))
                took.append(loop.time() - begin)
    assert max(took) < 0.2


@in_virtual_time
async def test_replicas_of_three_brokers_are_the_same_and_all_in_sync(loop: SimulatedLoop) -> None:
    cluster = Following(loop, {1: BOTH, 2: BOTH, 3: BOTH})
    await cluster.begin()
    acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    await produce(cluster, 60, acknowledged)
    await cluster.until(cluster.agree)
    assert [cluster.log(node, 0).log_end_offset for node in cluster.nodes] == [20, 20, 20]
    await cluster.until(lambda: all(cluster.log(node, 0).high_watermark == 20 for node in cluster.nodes), 2)
    assert cluster.in_sync(1)


@pytest.mark.parametrize("power", [False, True])
@in_virtual_time
async def test_what_was_acknowledged_survives_the_death_of_any_broker(loop: SimulatedLoop, power: bool) -> None:
    cluster = Following(loop, {1: BOTH, 2: BOTH, 3: BOTH})
    await cluster.begin()
    acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for victim in (1, 2, 3):
        work = loop.create_task(produce(cluster, 90, acknowledged))
        await asyncio.sleep(0.5)
        dead = cluster.nodes[victim]
        if power:
            dead.power_cut()
        else:
            dead.kill()
        await asyncio.sleep(12)
        await dead.start()
        await work
        other = 1 if victim != 1 else 2
        await cluster.until(lambda other=other: cluster.in_sync(other), 60)  # type: ignore[misc]
    await cluster.until(cluster.agree)
    for partition in range(PARTITIONS):
        found = await cluster.read_all(partition, cluster.log(1, partition).log_end_offset)
        assert [value for value in acknowledged[partition] if value not in found] == []
