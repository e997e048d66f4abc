"""What a seed chooses: the cluster, its settings, the load on it, and how badly it is treated."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from odradek.base.ids import TopicPartition

KILLS, FLUSHED, UNFLUSHED = "kills", "flushed", "unflushed"
"""How nodes end by force: by kills only; by power cuts too, with flush.messages=1; by power cuts of one node at a time, with Kafka's
default of not flushing."""

SOURCE, SINK = "source", "sink"
"""The topics that transactional copiers read and write."""
COORDINATOR_PARTITIONS = 3
"""Of each of their topics."""
ELR = "eligible.leader.replicas.version"
RAPID = (0.000_05, 0.000_5)


class Layout(NamedTuple):
    """The nodes."""

    nodes: int
    separate_controllers: bool
    static_voters: bool


class Plan:
    """One seed's choices. `overrides` are names of attributes and their values, for tests that are about one thing."""

    def __init__(self, seed: int, *, mode: str | None = None, **overrides: object) -> None:
        rng = random.Random(f"plan {seed}")
        self.seed = seed
        self.mode = mode or rng.choice((KILLS, FLUSHED, UNFLUSHED))
        self.layout = rng.choice((Layout(3, False, False), Layout(3, False, True), Layout(5, False, False), Layout(3, True, False)))
        self.latency_s = rng.choice((RAPID, RAPID, (0.000_5, 0.005), (0.001, 0.03)))
        self.job_latency_s = rng.choice(((0.0, 0.0), (0.000_1, 0.01), (0.001, 0.1)))
        self.replication_factor = rng.choice((1, 2, 3, 3, 3))
        if self.mode == UNFLUSHED:
            self.replication_factor = 3
        self.segment_bytes = rng.choice((20_000, 60_000, 1 << 30))
        self.topics = {f"main-{number}": rng.randint(1, 3) for number in range(rng.randint(1, 2))} | {SOURCE: 2, SINK: 2}
        self.producers = rng.randint(1, 3)
        self.readers = rng.randint(1, 2)
        self.committers = rng.randint(0, 2)
        self.members = rng.choice(({}, {"classic": 3}, {"consumer": 3}, {"classic": 2, "consumer": 2}))
        self.copiers = rng.choice((0, 1, 2))
        self.pause_between_faults_s = rng.choice(((0.2, 3.0), (0.5, 8.0), (2.0, 15.0)))
        self.faults_at_once = rng.choice((1, 1, 2, 3))
        self.snapshot_bytes = rng.choice((20_000, 2**63 - 1))
        self.metadata_idle_ms = rng.choice((500, 3_000))
        self.metadata_batch_bytes = rng.choice((4_000, 8 << 20))
        """Operations of the controller are split into batches of a kilobyte less; those that must be atomic may be as large."""
        self.elr_comes_late = False
        """Whether eligible leader replicas are turned on in the middle of the story, while a partition has no leader. As in Kafka that
        partition has none for ever when its last replica comes back after a crash.
        """
        self.askers = 2
        """Who ask for producer ids."""
        self.electors = 0
        """Who ask the controllers for elections of preferred leaders: as many records as there are partitions to move."""
        self.release_version: str | None = None
        """What the nodes are formatted as; None: as the newest."""
        for name, value in overrides.items():
            if not hasattr(self, name):
                raise TypeError(f"a plan has no {name}")
            setattr(self, name, value)

    @property
    def min_isr(self) -> int:
        return max(1, self.replication_factor - 1)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Of the topics that producers write to."""
        return [TopicPartition(name, index) for name, count in self.topics.items() if name != SINK for index in range(count)]

    @property
    def settings(self) -> Mapping[str, str]:
        """Of every node."""
        copies = str(self.replication_factor)
        return {
            "log.flush.interval.messages": "1" if self.mode == FLUSHED else str(2**63 - 1),
            "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
            "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(self.min_isr),
            "min.insync.replicas": str(self.min_isr),
            "leader.imbalance.check.interval.seconds": "10",
            "log.initial.task.delay.ms": "500",
            "group.initial.rebalance.delay.ms": "500",
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "500",
            "group.min.session.timeout.ms": "6000",
            "metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes),
            "metadata.max.idle.interval.ms": str(self.metadata_idle_ms),
            "internal.metadata.max.batch.size.in.bytes": str(self.metadata_batch_bytes),
        }

    @property
    def feature_levels(self) -> Mapping[str, int]:
        """To format the nodes with, where they are not those of the release."""
        return {ELR: 0} if self.elr_comes_late and self.release_version is None else {}

    @property
    def topic_configs(self) -> Mapping[str, str]:
        return {"internal.segment.bytes": str(self.segment_bytes), "min.insync.replicas": str(self.min_isr)}
