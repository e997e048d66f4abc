"""Log directories read without a broker: the same rows that the broker hands out, and nothing that it would not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker  # noqa: E402
from odradek.base.errors import ConfigError, OdradekError  # noqa: E402
from odradek.base.ids import TopicPartition  # noqa: E402
from odradek.client import Admin, NewTopic, Producer  # noqa: E402
from odradek.spark.batch import BatchReader  # noqa: E402
from odradek.spark.log_source import LogPartition, LogReader  # noqa: E402
from odradek.spark.options import log_options, read_options  # noqa: E402
from odradek.spark.ranges import DataLoss  # noqa: E402
from odradek.storage.checkpoints import read_offset_checkpoint, write_offset_checkpoint  # noqa: E402
from odradek.storage.disk import OsDisk  # noqa: E402

Rows = list[dict[str, Any]]


class Data:
    """A broker's directory after it has ended, and what it said while it ran."""

    def __init__(self, directory: Path, said: dict[str, Rows]) -> None:
        self.directory = directory
        self.said = said


def _rows(batches: Iterator[Any]) -> Rows:
    return [row for batch in batches for row in batch.to_pylist()]


def _fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        small = {"segment.bytes": str(1024 * 1024)}
        admin.create_topics(
            [NewTopic("plain", 3, 1, small), NewTopic("once", 1, 1, small), NewTopic("empty", 1, 1), NewTopic("cut", 1, 1, small)]
        )
    with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        for number in range(6):
            producer.send("plain", f"{number}", key=b"k", partition=number % 3, headers={"h": b"%d" % number})
        for number in range(3000):
            producer.send("plain", b"%d" % number + bytes(1000), partition=1)
        producer.flush()
    for run in range(7):
        with Producer(bootstrap_servers=bootstrap, transactional_id=f"id-{run % 2}", batch_size=2000) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for _ in range(500):
                producer.send("once", b"%d " % run + b"x" * 1000, partition=0)
            producer.flush()
            producer.abort_transaction() if run % 2 else producer.commit_transaction()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(3000):
            producer.send("cut", b"%d" % number + bytes(1000), partition=0)
        producer.flush()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition("cut", 0): 1500})


def _said(bootstrap: str, topic: str, **options: str) -> Rows:
    reader = BatchReader(read_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}, streaming=False))
    return [row for task in reader.partitions() for row in _rows(reader.read(task))]


