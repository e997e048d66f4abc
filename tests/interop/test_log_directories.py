"""JVM Kafka's tools and clients see the log directories and move replicas between them; a JVM broker boots on what a move left."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import JvmBroker, OdradekBroker
from interop.tools import JvmTools

TWO = {"log.dirs": "{data},{data}-2"}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[OdradekBroker]:
    broker = OdradekBroker(tmp_path / "node", TWO)
    broker.start()
    yield broker
    broker.kill()


def fill(broker: OdradekBroker, topic: str, count: int, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    write(broker.bootstrap, topic, 0, count, partitions)


def write(bootstrap: str, topic: str, first: int, count: int, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        for partition in range(partitions):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def read(tools: JvmTools, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes]:
    done = tools.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", str(partition)),
        *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "20000"),
    )
    return done.stdout.splitlines()


def move(tools: JvmTools, broker: OdradekBroker, topic: str, partition: int, path: Path | str) -> str:
    done = tools.run("MoveReplica", broker.bootstrap, topic, str(partition), "1", str(path))
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def described(tools: JvmTools, broker: OdradekBroker) -> dict[str, dict[str, int]]:
    """Directory -> partition -> offset lag, as kafka-log-dirs.sh sees it."""
    done = tools.run("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.bootstrap, "--describe")
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    answer = json.loads(done.stdout.decode().splitlines()[-1])
    (node,) = answer["brokers"]
    assert all(directory["error"] is None for directory in node["logDirs"])
    return {
        directory["logDir"]: {partition["partition"]: partition["offsetLag"] for partition in directory["partitions"]}
        for directory in node["logDirs"]
    }


def test_python_clients_see_where_replicas_lie(two: OdradekBroker) -> None:
    fill(two, "seen", 50, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=two.bootstrap)
    found = str(admin.describe_log_dirs())
    admin.close()
    assert str(two.data) in found
    assert f"{two.data}-2" in found
    assert "seen" in found


@pytest.mark.jvm
def test_the_tools_of_kafka_describe_and_move(two: OdradekBroker, jvm_tools: JvmTools) -> None:
    fill(two, "tooled", 500)
    second = f"{two.data}-2"
    for partition in (0, 1):
        assert move(jvm_tools, two, "tooled", partition, second).startswith(f"moved to {second}")
    before = described(jvm_tools, two)
    assert before[second] == {"tooled-0": 0, "tooled-1": 0}
    assert move(jvm_tools, two, "tooled", 0, two.data).startswith(f"moved to {two.data}")
    after = described(jvm_tools, two)
    assert after[str(two.data)] == {"tooled-0": 0}
    assert after[second] == {"tooled-1": 0}
    assert read(jvm_tools, two.bootstrap, "tooled", 0, 500) == [b"%d" % number for number in range(500)]


@pytest.mark.jvm
def test_a_jvm_broker_boots_on_what_moves_left(tmp_path: Path, jvm_tools: JvmTools) -> None:
    """Odradek moves, JVM Kafka takes over both directories, serves everything, writes more, and Odradek goes on."""
    ours = OdradekBroker(tmp_path / "node", TWO)
    ours.start()
    try:
        fill(ours, "shared", 300)
        second = f"{ours.data}-2"
        move(jvm_tools, ours, "shared", 0, second)
        move(jvm_tools, ours, "shared", 1, second)
        move(jvm_tools, ours, "shared", 1, ours.data)
        write(ours.bootstrap, "shared", 300, 100)
        assert ours.stop() == 0
        theirs = JvmBroker(tmp_path / "node", TWO, port=ours.port)
        theirs.controller_port = ours.controller_port
        theirs.start()
        try:
            for partition in (0, 1):
                assert read(jvm_tools, theirs.bootstrap, "shared", partition, 400) == [b"%d" % number for number in range(400)]
            write(theirs.bootstrap, "shared", 400, 50)
            theirs.stop()
        finally:
            theirs.kill()
        ours.start()
        for partition in (0, 1):
            assert read(jvm_tools, ours.bootstrap, "shared", partition, 450) == [b"%d" % number for number in range(450)]
        assert Path(second, "shared-0").is_dir()
        assert (ours.data / "shared-1").is_dir()
    finally:
        ours.kill()
