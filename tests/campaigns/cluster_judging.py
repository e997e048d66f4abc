"""Checks after a campaign against a cluster: clients' histories, logs of the nodes, leaders of each epoch, and the nodes' log output.

Each function returns one line per problem. A line begins with the name of the check:
  refused          a producer got an error for a record before its delivery timeout;
  history          an anomaly of the history checker (docs/history-checker.md): lost, duplicated, out of order, going back, ...;
  logs             a damaged log, or a log with offsets, epochs or sequences that decrease or have gaps;
  replicas-differ  two replicas have different bytes below the smallest high watermark;
  one-leader       the quorum or a partition had two leaders in one epoch;
  no-complaints    a node wrote an error or a traceback to its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from odradek.base.ids import TopicPartition
from odradek.controller.kraft.records import LEADER_CHANGE, control_values
from odradek.protocol.messages.raft_records import LeaderChangeMessage
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.storage.disk import OsDisk
from odradek.storage.names import REPLICATION_OFFSET_CHECKPOINT
from odradek.testing.history import Report, examine, iterate_history
from odradek.testing.history.logs import LoggedBatch, check_log, compare_logs, read_batches
from tests.campaigns.cluster_nodes import QUORUM, Leaders

METADATA = "__cluster_metadata-0"
SHOWN = 5


def judge_history(files: Iterable[Path], *, written: bool = True) -> tuple[list[str], Report]:
    """Return the checker's anomalies as problems, and the report. Too few operations are a problem, too.

    `written`: whether the files include the producers' histories.
    """
    report = examine(iterate_history(files))
    problems = [f"history: {anomaly}" for anomaly in report.anomalies[:SHOWN]]
    if len(report.anomalies) > SHOWN:
        problems.append(f"history: {dict(report.counts)} in all")
    for operation in ("send ok", "poll ok") if written else ("poll ok",):
        if not report.operations.get(operation):
            problems.append(f"history: not one {operation}")
    return problems, report


def high_watermarks(nodes: Mapping[int, Path]) -> dict[str, int]:
    """Return the smallest high watermark of each partition that all nodes have, from the checkpoints of stopped nodes."""
    read = [read_offset_checkpoint(OsDisk(), str(data / REPLICATION_OFFSET_CHECKPOINT)) for data in nodes.values()]
    return {
        f"{topic}-{number}": min(each[TopicPartition(topic, number)] for each in read)
        for topic, number in set.intersection(*map(set, read))
    }


def ends_read(final: Path) -> dict[str, int]:
    """Return partition -> end offset, as recorded by the final read in the file."""
    marks = [mark for event in iterate_history([final]) for mark in cast("list[list[int]]", event.extra.get("watermarks", []))]
    return {f"{topic}-{partition}": end for topic, partition, _, end, _ in marks}


def judge_logs(nodes: Mapping[int, Path], read: Mapping[str, int], metadata_end: int) -> tuple[list[str], int]:
    """Read the logs of stopped nodes. Return the problems, and the number of bytes of one replica that were compared.

    `read`: partition -> offset up to which clients have read while all replicas were in sync. Up to that offset the replicas are equal,
    even when a follower does not know yet that the records are committed. `metadata_end`: the high watermark of the metadata log.
    """
    problems: list[str] = []
    ends = {name: max(end, read.get(name, 0)) for name, end in high_watermarks(nodes).items()}
    problems += [f"logs: not all nodes have {name}" for name in read if name not in ends]
    compared = 0
    for name, end in [*ends.items(), (METADATA, metadata_end)]:
        internal = name.startswith("__") and name != METADATA
        replicas = {f"node {node}": list(read_batches(data / name)) for node, data in nodes.items()}
        for node, batches in replicas.items():
            problems += [f"logs: {node}: {anomaly}" for anomaly in check_log(name, batches, compacted=internal)[:SHOWN]]
        if internal:
            continue  # each node compacts these logs independently
        problems += [str(anomaly) for anomaly in compare_logs(name, replicas, end)]
        compared += sum(len(batch.data) for batch in next(iter(replicas.values())) if batch.header.base_offset < end)
    if not compared:
        problems.append("logs: there is nothing to compare")
    return problems, compared


def note_elections(nodes: Mapping[int, Path], leaders: Leaders) -> None:
    """Add the leader changes of the metadata logs to `leaders`."""
    for data in nodes.values():
        for batch in read_batches(data / METADATA):
            note_election(batch, leaders)


def note_election(batch: LoggedBatch, leaders: Leaders) -> None:
    for _, kind, value in control_values(batch.data):
        if kind == LEADER_CHANGE:
            leaders.note(QUORUM, batch.header.partition_leader_epoch, LeaderChangeMessage.decode(value, 0).leader_id)


def judge_refusals(refused: Sequence[str]) -> list[str]:
    return [f"refused: {len(refused)} records, first {list(refused[:SHOWN])}"] if refused else []
