"""Metrics beside JVM Kafka's: the names of its MBeans, and what it answers to clients that push their own (KIP-714)."""

from __future__ import annotations

import gzip
import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer

from interop.peers import BrokerProcess, OdradekBroker, free_port
from interop.telemetry import TelemetryBroker, beans
from interop.tools import JvmTools
from odradek.base.errors import ErrorCode
from odradek.client import Admin, ConfigChange, ConfigResource, NewTopic
from odradek.metrics.absent import ABSENT
from odradek.metrics.catalogue import CATALOGUE, QUOTAS
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.registry import decode_response
from odradek.protocol.schema import Message
from odradek.records.compression import Compression, compress
from tests.metrics.served import key_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

CONFIG = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
INTERVAL_MS = 500


class Node(OdradekBroker):
    """Odradek with a listener for metrics, which takes what clients push."""

    def __init__(self, folder: Path) -> None:
        self.metrics_port = free_port()
        super().__init__(folder, {**CONFIG, "odradek.metrics.listener": str(self.metrics_port), "odradek.client.telemetry": "counted"})

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as response:
            for line in response:
                if line.startswith(name.encode() + b" "):
                    return float(line.split()[1])
        raise LookupError(name)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, TelemetryBroker]]:
    folder = tmp_path_factory.mktemp("metrics")
    ours, theirs = Node(folder / "odradek"), TelemetryBroker(folder / "jvm", CONFIG)
    try:
        for broker in (ours, theirs):
            broker.start()
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.create_topics([NewTopic("t", 1, 1)])
                resource = ConfigResource("client_metrics", "all")
                changes = [ConfigChange("metrics", "*"), ConfigChange("interval.ms", str(INTERVAL_MS))]
                admin.incremental_alter_configs({resource: changes})
        yield ours, theirs
    finally:
        for broker in (ours, theirs):
            broker.stop()


def use(broker: BrokerProcess, tools: JvmTools) -> None:
    """So that what is made when it is first needed is there: groups, transactions, topics."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "enable.metrics.push": False})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"v")
    producer.commit_transaction(20)
    arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--from-beginning", "--max-messages", "1", "--group", "g")
    tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)


def test_every_bean_of_jvm_kafka_is_served_or_listed_with_the_reason(brokers: tuple[Node, TelemetryBroker]) -> None:
    tools = JvmTools()
    try:
        use(brokers[1], tools)
    finally:
        tools.close()
    shown = {key for bean, attributes in beans(brokers[1].pid).items() for key in key_of(bean, attributes)}
    assert len(shown) > 200
    served = {metric.key for metric in CATALOGUE}
    listed = [pattern for patterns, _ in ABSENT for pattern in patterns]
    assert sorted(key for key in shown - served if not any(fnmatchcase(key, pattern) for pattern in listed)) == []
    assert [pattern for pattern in listed if not any(fnmatchcase(key, pattern) for key in shown)] == [], "listed, and not there"
    assert sorted(key for key in served - shown if not key.startswith("odradek:") and key not in OURS) == []


OURS = {
    *(f"kafka.log:type=LogManager,name=remaining{what}ToRecover" for what in ("Logs", "Segments")),
    "kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec",
    "kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
    "kafka.server:type=authorizer-metrics.acls-total-count",
    *(f"kafka.server:type=client-metrics.{what}-count" for what in ("plugin-error", "plugin-export", "throttle")),
    *(f"kafka.server:type={metric.type}.{metric.name}" for metric in QUOTAS),
    "kafka.server:type=transaction-coordinator-metrics.transactional-id-count",
}
"""JVM Kafka shows them while it starts, with followers, an authorizer, quotas or pushes; the last is ours."""


class Connection:
    """A client that speaks bytes."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), 10)

    def ask(self, message: Message) -> Message:
        body = encode_request_header(message.API_KEY, 0, 1, "raw") + bytes(message.encode(0))
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._read(4))
        return decode_response(self._read(size), message.API_KEY, 0)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data


METRICS = b"\x0a\x04\x12\x02\x08\x01"
NOBODY = UUID(int=0)


def resource(size: int) -> bytes:
    """Metrics of so many bytes."""
    inner = size - 4
    return b"\x0a" + bytes([inner & 127 | 128, inner >> 7 & 127 | 128, inner >> 14]) + bytes(inner)


def told(broker: BrokerProcess) -> list[tuple[str, tuple[object, ...]]]:
    """What a client hears, step by step; the error code first."""
    connection = Connection(broker)
    try:
        return _told(connection)
    finally:
        connection.socket.close()


