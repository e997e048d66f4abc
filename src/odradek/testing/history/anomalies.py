"""Anomalies that the checker finds, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.testing.history.operations import Operation

NAMES: Mapping[str, str] = {
    # names of Jepsen, in the order of its kafka workload
    "inconsistent-offsets": "several values stand at one offset",
    "duplicate": "a value stands at several offsets",
    "G1a": "a value was read although its write failed",
    "precommitted-read": "a transaction polled what it sent itself",
    "lost-write": "a committed value was read by nobody although later ones were",
    "unseen": "an acknowledged value was polled by nobody, not even by the final read",
    "poll-skip": "a process went on polling beyond values that it had not seen",
    "nonmonotonic-poll": "a process went on polling at or before what it had seen",
    "int-poll-skip": "the polls of one operation leave out values in between",
    "int-nonmonotonic-poll": "the polls of one operation go back",
    "nonmonotonic-send": "a later send of a process stands before an earlier one",
    "int-nonmonotonic-send": "a later send of an operation stands before an earlier one",
    "G0": "write cycle: transactions' writes follow each other in a circle (allowed in Kafka)",
    "G1c": "read cycle: transactions depend on each other's writes in a circle",
    "G1c-process": "read cycle by way of what a process did one after the other",
    "G1c-realtime": "read cycle by way of what was over before something else began",
    # names of our own, for data
    "phantom": "a value was read that nobody sent",
    "vanished": "a value that had been acknowledged or read is missing in the final read",
    "acked-offset-regression": "a send was acknowledged at an offset not above one acknowledged before the send began",
    "watermark-regression": "a high watermark, last stable offset or log start went back",
    "watermark-order": "log start, last stable offset and high watermark of one sample are not in this order",
    "unavailable": "writes waited longer than allowed while a majority was up",
    # names of our own, from input to output
    "not-copied": "an input value has no committed output",
    "copied-twice": "an input value has several committed outputs",
    "copied-from-nothing": "a committed output has no input",
    "copy-order": "outputs of one input partition stand in another order than their inputs",
    # names of our own, for groups
    "commit-regression": "a group's committed position went back",
    "lost-commit": "a group's committed position, read later, is before an acknowledged commit",
    "fenced-commit-accepted": "a commit was accepted of a member whose partition a newer generation had given to another one",
    "two-owners": "two members owned a partition at the same time",
    "two-owners-in-generation": "two members were given a partition in the same generation",
    "generation-regression": "a member was given a partition in an older generation than it, or the partition, had had before",
    "static-rebalance": "the restart of a static member changed the group's generation or assignment",
    "unexplained-fencing": "a member lost its partitions although nobody had killed or paused it",
    # names of our own, for logs
    "damaged-batch": "a batch has the wrong checksum",
    "offset-order": "batches overlap or go back",
    "epoch-regression": "a leader epoch is smaller than one before it",
    "sequence-gap": "the sequences of a producer's epoch are not contiguous, or its epoch goes back",
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
            raise ValueError(f"no anomaly has the name {', '.join(sorted(unknown))}")
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
