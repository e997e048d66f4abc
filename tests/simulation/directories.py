"""A broker with two log directories in a simulation, its writers, and what has to be there afterwards."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.network.transport import dial
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.testing.simulation.broker import PORT, SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from odradek.testing.simulation.network import on_host

FIRST, SECOND = "/data", "/data-2"
PARTITIONS = 4
PATIENCE = {"retry_backoff_max_ms": 1000, "request_timeout_ms": 5000, "default_api_timeout_ms": 120_000}


class DirectoriesWorld:
    def __init__(self, loop: SimulatedLoop, seed: int, **settings: str) -> None:
        self.loop = loop
        self.seed = seed
        self.clock = SimulatedClock(loop)
        loop.slow_jobs(f"jobs {seed}", (0.000_1, 0.02))
        self.broker = SimulatedBroker(
            loop, seed=seed, settings={"log.dirs": f"{FIRST},{SECOND}", "log.flush.interval.messages": "1", **settings}
        )
        self.acked: dict[int, dict[int, bytes]] = {number: {} for number in range(PARTITIONS)}
        self.over = False

    async def ask(self, request: Any, answer: Any, version: int) -> Any:
        with on_host("asker"):
            connection = await dial("broker", PORT, clock=self.clock, client_id="asker", timeout_s=5)
            try:
                return await connection.request(request, answer, version, timeout_s=5)
            finally:
                connection.close()

    async def create(self) -> None:
        with on_host("admin"):
            async with SimulatedAdmin(self.clock, random.Random(3), bootstrap_servers=self.broker.bootstrap_servers, **PATIENCE) as admin:
                await admin.create_topics([NewTopic("topic", PARTITIONS, 1, configs={"internal.segment.bytes": "5000"})])

    async def produce(self, partition: int) -> None:
        """Writes until the end; what is acknowledged is remembered with its offset."""
        number = 0
        with on_host(f"writer-{partition}"):
            async with SimulatedProducer(
                self.clock, random.Random(partition), bootstrap_servers=self.broker.bootstrap_servers, **PATIENCE
            ) as producer:
                while not self.over:
                    value = b"%d:%d" % (partition, number)
                    number += 1
                    try:
                        record = await asyncio.wait_for(await producer.send("topic", value, partition=partition), 60)
                    except (OdradekError, TimeoutError):
                        await asyncio.sleep(0.2)
                        continue
                    assert record.offset not in self.acked[partition]
                    self.acked[partition][record.offset] = value
                    await asyncio.sleep(0.05)

    async def read(self, partition: int) -> dict[int, bytes | None]:
        with on_host("reader"):
            async with SimulatedConsumer(
                self.clock, random.Random(2), bootstrap_servers=self.broker.bootstrap_servers, auto_offset_reset="earliest", **PATIENCE
            ) as consumer:
                consumer.assign([TopicPartition("topic", partition)])
                found: dict[int, bytes | None] = {}
                while records := await consumer.poll(3000):
                    found |= {record.offset: record.value for record in records}
                return found

    async def check_acked(self, partitions: list[int]) -> None:
        for partition in partitions:
            found = await self.read(partition)
            missing = {offset: value for offset, value in self.acked[partition].items() if found.get(offset) != value}
            assert not missing, f"seed {self.seed}, partition {partition}: acknowledged and not there: {sorted(missing.items())[:5]}"

    async def places(self) -> tuple[dict[int, str], dict[str, int]]:
        """Partition -> where its current log lies, and directory -> error code."""
        response: DescribeLogDirsResponse = await self.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        where = {
            partition.partition_index: each.log_dir
            for each in response.results
            for topic in each.topics
            for partition in topic.partitions
            if topic.name == "topic" and not partition.is_future_key
        }
        return where, {each.log_dir: each.error_code for each in response.results}

    async def move(self, partition: int, path: str) -> int:
        directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir(
            path=path, topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="topic", partitions=[partition])]
        )
        response: AlterReplicaLogDirsResponse = await self.ask(AlterReplicaLogDirsRequest(dirs=[directory]), AlterReplicaLogDirsResponse, 2)
        return response.results[0].partitions[0].error_code

    async def metadata(self) -> dict[int, MetadataResponse.MetadataResponsePartition]:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="topic")])
        response: MetadataResponse = await self.ask(request, MetadataResponse, 12)
        return {partition.partition_index: partition for partition in response.topics[0].partitions}
