"""Observer of a running exactly-once campaign: end offsets, stable offsets, committed offsets, and the records that a read_committed reader
sees.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from interop.differential.peer import Peer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.testing.history import Recorder
from tests.campaigns.copiers import CLIENT

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST = -1
LONGEST_GAP_S = 1.0
"""Maximum seconds between two samples that count. After a longer time the broker was away."""
Rows = list[tuple[int, str]]
"""(offset, value) in the order in which they were read."""


class NoAnswer(Exception):
    """No usable response: the broker is away, or cannot answer at the moment."""


class Brokers:
    """A connection to each broker on loopback, for requests that only one broker can answer."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._peers = [Peer(f"watch {port}", port) for port in ports]

    def ask(self, key: ApiKey, version: int, request: Any) -> list[Any]:
        """Return the responses of all brokers that respond. Raises NoAnswer when no broker does."""
        answers: list[Any] = []
        for peer in self._peers:
            with contextlib.suppress(OSError):
                answers.append(peer.call(key, version, request))
        found = [each for each in answers if hasattr(each, "encode")]
        if not found:
            raise NoAnswer(str(answers))
        return found

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


class Watch(threading.Thread):
    """Thread that samples end offsets, stable offsets and committed offsets with its own requests. Brokers may be away."""

    def __init__(self, ports: Sequence[int], topics: list[str], group: str, partitions: int, history: Path) -> None:
        super().__init__(name="watch", daemon=True)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.output, self.input = topics
        self.group = group
        self.partitions = range(partitions)
        self.brokers = Brokers(ports)
        self.stopping = threading.Event()
        self.problems: list[str] = []
        self.commits: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.stable: dict[int, int] = {}
        self.longest = (0.0, -1, -1)
        """(seconds, partition, offset) of the longest time that a stable offset stayed below the end offset while the broker was
        running.
        """
        self.samples = 0
        self.checked: dict[str, int] = {}
        """Operations in the history, known after the check."""
        self.recorder = Recorder(history / "watch.jsonl", "watch")
        self._stood: dict[int, tuple[int, float]] = {}
        """Partition -> (stable offset, seconds without a change)."""
        self._sampled = time.monotonic()
        self.reader = Reader(self.bootstrap, self.output, self.partitions, history)

    def start(self) -> None:
        super().start()
        self.reader.start()

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            with contextlib.suppress(NoAnswer):
                self.sample()
        self.brokers.close()
        self.recorder.close()

    @property
    def copied(self) -> int:
        """Number of input records that the group has copied."""
        return sum(max(offset, 0) for offset in self.commits.values())

    def abandon(self) -> None:
        """End the threads, whatever their state."""
        self.stopping.set()
        self.reader.stopping.set()
        for thread in (self, self.reader):
            if thread.is_alive():
                thread.join(30)
        self.brokers.close()

    def sample(self) -> None:
        """Take one sample. Ask for stable offsets first: they may not exceed end offsets that are requested later."""
        self.recorder.invoke("poll")
        stable, ends = self._latest(READ_COMMITTED), self._latest(READ_UNCOMMITTED)
        now = time.monotonic()
        for partition, offset in stable.items():
            self.grows("last stable offset", self.stable, partition, offset)
            if offset > ends[partition]:
                self.problems.append(f"goes-back: partition {partition}: stable to {offset}, but the high watermark is {ends[partition]}")
            self.stands(partition, offset, ends[partition], min(now - self._sampled, LONGEST_GAP_S))
        self._sampled = now
        for partition, offset in ends.items():
            self.grows("high watermark", self.ends, partition, offset)
        self.samples += 1
        for partition, offset in self._committed(require_stable=False).items():
            self.grows("committed offset", self.commits, partition, offset)
        # A commit is acknowledged before its markers are written; only requests for stable offsets wait for the markers.
        stable_commits = self._committed(require_stable=True)
        self.recorder.ok(
            "poll",
            watermarks=[[self.output, each, None, ends[each], stable[each]] for each in self.partitions],
            committed=[[self.group, self.input, partition, offset] for partition, offset in stable_commits.items() if offset >= 0],
        )

    def _latest(self, isolation_level: int) -> dict[int, int]:
        asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in self.partitions]
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=self.output, partitions=asked)]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        answers = self.brokers.ask(ApiKey.LIST_OFFSETS, 7, request)
        told = [each for answer in answers for topic in answer.topics for each in topic.partitions]
        found = {each.partition_index: each.offset for each in told if not each.error_code}
        if len(found) < len(self.partitions):
            raise NoAnswer(str(answers))
        return found

    def _committed(self, *, require_stable: bool) -> dict[int, int]:
        """Return committed offsets, -1 for none. `require_stable` leaves out partitions with offsets in an open transaction."""
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=self.input, partition_indexes=list(self.partitions))]
        asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group, topics=topics)]
        for answer in self.brokers.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=asked, require_stable=require_stable)):
            (group,) = answer.groups
            if not group.error_code:
                return {each.partition_index: each.committed_offset for each in group.topics[0].partitions if not each.error_code}
        raise NoAnswer("nobody coordinates the group")

    def grows(self, what: str, known: dict[int, int], partition: int, offset: int) -> None:
        if offset < known.get(partition, -1):
            self.problems.append(f"goes-back: partition {partition}: the {what} went from {known[partition]} to {offset}")
        known[partition] = offset

    def stands(self, partition: int, offset: int, end: int, seconds: float) -> None:
        """Add the seconds since the last sample, if the stable offset has not moved and is below the end offset."""
        if offset >= end:
            self._stood.pop(partition, None)
            return
        stood, before = self._stood.get(partition, (-1, 0.0))
        total = before + seconds if stood == offset else 0.0
        self._stood[partition] = (offset, total)
        self.longest = max(self.longest, (total, partition, offset))

    def finish(self, patience: float) -> None:
        """Wait until no transaction is open and the reader has seen everything, for at most `patience` seconds. Then end the threads."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if self.stable == self.ends and self.reader.positions() == self.stable:
                break
            time.sleep(0.1)
        self.stopping.set()
        self.reader.stopping.set()
        self.join()
        self.reader.join()
        if self.stable != self.ends:
            self.problems.append(f"hanging: {patience:.0f} s after the last copier ended: stable {self.stable}, ends {self.ends}")
        if self.reader.positions() != self.stable:
            self.problems.append(f"one-truth: the reader stands at {self.reader.positions()}, the stable ends are {self.stable}")


class Reader(threading.Thread):
    """Thread that reads the output with read_committed during the campaign."""

    def __init__(self, bootstrap: str, topic: str, partitions: Iterable[int], history: Path) -> None:
        super().__init__(name="reader", daemon=True)
        self.topic = topic
        self.rows: dict[int, Rows] = {partition: [] for partition in partitions}
        self.stopping = threading.Event()
        self.recorder = Recorder(history / "reader.jsonl", "reader")
        self.consumer = Consumer(reading(bootstrap, "read_committed"))
        self.consumer.assign([TopicPartition(topic, each, 0) for each in self.rows])
        self.recorder.ok("assign", [["assigned", None, topic, each, None] for each in self.rows])
        self._positions: dict[int, int] = {}

    def run(self) -> None:
        while not self.stopping.is_set():
            self.recorder.invoke("poll")
            messages = self.consumer.consume(1000, 0.2)
            read = [(m.partition(), m.offset(), m.value().decode()) for m in messages if m.error() is None]
            for partition, offset, value in read:
                self.rows[partition].append((offset, value))
            self.recorder.ok("poll", [["poll", self.topic, *each] for each in read])
            self._positions = {each.partition: max(each.offset, 0) for each in self.consumer.position(self.consumer.assignment())}
        self.consumer.close()
        self.recorder.close()

    def positions(self) -> dict[int, int]:
        """Return the offsets of the next records."""
        return self._positions


def reading(bootstrap: str, isolation_level: str) -> dict[str, Any]:
    return {
        **CLIENT,
        "bootstrap.servers": bootstrap,
        "group.id": "judge",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation_level,
        "check.crcs": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
    }
