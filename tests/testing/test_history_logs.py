"""Logs read back, and the final read, against a real broker's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic, Producer
from odradek.records.batch import BatchHeader
from odradek.testing.history import Recorder, Send, check, read_history
from odradek.testing.history.__main__ import main
from odradek.testing.history.final_read import decode_value, final_read
from odradek.testing.history.logs import LoggedBatch, check_log, check_replicas, read_batches
from odradek.testing.kit.embedded import EmbeddedBroker


def _batch(offset: int, count: int = 1, *, epoch: int = 0, producer: int = 7, producer_epoch: int = 0, sequence: int = 0) -> LoggedBatch:
    control = 0x30 if sequence < 0 else 0
    header = BatchHeader(offset, 100, epoch, 2, 0, control, count - 1, 0, 0, producer, producer_epoch, sequence, count)
    return LoggedBatch(header, b"", True)


GOOD = [
    _batch(0, 2, sequence=5),
    _batch(2, 3, sequence=7),
    _batch(5, epoch=1, sequence=-1),
    _batch(9, epoch=1, sequence=10),
    _batch(10, epoch=2, producer_epoch=1, sequence=-1),
    _batch(11, epoch=2, producer_epoch=1, sequence=0),
    _batch(12, epoch=2, producer=8, sequence=0x7FFFFFFF),
    _batch(13, epoch=2, producer=8, sequence=0),
]


def test_a_log_in_good_order_has_no_anomalies() -> None:
    assert check_log("t-0", GOOD) == []


@pytest.mark.parametrize(
    ("index", "changed", "name"),
    [
        (1, GOOD[1]._replace(intact=False), "damaged-batch"),
        (1, _batch(1, 4, sequence=7), "offset-order"),
        (3, _batch(9, epoch=0, sequence=10), "epoch-regression"),
        (1, _batch(2, 3, sequence=8), "sequence-gap"),
        (1, _batch(2, 3, sequence=6), "sequence-gap"),
        (5, _batch(11, epoch=2, producer_epoch=1, sequence=11), "sequence-gap"),
        (5, _batch(11, epoch=2, producer_epoch=0, sequence=11), "sequence-gap"),
        (7, _batch(13, epoch=2, producer=8, sequence=1), "sequence-gap"),
    ],
)
def test_what_is_wrong_in_a_log_is_named(index: int, changed: LoggedBatch, name: str) -> None:
    assert name in {anomaly.name for anomaly in check_log("t-0", [*GOOD[:index], changed, *GOOD[index + 1 :]])}


def test_a_compacted_log_may_have_gaps_but_not_go_back() -> None:
    assert check_log("t-0", [_batch(0), _batch(5, sequence=3)], compacted=True) == []
    assert [each.name for each in check_log("t-0", [_batch(0, sequence=3), _batch(5, sequence=2)], compacted=True)] == ["sequence-gap"]


def test_a_real_log_and_its_copies_and_the_final_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker(directory=str(tmp_path / "data")) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 2, 1)])
        with Producer(bootstrap_servers=servers) as producer, Recorder(tmp_path / "p", "p") as recorder:
            for number in range(40):
                plan = Send("t", number % 2, None, number if number % 3 else f"v{number}")
                recorder.invoke("send", [plan])
                offset = producer.send("t", str(plan.value).encode(), partition=plan.partition).result(30).offset
                recorder.ok("send", [plan._replace(offset=offset)])
        with Recorder(tmp_path / "final", "final") as recorder:
            assert final_read(servers, ["t"], recorder) == 40
    files = [tmp_path / "p", tmp_path / "final"]
    assert check(read_history(files), read_committed=True) == []
    assert main(["check", "--read-committed", *map(str, files)]) == 0
    assert "no anomalies" in capsys.readouterr().out

    short = [event for event in read_history(files) if event.process != "final" or event.function == "assign"]
    assert {anomaly.name for anomaly in check(short, read_committed=True)} == {"unseen"}

    log, copy = tmp_path / "data" / "t-0", tmp_path / "copy"
    assert check_log("t-0", read_batches(log)) == []
    assert len(list(read_batches(log))) == 20
    shutil.copytree(log, copy)
    assert check_replicas("t-0", {"one": log, "two": copy}, 20) == []
    segment = next(copy.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert [each.name for each in check_log("t-0", read_batches(copy))] == ["damaged-batch"]
    assert [each.name for each in check_replicas("t-0", {"one": log, "two": copy}, 20)] == ["replicas-differ"]
    assert check_replicas("t-0", {"one": log, "two": copy}, 19) == []
    segment.write_bytes(data[: len(data) // 2])
    assert [each.name for each in check_replicas("t-0", {"one": log, "two": copy}, 20)] == ["replicas-differ"]


@pytest.mark.parametrize(("data", "value"), [(b"17", 17), (b"017", "017"), (b"v1", "v1"), (b"", ""), ("٣".encode(), "٣")])
def test_values_are_told_apart(data: bytes, value: int | str) -> None:
    assert decode_value(data) == value
