"""kcat and JVM Kafka's own tools against Odradek, unmodified."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.peers import BrokerProcess
from interop.tools import JvmTools
from tests.interop.matrix import CODECS, codecs_on_disk

pytestmark = pytest.mark.jvm

LINES = [f"line {number} ".encode() + b"x" * (number % 300) for number in range(500)]


Tool = Callable[..., bytes]


@pytest.fixture
def jvm(jvm_tools: JvmTools) -> Tool:
    """Runs a tool, which has to succeed, and gives its output."""

    def run(main_class: str, *arguments: str, stdin: bytes = b"") -> bytes:
        done = jvm_tools.run(main_class, *arguments, stdin=stdin)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout

    return run


@pytest.mark.parametrize("codec", CODECS)
def test_kcat(broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], codec: str) -> None:
    kcat = shutil.which("kcat")
    assert kcat, "kcat is missing: run `make interop`, which installs it"
    topic = new_topic(f"kcat-{codec}")
    common = [kcat, "-b", broker.bootstrap, "-t", topic, "-p", "0"]
    text = b"\n".join(LINES) + b"\n"
    subprocess.run([*common, "-P", "-z", codec, "-H", "a=b", "-X", "linger.ms=50"], input=text, check=True, timeout=60)
    read = subprocess.run([*common, "-C", "-e", "-q", "-o", "beginning"], capture_output=True, check=True, timeout=60)
    assert read.stdout == text
    headers = subprocess.run([*common, "-C", "-e", "-q", "-o", "beginning", "-f", "%h\n"], capture_output=True, check=True, timeout=60)
    assert headers.stdout.splitlines() == [b"a=b"] * len(LINES)
    assert CODECS[codec] in codecs_on_disk(partition_folder(topic))


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_and_consumer(
    broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], jvm: Tool, codec: str
) -> None:
    topic = new_topic(f"console-{codec}")
    text = b"\n".join(LINES) + b"\n"
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    jvm("org.apache.kafka.tools.ConsoleProducer", *where, "--compression-codec", codec, stdin=text)
    count = str(len(LINES))
    read = jvm(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--partition", "0", "--offset", "earliest", "--max-messages", count
    )
    assert read == text
    assert codecs_on_disk(partition_folder(topic)) == {CODECS[codec]}


def test_producer_performance_topics_offsets_and_configs(broker: BrokerProcess, jvm: Tool) -> None:
    server = ("--bootstrap-server", broker.bootstrap)
    topics, perf = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ProducerPerformance"
    name = "made-by-kafka-topics"
    jvm(topics, *server, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=3600000")
    assert name in jvm(topics, *server, "--list").decode().split()
    described = jvm(topics, *server, "--describe", "--topic", name).decode()
    assert "PartitionCount: 3" in described
    assert "retention.ms=3600000" in described
    report = jvm(perf, "--topic", name, "--num-records", "20000", "--record-size", "200", "--throughput", "-1", *server).decode()
    assert "20000 records sent" in report
    offsets = jvm("org.apache.kafka.tools.GetOffsetShell", *server, "--topic", name, "--time", "latest").decode().split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets) == 20000
    earliest = jvm("org.apache.kafka.tools.GetOffsetShell", *server, "--topic", name, "--time", "earliest").decode().split()
    assert sorted(earliest) == [f"{name}:{partition}:0" for partition in range(3)]
    configs = jvm("kafka.admin.ConfigCommand", *server, "--describe", "--entity-type", "topics", "--entity-name", name, "--all").decode()
    assert "retention.ms=3600000" in configs
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=3600000" in configs
    brokers = jvm("kafka.admin.ConfigCommand", *server, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all").decode()
    assert "log.segment.bytes=1073741824" in brokers
    jvm(topics, *server, "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in jvm(topics, *server, "--describe", "--topic", name).decode()
    jvm(topics, *server, "--delete", "--topic", name)
    assert name not in jvm(topics, *server, "--list").decode().split()
