"""Commands beside Kafka's own tools, at both brokers: the same facts, whichever of the two tells them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess
from odradek.client import Admin
from tests.interop.pair import Pair

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def odradek(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": broker.bootstrap}
    command = [sys.executable, "-m", "odradek.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.fixture(params=["odradek", "jvm"])
def broker(request: pytest.FixtureRequest, pair: Pair) -> BrokerProcess:
    return pair.brokers[request.param == "jvm"]


def filled(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(120)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce(topic, b"x" * 100, partition=number % 2)
    assert producer.flush(120) == 0


def test_log_dirs(pair: Pair, broker: BrokerProcess) -> None:
    filled(broker, "b-dirs")
    arguments = ["--describe", "--topic-list", "b-dirs"]
    done = pair.tools.run("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.bootstrap, *arguments)
    (line,) = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
    theirs = {
        (each["broker"], directory["logDir"], part["partition"], part["size"], part["offsetLag"], part["isFuture"])
        for each in json.loads(line)["brokers"]
        for directory in each["logDirs"]
        for part in directory["partitions"]
    }
    rows = json.loads(odradek(broker, "kafka-log-dirs.sh", *arguments, "-J").stdout)
    mine = {
        (row["broker"], row["log_dir"], f"{row['topic']}-{row['partition']}", row["size"], row["offset_lag"], row["is_future"])
        for row in rows
    }
    assert len(mine) == 2
    assert mine == theirs


def test_delete_records(pair: Pair, broker: BrokerProcess, tmp_path: Path) -> None:
    filled(broker, "b-cut")
    file = tmp_path / "offsets.json"
    arguments = ["--offset-json-file", str(file)]

    def lows(tool: str, partition: int, offset: int) -> list[int]:
        file.write_text(json.dumps({"partitions": [{"topic": "b-cut", "partition": partition, "offset": offset}], "version": 1}))
        if tool == "odradek":
            done = odradek(broker, "kafka-delete-records.sh", *arguments, "-J")
            assert done.returncode == 0, done.stderr
            return [row["low_watermark"] for row in json.loads(done.stdout)]
        said = pair.tools.run(
            "org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", broker.bootstrap, *arguments
        ).stdout.decode()
        return [int(line.rpartition(": ")[2]) for line in said.splitlines() if "low_watermark: " in line]

    assert lows("odradek", 0, 4) == [4]
    assert lows("jvm", 0, 3) == lows("odradek", 0, 3) == [4]
    assert lows("jvm", 1, 7) == [7]
    assert lows("odradek", 1, -1) == [10]
    assert lows("jvm", 1, -1) == [10]
    assert odradek(broker, "delete-records", "b-cut:0:11", "--execute").returncode == 1


def test_controllers_describe_the_cluster(broker: BrokerProcess) -> None:
    controller = f"127.0.0.1:{broker.controller_port}"
    with Admin(bootstrap_controllers=controller) as admin:
        cluster = admin.describe_cluster()
    assert [(each.node_id, each.host, each.port) for each in cluster.brokers] == [(1, "127.0.0.1", broker.controller_port)]
    assert cluster.controller_id == 1
