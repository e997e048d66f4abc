"""Several real nodes in one process, with the clients that people use."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import aiokafka
import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.kit.embedded import EmbeddedCluster


def _create(servers: str, topic: str, factor: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, 3, factor)], operation_timeout=30).values():
        future.result(30)


def _write(servers: str, topic: str, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = ConfluentProducer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % 3, on_delivery=lambda error, message: errors.append(error) if error else None)
    assert producer.flush(60) == 0
    assert errors == []


def _read(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            if len(found) == count:
                break
    finally:
        consumer.close()
    return sorted(found)


VALUES = [b"%03d" % number for number in range(90)]


def test_clients_write_and_read_while_a_node_is_killed_and_comes_back() -> None:
    threads = threading.active_count()
    with EmbeddedCluster(3, {"min.insync.replicas": "2"}) as cluster:
        folder = Path(cluster.directory)
        servers = cluster.bootstrap_servers
        _create(servers, "topic", 3)
        _write(servers, "topic", VALUES[:30])
        cluster.kill(1)
        assert not cluster.is_up(1)
        _write(servers, "topic", VALUES[30:60])
        cluster.restart(1)
        cluster.stop(2)
        _write(servers, "topic", VALUES[60:])
        cluster.restart(2)
        assert _read(servers, "topic", 90) == VALUES
    assert not folder.exists()
    assert threading.active_count() <= threads + 3  # librdkafka's own


def test_a_directory_that_was_given_is_a_cluster_again(tmp_path: Path) -> None:
    with EmbeddedCluster(3, directory=str(tmp_path)) as cluster:
        _create(cluster.bootstrap_servers, "topic", 1)
        _write(cluster.bootstrap_servers, "topic", VALUES[:9])
    with EmbeddedCluster(3, directory=str(tmp_path)) as cluster:
        assert _read(cluster.bootstrap_servers, "topic", 9) == VALUES[:9]


def test_an_asyncio_client_is_served_by_all_nodes() -> None:
    async def exchange(servers: str) -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            for partition in range(3):
                await producer.send_and_wait("topic", b"%d" % partition, partition=partition)
        async with aiokafka.AIOKafkaConsumer("topic", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            return sorted([(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(3)])

    with EmbeddedCluster(3) as cluster:
        _create(cluster.bootstrap_servers, "topic", 1)
        assert asyncio.run(exchange(cluster.bootstrap_servers)) == [b"0", b"1", b"2"]


def test_what_is_not_up_cannot_be_stopped_and_what_is_up_not_started(tmp_path: Path) -> None:
    with EmbeddedCluster(1, directory=str(tmp_path)) as cluster:
        with pytest.raises(RuntimeError, match="node 1 is already running"):
            cluster.restart(1)
        cluster.kill(1)
        with pytest.raises(RuntimeError, match="node 1 is not running"):
            cluster.kill(1)
        cluster.restart(1)
        _create(cluster.bootstrap_servers, "topic", 1)


def test_a_cluster_has_nodes() -> None:
    with pytest.raises(ValueError, match="at least one node, not 0"):
        EmbeddedCluster(0)
