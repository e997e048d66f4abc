"""Groups and transactions, and all else that the history of the clients shows: committed positions never go back, a partition has one owner
a generation, what is read, processed and written is so exactly once. And a coordinator whose broker leads on keeps what it has in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from odradek.base.ids import TopicPartition
from odradek.coordinator.partitioning import partition_of
from odradek.server.cluster.coordinators import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from odradek.testing.history import Copy, examine
from odradek.testing.history.anomalies import ALLOWED
from odradek.testing.history.events import Value
from tests.simulation.whole.invariants.deposed import DeposedLeaders, Leadership
from tests.simulation.whole.plan import COORDINATOR_PARTITIONS, SINK, SOURCE

if TYPE_CHECKING:
    from odradek.coordinator.context import ShardContext
    from odradek.metadata.image import MetadataImage
    from tests.simulation.whole.story import Story

_TOPICS: Final = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
_OF_COORDINATORS: Final = frozenset(
    {
        "G1a",
        "precommitted-read",
        "not-copied",
        "copied-twice",
        "copied-from-nothing",
        "copy-order",
        "commit-regression",
        "lost-commit",
        "fenced-commit-accepted",
        "two-owners",
        "two-owners-in-generation",
        "generation-regression",
        "static-rebalance",
        "unexplained-fencing",
    }
)
"""Anomalies of the history that groups or transactions are to blame for; the others are those of records and their copies."""


_SILENCE_S: Final = 5.0
"""A member that has heard nothing for so long may be taken for gone: sessions of the stories' members take 6 s, a request as long."""
_MEMORY_S: Final = 12.0
"""A rebalance takes up to 10 s, and goes on without those who have not heard of it."""


def out_of_touch(heard: Sequence[float], since_s: float, until_s: float) -> bool:
    """Whether a member with a partition since `since_s` may not have known that the group gave it away at `until_s`: shortly before, its
    coordinator had not answered it for a long time. Kafka promises one owner only as far as members are in touch with the group.
    """
    times = [since_s, *(each for each in heard if since_s < each < until_s), until_s]
    silences = [(after, after - before) for before, after in pairwise(times)]
    return any(silence >= _SILENCE_S and end > until_s - _MEMORY_S for end, silence in silences)


def copied(value: Value) -> Value:
    """What a copier makes of a value."""
    return f"copy of {value}"


def _leaderships(image: MetadataImage) -> dict[TopicPartition, Leadership]:
    """Who leads the partitions of the coordinators."""
    found: dict[TopicPartition, Leadership] = {}
    for name in _TOPICS:
        topic = image.topics.by_name.get(name)
        for number, partition in (topic.partitions if topic is not None else {}).items():
            found[TopicPartition(name, number)] = Leadership(partition.leader, partition.leader_epoch)
    return found


class CoordinatorPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._left: dict[tuple[int, TopicPartition], int] = {}
        """How often a node has read that it does not lead a coordinator's partition."""
        self._shards: dict[tuple[int, int, TopicPartition], tuple[ShardContext[Any], int]] = {}
        self._heard: dict[str, list[float]] = {}
        """Member -> when its coordinator has answered it."""
        self._deposed = DeposedLeaders()

    def heard_of(self, member: str) -> None:
        """The member's coordinator has just answered it."""
        self._heard.setdefault(member, []).append(self._story.cluster.clock.monotonic())

    def believable(self, node: int, group: str, asked: float) -> bool:
        """Whether what a node has said of a group, when it was asked at that time, is what its coordinator must know."""
        partition = TopicPartition(GROUP_METADATA_TOPIC, partition_of(group, COORDINATOR_PARTITIONS))
        return not self._deposed.was_unaware(node, partition, asked)

    def published(self, node: int, image: MetadataImage) -> None:
        """A node has read on in the metadata."""
        found = _leaderships(image)
        self._deposed.read(node, found, self._story.cluster.clock.monotonic())
        for partition, (leader, _) in found.items():
            if leader != node:
                key = (node, partition)
                self._left[key] = self._left.get(key, 0) + 1

    def look(self) -> None:
        """At the shards that brokers have."""
        story = self._story
        for node in story.cluster.broker_ids:
            for context in self._contexts(node):
                left = self._left.get((node, context.topic_partition), 0)
                key = (node, story.cluster.nodes[node].lives, context.topic_partition)
                known, left_then = self._shards.get(key, (context, left))
                if known is not context and left == left_then and not story.errors_expected:
                    story.problem("coordinators", f"node {node} has led {context.topic_partition} on, and thrown its state away")
                self._shards[key] = (context, left)

    def _contexts(self, node: int) -> Iterator[ShardContext[Any]]:
        simulated = self._story.cluster.nodes[node]
        if simulated.alive and simulated.broker is not None:
            coordinators = simulated.broker.node.coordinators
            for service in (getattr(coordinators, "made_groups", None), getattr(coordinators, "made_transactions", None)):
                if service is not None:
                    yield from service.runtime

    def judge_history(self) -> None:
        """Has the checker of histories look at what the clients have written down."""
        story = self._story
        # Members are fenced when their coordinator is away for longer than their session.
        report = examine(
            story.events,
            copies=[Copy(SOURCE, SINK, copied)] if story.plan.copiers else [],
            allow=ALLOWED | {"unexplained-fencing"},
            limit=10,
        )
        for anomaly in report.anomalies:
            if anomaly.name == "two-owners":
                held, given = anomaly.operations
                if out_of_touch(self._heard.get(held.process, ()), held.completed, given.completed):
                    continue
            family = "coordinators" if anomaly.name in _OF_COORDINATORS else "replication"
            story.problem(family, f"{anomaly.name}: {anomaly.text}")