def _told(connection: Connection) -> list[tuple[str, tuple[object, ...]]]:
    heard: list[tuple[str, tuple[object, ...]]] = []
    step = 0

    def ask(instance_id: UUID = NOBODY) -> GetTelemetrySubscriptionsResponse:
        nonlocal step
        step += 1
        answer = connection.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))
        assert isinstance(answer, GetTelemetrySubscriptionsResponse)
        facts = (
            answer.error_code,
            answer.throttle_time_ms,
            answer.accepted_compression_types,
            answer.push_interval_ms,
            answer.telemetry_max_bytes,
            answer.delta_temporality,
            answer.requested_metrics,
            bool(answer.client_instance_id.int),
        )
        heard.append((f"{step} ask", facts))
        return answer

    def push(name: str, given: GetTelemetrySubscriptionsResponse, metrics: bytes = METRICS, **changes: object) -> None:
        fields = {"client_instance_id": given.client_instance_id, "subscription_id": given.subscription_id, "metrics": metrics} | changes
        answer = connection.ask(PushTelemetryRequest(**fields))  # type: ignore[arg-type]
        assert isinstance(answer, PushTelemetryResponse)
        heard.append((name, (answer.error_code, answer.throttle_time_ms)))

    def wait() -> None:
        time.sleep(INTERVAL_MS / 1000 + 0.05)

    first = ask()
    ask(first.client_instance_id)
    push("the first push", first)
    push("too early", first)
    push("the last, early", first, terminating=True)
    wait()
    push("after the last", first)
    push("without an id", first, client_instance_id=NOBODY)
    push("with a reserved id", first, client_instance_id=UUID(int=1))
    for name, changes in {
        "another subscription": {"subscription_id": first.subscription_id ^ 1},
        "an unknown compression": {"compression_type": 9},
        "a negative compression": {"compression_type": -1},
        "too large": {"metrics": os.urandom(1_048_577)},
        "nothing": {"metrics": b""},
        "gzip": {"metrics": gzip.compress(METRICS), "compression_type": 1},
        "snappy": {"metrics": compress(METRICS, Compression.SNAPPY), "compression_type": 2},
        "lz4": {"metrics": compress(METRICS, Compression.LZ4), "compression_type": 3},
        "zstd": {"metrics": compress(METRICS, Compression.ZSTD), "compression_type": 4},
        "junk as gzip": {"metrics": b"junk", "compression_type": 1},
        "just enough": {"metrics": gzip.compress(resource(1_048_576)), "compression_type": 1},
        "one byte more": {"metrics": gzip.compress(resource(1_048_577)), "compression_type": 1},
        "a bomb as gzip": {"metrics": gzip.compress(bytes(64 << 20)), "compression_type": 1},
        "a bomb as zstd": {"metrics": compress(bytes(256 << 20), Compression.ZSTD), "compression_type": 4},
    }.items():
        push(name, ask(), **{"metrics": METRICS, **changes})  # type: ignore[arg-type]
    return heard


def test_clients_that_push_hear_the_same(brokers: tuple[Node, TelemetryBroker]) -> None:
    ours, theirs = (told(broker) for broker in brokers)
    differ = {name: (mine[0], other[0]) for (name, mine), (_, other) in zip(ours, theirs, strict=True) if mine != other}
    # JVM Kafka finds out within the plugin, whose exceptions all become INVALID_RECORD: after that its own client pushes no more.
    too_large = (ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.INVALID_RECORD)
    assert differ == dict.fromkeys(("one byte more", "a bomb as gzip", "a bomb as zstd"), too_large)


def _java(broker: BrokerProcess) -> None:
    tools = JvmTools()
    try:
        arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--timeout-ms", "2000", "--group", "push")
        tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    finally:
        tools.close()


def _librdkafka(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": True})
    producer.produce("t", b"v")
    producer.flush(10)
    producer.poll(1.5)


@pytest.mark.parametrize("client", [_java, _librdkafka])
def test_clients_push_to_odradek(brokers: tuple[Node, TelemetryBroker], client: Callable[[BrokerProcess], None]) -> None:
    ours = brokers[0]
    exported, errors = (
        ours.metric("kafka_server_client_metrics_plugin_export_count"),
        ours.metric("kafka_server_client_metrics_plugin_error_count"),
    )
    client(ours)
    assert ours.metric("kafka_server_client_metrics_plugin_export_count") > exported
    assert ours.metric("kafka_server_client_metrics_plugin_error_count") == errors
