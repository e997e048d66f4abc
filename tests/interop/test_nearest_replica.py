"""Consumers that name their rack read from the replica there (KIP-392): the JVM's and librdkafka's, from brokers of ours in two racks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster import Member, MixedCluster
from interop.peers import run_jvm_tool
from interop.waiting import eventually
from odradek.replication.selector import RACK_AWARE

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

COUNT = 500
RACKS = {1: "a", 2: "b"}


def read_from(consumer: Consumer, seen: list[dict[str, Any]], partitions: int) -> dict[int, int]:
    """Partition -> the broker that its records come from, once all `COUNT` records have been read."""
    consumer.assign([TopicPartition("orders", partition, 0) for partition in range(partitions)])
    left = COUNT

    def done() -> dict[int, int] | None:
        nonlocal left
        left -= sum(message.error() is None for message in consumer.consume(100, 0.2))
        if left > 0 or not seen:
            return None
        [topic] = [each for name, each in seen[-1]["topics"].items() if name == "orders"]
        return {index: topic["partitions"][str(index)]["broker"] for index in range(partitions)}

    return eventually(done, f"{COUNT} records", 60)


def test_consumers_read_from_their_rack(tmp_path: Path) -> None:
    settings = {"replica.selector.class": RACK_AWARE, "offsets.topic.replication.factor": "1"}
    cluster = MixedCluster(tmp_path, {node: Member("odradek") for node in RACKS}, settings=settings)
    for node, process in cluster.nodes.items():
        process.overrides["broker.rack"] = RACKS[node]
    with cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(COUNT):
            producer.produce("orders", b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        partitions = admin.list_topics("orders").topics["orders"].partitions
        assert {partition.leader for partition in partitions.values()} == {1, 2}
        seen: list[dict[str, Any]] = []
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "nearest",
                "client.rack": "b",
                "statistics.interval.ms": 200,
                "stats_cb": lambda text: seen.append(json.loads(text)),
            }
        )
        try:
            assert read_from(consumer, seen, 2) == {0: 2, 1: 2}
        finally:
            consumer.close()
        done = run_jvm_tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", "orders", "--from-beginning", "--max-messages", str(COUNT)),
            *("--timeout-ms", "60000", "--command-property", "client.rack=b"),
        )
        assert sorted(int(line) for line in done.stdout.decode().split()) == list(range(COUNT))
