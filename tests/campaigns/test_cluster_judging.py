"""Tests that the checks of the campaigns on clusters report violations, and nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.consensus.messages import LeaderChange
from odradek.controller.kraft.records import encode_control_batch
from odradek.records.batch import encode_batch
from odradek.storage.checkpoints import write_offset_checkpoint
from odradek.storage.disk import OsDisk
from odradek.storage.names import REPLICATION_OFFSET_CHECKPOINT
from odradek.testing.history import Recorder
from tests.campaigns.cluster_judging import METADATA, ends_read, judge_history, judge_logs, judge_refusals, note_elections
from tests.campaigns.cluster_nodes import QUORUM, Leaders

PARTITION = "load-0"


def record(value: bytes, offset: int, epoch: int = 1) -> bytes:
    return encode_batch([(0, None, value, ())], base_offset=offset, partition_leader_epoch=epoch)


def elected(leader: int, epoch: int, offset: int = 0) -> bytes:
    return encode_control_batch([LeaderChange(0, leader, (), ())], base_offset=offset, epoch=epoch, now_ms=0)


def node(folder: Path, log: bytes, *, high_watermark: int, metadata: bytes = b"") -> Path:
    """Make a stopped node's directory with one partition."""
    for name, data in ((PARTITION, log), (METADATA, metadata or elected(1, 1))):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{0:020d}.log").write_bytes(data)
    write_offset_checkpoint(OsDisk(), str(folder / REPLICATION_OFFSET_CHECKPOINT), {TopicPartition("load", 0): high_watermark})
    return folder


def test_replicas_that_are_equal_below_the_smallest_high_watermark_are_right(tmp_path: Path) -> None:
    nodes = {
        1: node(tmp_path / "1", record(b"a", 0) + record(b"b", 1), high_watermark=2),
        2: node(tmp_path / "2", record(b"a", 0) + record(b"c", 1), high_watermark=1),
    }
    problems, compared = judge_logs(nodes, {PARTITION: 1}, 1)
    assert problems == []
    assert compared == len(record(b"a", 0)) + len(elected(1, 1))


@pytest.mark.parametrize(
    ("log", "high_watermark", "metadata", "complaint"),
    [
        (record(b"c", 0), 1, b"", "replicas-differ: load-0"),
        (b"", 1, b"", "replicas-differ: load-0"),
        (record(b"a", 0), 1, elected(2, 1), "replicas-differ: __cluster_metadata-0"),
        (b"", 0, b"", "replicas-differ: load-0"),
        (record(b"a", 0)[:-1] + b"!", 1, b"", "logs: node 2: damaged-batch"),
        (record(b"a", 0) + record(b"b", 1, epoch=0), 1, b"", "logs: node 2: epoch-regression"),
    ],
)
def test_a_replica_that_is_not_as_the_others_is_named(
    tmp_path: Path, log: bytes, high_watermark: int, metadata: bytes, complaint: str
) -> None:
    nodes = {
        1: node(tmp_path / "1", record(b"a", 0), high_watermark=1),
        2: node(tmp_path / "2", log, high_watermark=high_watermark, metadata=metadata),
    }
    problems, _ = judge_logs(nodes, {PARTITION: 1}, 1)
    assert [each for each in problems if each.startswith(complaint)], problems


def test_logs_in_which_nothing_is_to_be_compared_prove_nothing(tmp_path: Path) -> None:
    nodes = {number: node(tmp_path / str(number), record(b"a", 0), high_watermark=0) for number in (1, 2)}
    assert judge_logs(nodes, {}, 0)[0] == ["logs: there is nothing to compare"]
    assert judge_logs(nodes, {"load-1": 1}, 0)[0] == ["logs: not all nodes have load-1", "logs: there is nothing to compare"]


def test_two_leaders_in_one_epoch_are_named_by_what_was_said_and_by_what_stands_in_the_logs(tmp_path: Path) -> None:
    leaders = Leaders()
    leaders.note(PARTITION, 3, 1)
    leaders.note(PARTITION, 3, -1)
    leaders.note(PARTITION, 4, 2)
    nodes = {1: node(tmp_path / "1", b"", high_watermark=0, metadata=elected(1, 7) + elected(2, 8, 1))}
    note_elections(nodes, leaders)
    assert leaders.problems() == []
    assert leaders.epochs(QUORUM) == 2
    leaders.note(PARTITION, 4, 3)
    leaders.note(QUORUM, 8, 3)
    assert leaders.problems() == [f"one-leader: {PARTITION} has [2, 3] in epoch 4", f"one-leader: {QUORUM} has [2, 3] in epoch 8"]


def test_what_was_acknowledged_and_is_not_there_is_named_and_so_is_a_history_in_which_nothing_happened(tmp_path: Path) -> None:
    with Recorder(tmp_path / "p0.jsonl", "p0") as producer:
        for number in (0, 1):
            producer.invoke("send", [["send", "load", 0, None, f"p0:{number}"]])
            producer.ok("send", [["send", "load", 0, number, f"p0:{number}"]])
    files = [tmp_path / "p0.jsonl"]
    assert "history: not one poll ok" in judge_history(files)[0]
    with Recorder(tmp_path / "final.jsonl", "final") as final:
        final.ok("assign", [["assigned", None, "load", 0, None]], final=True, watermarks=[["load", 0, 0, 2, None]])
        final.ok("poll", [["poll", "load", 0, 0, "p0:0"]], final=True)
    problems, report = judge_history([*files, tmp_path / "final.jsonl"])
    assert [each for each in problems if each.startswith("history: unseen: load-0")], problems
    assert report.operations == {"assign ok": 1, "poll ok": 1, "send ok": 2}
    assert ends_read(tmp_path / "final.jsonl") == {PARTITION: 2}


def test_a_refused_record_is_a_problem() -> None:
    assert judge_refusals([]) == []
    assert judge_refusals(["p0: p0:7: timed out"]) == ["refused: 1 records, first ['p0: p0:7: timed out']"]
