"""`odradek log-dirs` and `odradek delete-records` against an embedded broker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, NewTopic, Producer
from odradek.client.admin.types.replicas import LogDirDescription, ReplicaInfo
from odradek.client.admin.types.topics import OffsetSpec
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.cli.conftest import Command


@pytest.fixture
def cut(bootstrap: str) -> Iterator[Admin]:
    """`cut` with two partitions of five records."""
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics([NewTopic("cut", 2, 1)])
        for number in range(10):
            producer.send("cut", b"x" * 10, partition=number % 2).result(10)
        yield admin
        admin.delete_topics(["cut"])


def beginnings(admin: Admin) -> list[int]:
    partitions = [TopicPartition("cut", number) for number in range(2)]
    found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    return [found[each].offset for each in partitions]


def test_records_are_deleted_when_that_is_wanted(bootstrap: str, cut: Admin, command: Command) -> None:
    typed = ("delete-records", "cut:0:3", "cut:1:-1", "-b", bootstrap)
    table = "TOPIC  PARTITION  DELETED  LOW-WATERMARK\ncut            0        3              3\ncut            1        5              5\n"
    assert command(*typed) == (0, table, "odradek delete-records: nothing was changed; add --execute to make the changes\n")
    assert beginnings(cut) == [0, 0]
    assert command(*typed, "--execute") == (0, table, "")
    assert beginnings(cut) == [3, 5]
    below = command("delete-records", "cut:0:1", "--execute", "-J", "-b", bootstrap)
    assert json.loads(below.out) == [{"topic": "cut", "partition": 0, "deleted": 0, "low_watermark": 3}]


def test_a_file_is_taken_as_by_kafkas_script(bootstrap: str, cut: Admin, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "cut", "partition": 1, "offset": 2}], "version": 1}')
    for typed in (("-f", str(file)), ("--offset-json-file", str(file), "--dry-run")):
        assert "nothing was changed" in command("delete-records", *typed, "-b", bootstrap).err
        assert beginnings(cut) == [0, 0]
    assert command("kafka-delete-records.sh", "--bootstrap-server", bootstrap, "--offset-json-file", str(file)).status == 0
    assert beginnings(cut) == [0, 2]


def test_what_can_be_deleted_is(bootstrap: str, cut: Admin, command: Command) -> None:
    answer = command("delete-records", "cut:0:6", "cut:1:1", "cut:2:1", "nowhere:0:1", "--execute", "-b", bootstrap)
    assert (answer.status, answer.out.split()[-4:]) == (1, ["cut", "1", "1", "1"])
    assert [line.split(": ")[1] for line in answer.err.splitlines()] == ["cut-0", "cut-2", "nowhere-0"]
    assert "6 is higher than 5, the end offset of partition cut-0" in answer.err
    assert "cut has only 2 partitions" in answer.err
    assert beginnings(cut) == [0, 1]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "give either TOPIC:PARTITION:OFFSET or a file with -f"),
        ("a:0:1 -f x", "give either TOPIC:PARTITION:OFFSET or a file with -f"),
        ("a:0", "a:0: expected TOPIC:PARTITION:OFFSET"),
        ("a:0:-2", "a:0:-2: expected TOPIC:PARTITION:OFFSET"),
        ("a:0:1 a:0:2", "a-0 is given twice"),
        ("a:9999999999:1", "a:9999999999:1: the partition or the offset is too large"),
    ],
)
def test_offsets_that_are_none(typed: str, said: str, command: Command) -> None:
    assert command("delete-records", *typed.split()) == (2, "", f"odradek delete-records: {said}; see `odradek delete-records --help`\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "invalid JSON; "),
        ("{}", "topic, partition and offset are missing in partitions; "),
        ('{"version": 2, "partitions": []}', "version 2 is unknown; "),
        ('{"partitions": [{"topic": "a", "partition": true, "offset": 1}]}', "topic, partition and offset are missing in partitions; "),
        ('{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}', "partition 0 or offset -2 is out of range\n"),
        ('{"partitions": [{"topic":"a","partition":0,"offset":1},{"topic":"a","partition":0,"offset":2}]}', "a-0 is given twice\n"),
    ],
)
def test_files_that_are_none(text: str, said: str, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(text)
    answer = command("delete-records", "-f", str(file))
    assert (answer.status, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert answer.err.startswith(f"odradek delete-records: {file}: {said}")


def test_log_directories_and_their_replicas(bootstrap: str, cut: Admin, command: Command) -> None:
    broker = cut.describe_cluster().brokers[0].node_id
    answer = command("log-dirs", "describe", "--topic-list", "cut", "-J", "-b", bootstrap)
    (path,) = cut.describe_log_dirs([broker])[broker]
    rows = json.loads(answer.out)
    assert [(row["broker"], row["log_dir"], row["topic"], row["partition"]) for row in rows] == [
        (broker, path, "cut", 0),
        (broker, path, "cut", 1),
    ]
    assert all(row["size"] > 50 and row["offset_lag"] == 0 and row["is_future"] is False and row["error"] is None for row in rows)
    everything = json.loads(command("log-dirs", "describe", "--broker-list", str(broker), "-J", "-b", bootstrap).out)
    assert {"there", "cut"} <= {row["topic"] for row in everything}
    shown = command("kafka-log-dirs.sh", "--bootstrap-server", bootstrap, "--describe", "--topic-list", "cut").out.splitlines()
    assert shown[0].split() == ["BROKER", "LOG-DIR", "TOPIC", "PARTITION", "SIZE", "OFFSET-LAG", "IS-FUTURE", "ERROR"]
    assert len(shown) == 3


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ("--broker-list 77", 1, "broker 77 is not in the cluster, whose brokers are"),
        ("--broker-list x", 2, "Invalid value for '--broker-list': 'x' is not a broker id"),
        ("--topic-list nowhere", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_brokers_and_topics_that_are_not_there(typed: str, status: int, said: str, bootstrap: str, command: Command) -> None:
    answer = command("log-dirs", "describe", *typed.split(), "-b", bootstrap)
    assert (answer.status, answer.out, answer.err.count("\n")) == (status, "", 1)
    assert said in answer.err


def test_a_directory_and_a_broker_that_fail_make_the_status_1_and_the_others_are_shown(
    bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def directory(error: KafkaError | None) -> LogDirDescription:
        replicas = {} if error else {TopicPartition("t", 0): ReplicaInfo(5, 0, is_future=False)}
        return LogDirDescription(error, replicas, None, None, is_cordoned=False)

    failed = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    answers: list[tuple[dict[int, object], int, int]] = [
        ({1: {"/a": directory(None), "/b": directory(None)}}, 0, 0),
        ({1: {"/a": directory(failed), "/b": directory(None)}}, 1, 0),
        ({1: {"/a": directory(None)}, 2: KafkaError(ErrorCode.REQUEST_TIMED_OUT)}, 1, 1),
    ]
    for found, status, lines in answers:
        monkeypatch.setattr(Admin, "try_describe_log_dirs", lambda *_, found=found, **__: found)
        answer = command("log-dirs", "describe", "-J", "-b", bootstrap)
        assert (answer.status, answer.err.count("\n")) == (status, lines)
        shown = {(row["broker"], row["log_dir"], row["topic"], row["error"] is None) for row in json.loads(answer.out)}
        assert shown == {
            (broker, path, None if each.error else "t", not each.error)
            for broker, directories in found.items()
            if isinstance(directories, dict)
            for path, each in directories.items()
        }


@pytest.mark.parametrize("page", ["log-dirs", "delete-records"])
def test_the_pages_show_what_is_printed(page: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker({"num.partitions": "1"}) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", broker.bootstrap_servers)
        for _ in range(3):
            producer.send("orders", b"x").result(10)
        text = (Path(__file__).parents[2] / "docs" / "cli" / f"{page}.md").read_text()
        (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for part in block.split("$ odradek ")[1:]:
            line, _, shown = part.partition("\n")
            answer = command(*shlex.split(line))
            assert answer.out + answer.err == shown
