"""The fixtures of odradek with aiokafka."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from odradek.testing import AsyncEmbeddedBroker, EmbeddedBroker


def test_records_come_back_in_their_order(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    async def story() -> list[bytes]:
        servers = odradek_broker.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for value in (b"one", b"two", b"three"):
                await producer.send_and_wait(odradek_topic, value)
        async with AIOKafkaConsumer(odradek_topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id="g") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(3)]

    assert asyncio.run(story()) == [b"one", b"two", b"three"]


@pytest.mark.odradek(partitions=3)
def test_every_partition_takes_records(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    async def story() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=odradek_broker.bootstrap_servers) as producer:
            return [(await producer.send_and_wait(odradek_topic, b"v", partition=number)).partition for number in range(3)]

    assert asyncio.run(story()) == [0, 1, 2]


def test_a_broker_on_the_loop_of_the_test() -> None:
    async def story() -> int:
        async with AsyncEmbeddedBroker(topics=["t"]) as broker, AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
            return (await producer.send_and_wait("t", b"v")).offset

    assert asyncio.run(story()) == 0
