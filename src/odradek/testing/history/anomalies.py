"""Anomalies that the checker finds, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.testing.history.operations import Operation

NAMES: Mapping[str, str] = {
    # names of Jepsen, in the order of its kafka workload
    "inconsistent-offsets": "several values have the same offset",
    "duplicate": "a value has several offsets",
    "G1a": "a value was read although its write failed",
    "precommitted-read": "a transaction polled a value that it sent itself",
    "lost-write": "a committed value was not read although later ones were",
    "unseen": "an acknowledged value was never polled, not even by the final read",
    "poll-skip": "a process continued to poll beyond values that it had not seen",
    "nonmonotonic-poll": "a process polled values at or before an offset that it had already seen",
    "int-poll-skip": "the polls of one operation skip values",
    "int-nonmonotonic-poll": "the polls of one operation go back",
    "nonmonotonic-send": "a later send of a process has a smaller offset than an earlier one",
    "int-nonmonotonic-send": "a later send of an operation has a smaller offset than an earlier one",
    "G0": "write cycle: transactions' writes follow each other in a circle (allowed in Kafka)",
    "G1c": "read cycle: transactions depend on each other's writes in a circle",
    "G1c-process": "read cycle through the order of operations in a process",
    "G1c-realtime": "read cycle through operations that ended before others began",
    # names of our own, for data
    "phantom": "a value was read that was never sent",
    "vanished": "a value that was acknowledged or read is missing in the final read",
    "acked-offset-regression": "a send was acknowledged at an offset not above one acknowledged before the send began",
    "watermark-regression": "a high watermark, last stable offset or log start went back",
    "watermark-order": "log start, last stable offset and high watermark of one sample are in the wrong order",
    "unavailable": "writes waited longer than allowed while a majority was up",
    # names of our own, from input to output
    "not-copied": "an input value has no committed output",
    "copied-twice": "an input value has several committed outputs",
    "copied-from-nothing": "a committed output has no input",
    "copy-order": "outputs of one input partition are in a different order than their inputs",
    # names of our own, for groups
    "commit-regression": "a group's committed position went back",
    "lost-commit": "a group's committed position, read later, is smaller than an acknowledged commit",
    "fenced-commit-accepted": "the commit of a member was accepted after a newer generation had assigned its partition to another member",
    "two-owners": "two members owned a partition at the same time",
    "two-owners-in-generation": "two members were assigned a partition in the same generation",
    "generation-regression": "a member was assigned a partition in a generation older than an earlier one of the member or partition",
    "static-rebalance": "the restart of a static member changed the group's generation or assignment",
    "unexplained-fencing": "a member lost its partitions although it was neither killed nor paused",
    # names of our own, for logs
    "damaged-batch": "a batch has the wrong checksum",
    "offset-order": "batches overlap or go back",
    "epoch-regression": "a leader epoch is smaller than an earlier one",
    "sequence-gap": "the sequences of a producer's epoch have gaps, or its epoch goes back",
    "replicas-differ": "replicas differ below the smallest high watermark",
}
"""Name of each anomaly -> its meaning."""

ALLOWED: frozenset[str] = frozenset(("G0",))
"""Anomalies that Kafka permits: the writes of concurrent transactions interleave."""


class Anomaly(NamedTuple):
    """Violation of a promise, with the operations that show the violation."""

    name: str
    text: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n  ".join((f"{self.name}: {self.text}", *(each.text() for each in self.operations)))


class Findings:
    """Collection of anomalies. Counts all, keeps the first `limit` of each name, and ignores the names in `allow`."""

    def __init__(self, *, allow: Iterable[str] = ALLOWED, limit: int = 100) -> None:
        """Make a collection. Raises ValueError when `allow` contains an unknown name."""
        self.allow = frozenset(allow)
        unknown = self.allow - NAMES.keys()
        if unknown:
            raise ValueError(f"unknown anomaly {', '.join(sorted(unknown))}")
        self.counts: Counter[str] = Counter()
        self.anomalies: list[Anomaly] = []
        self._limit = limit

    def add(self, name: str, text: str, *operations: Operation) -> None:
        """Add an anomaly, unless its name is allowed."""
        if name in self.allow:
            return
        self.counts[name] += 1
        if self.counts[name] <= self._limit:
            self.anomalies.append(Anomaly(name, text, operations))