@pytest.fixture(scope="module", params=[OdradekBroker, pytest.param(JvmBroker, marks=pytest.mark.jvm)], ids=lambda kind: kind.name)
def data(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Data:
    folder = tmp_path_factory.mktemp("broker")
    broker: BrokerProcess = request.param(folder, {"log.flush.offset.checkpoint.interval.ms": "100"})
    broker.start()
    _fill(broker.bootstrap)
    said = {
        "plain": _said(broker.bootstrap, "plain", includeHeaders="true"),
        "once": _said(broker.bootstrap, "once", **{"kafka.isolation.level": "read_committed"}),
        "all": _said(broker.bootstrap, "once"),
        "cut": _said(broker.bootstrap, "cut"),
    }
    broker.stop()
    (directory,) = {path.parent.parent for path in folder.rglob("plain-0/*.log")}
    return Data(directory, said)


def read(*directories: Path, **options: str) -> Rows:
    reader = LogReader(log_options({"path": ",".join(map(str, directories)), **options}))
    return [row for task in reader.partitions() for row in _rows(reader.read(task))]


def test_rows_are_those_that_the_broker_hands_out(data: Data) -> None:
    assert read(data.directory, subscribe="plain", includeHeaders="true") == data.said["plain"]
    assert len(data.said["plain"]) == 3006
    assert read(data.directory, subscribe="empty") == []


def test_aborted_records_are_left_out(data: Data) -> None:
    assert len(data.said["once"]) == 2000
    assert read(data.directory, subscribe="once") == data.said["once"]
    assert read(data.directory, subscribe="once", isolationLevel="read_uncommitted") == data.said["all"]


def test_aborted_records_are_left_out_by_tasks_that_begin_within(data: Data) -> None:
    assert read(data.directory, subscribe="once", maxRecordsPerPartition="70") == data.said["once"]


def test_aborted_records_are_left_out_without_snapshots_and_indexes_of_transactions(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    for file in [*copy.rglob("*.snapshot"), *copy.rglob("*.txnindex"), *copy.rglob("*.index"), *copy.rglob("*.timeindex")]:
        file.unlink()
    assert read(copy, subscribe="once") == data.said["once"]
    assert read(copy, subscribe="plain", includeHeaders="true") == data.said["plain"]


def test_deleted_records_stay_deleted(data: Data) -> None:
    rows = read(data.directory, subscribe="cut")
    assert rows == data.said["cut"]
    assert [rows[0]["offset"], rows[-1]["offset"], len(rows)] == [1500, 2999, 1500]


def test_a_part_is_read_by_offsets(data: Data) -> None:
    within = read(data.directory, assign='{"plain":[1]}', startingOffsets='{"plain":{"1":1700}}', endingOffsets='{"plain":{"1":1703}}')
    assert [row["offset"] for row in within] == [1700, 1701, 1702]


def test_all_topics_but_kafkas_own_are_read_when_none_is_named(data: Data) -> None:
    assert {row["topic"] for row in read(data.directory)} == {"plain", "once", "cut"}
    assert {row["topic"] for row in read(data.directory, subscribePattern="c.*|__.*", beyondHighWatermark="true")} > {"cut"}


def test_nothing_beyond_the_high_watermark_is_read_unless_that_is_wanted(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    checkpoint = str(copy / "replication-offset-checkpoint")
    offsets = read_offset_checkpoint(OsDisk(), checkpoint)
    lower = {partition: 1000 if partition.topic == "once" else offset for partition, offset in offsets.items() if partition.topic != "cut"}
    write_offset_checkpoint(OsDisk(), checkpoint, lower)
    # The second transaction, which was aborted, is open at offset 1000.
    assert [row["offset"] for row in read(copy, subscribe="once")] == list(range(500))
    assert len(read(copy, subscribe="once", isolationLevel="read_uncommitted")) == 999
    assert read(copy, subscribe="once", beyondHighWatermark="true") == data.said["once"]
    with pytest.raises(OdradekError, match=r"The high watermark of cut-0 is unknown: .*beyondHighWatermark"):
        read(copy, subscribe="cut")
    assert len(read(copy, subscribe="cut", beyondHighWatermark="true")) == 1500


def test_an_open_transaction_ends_what_can_be_read(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    for file in copy.glob("once-0/*"):
        file.unlink()
    # Without its last bytes the log ends before the last marker, which has committed a transaction.
    source = sorted(data.directory.glob("once-0/*.log"))
    for number, file in enumerate(source):
        contents = file.read_bytes()
        (copy / "once-0" / file.name).write_bytes(contents[:-40] if number == len(source) - 1 else contents)
    assert read(copy, subscribe="once", beyondHighWatermark="true") == data.said["once"][:-500]
    cut = read(copy, subscribe="once", beyondHighWatermark="true", isolationLevel="read_uncommitted")
    assert cut == data.said["all"]


def test_of_several_replicas_the_one_with_the_highest_watermark_is_read(data: Data, tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    shutil.copytree(data.directory, behind)
    checkpoint = str(behind / "replication-offset-checkpoint")
    offsets = read_offset_checkpoint(OsDisk(), checkpoint)
    write_offset_checkpoint(OsDisk(), checkpoint, dict.fromkeys(offsets, 1))
    for directories in ((behind, data.directory), (data.directory, behind)):
        assert read(*directories, subscribe="plain", includeHeaders="true") == data.said["plain"]
    assert len(read(behind, subscribe="plain")) == 3


def test_directories_that_are_no_logs_are_left_alone(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    unique = "0" * 32
    for name in (f"gone-0.{unique}-delete", f"plain-0.{unique}-future", f"old-0.{unique}-stray", "lost+found"):
        shutil.copytree(data.directory / "plain-0", copy / name)
    assert read(copy, subscribePattern="plain|gone|old", includeHeaders="true") == data.said["plain"]


def test_a_file_that_is_made_as_large_as_it_may_become_ends_where_its_records_do(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    for file in copy.glob("plain-*/*.log"):
        if file == max(file.parent.glob("*.log")):
            with file.open("ab") as end:
                end.write(bytes(100_000))
    assert read(copy, subscribe="plain", includeHeaders="true", beyondHighWatermark="true") == data.said["plain"]


def test_files_that_go_away_while_they_are_read_are_data_loss(data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(data.directory, copy)
    reader = LogReader(log_options({"path": str(copy), "assign": '{"plain":[1]}'}))
    (task,) = reader.partitions()
    assert isinstance(task, LogPartition)
    last = max(copy.glob("plain-1/*.log"))
    last.write_bytes(b"")
    with pytest.raises(DataLoss, match=r"plain-1: the files end at .*, before offset 3002"):
        list(reader.read(task))
    last.unlink()
    with pytest.raises(OdradekError, match="cannot be read: No such file"):
        list(reader.read(task))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "No log directory"),
        ({"path": " , "}, "No log directory"),
        ({"path": "/x", "kafka.bootstrap.servers": "h:1"}, "Unknown option kafka.bootstrap.servers"),
        ({"path": "/x", "subscribe": "a", "assign": '{"a":[0]}'}, "At most one of the options assign, subscribe"),
        ({"path": "/x", "isolationLevel": "some"}, "isolationLevel must be read_committed or read_uncommitted, not some"),
        ({"path": "/x", "startingOffsets": "soon"}, "startingOffsets must be earliest"),
    ],
)
def test_options_are_checked(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        log_options(options)


def test_what_is_not_there_is_said(data: Data, tmp_path: Path) -> None:
    with pytest.raises(OdradekError, match="has no logs: it must be a log directory"):
        read(tmp_path)
    with pytest.raises(OdradekError, match="cannot be read: No such file or directory"):
        read(tmp_path / "missing")
    with pytest.raises(OdradekError, match="The log directories do not contain the topic other"):
        read(data.directory, subscribe="plain,other")
    with pytest.raises(OdradekError, match="The log directories do not contain plain-7"):
        read(data.directory, assign='{"plain":[0,7]}')
