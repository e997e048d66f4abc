"""Records and their copies: a partition has one leader an epoch, whose bounds only rise and who counts on everybody that the controller may
elect; in the end all copies are the same.

That what was acknowledged is read, once, in order and for ever, the history of the clients shows (`coordinators.judge_history`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.testing.history.logs import check_log, compare_logs
from odradek.testing.simulation.cluster import DATA
from tests.simulation.whole.invariants.logs import batches_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.metadata.image import MetadataImage
    from odradek.replication.partition import Partition
    from tests.simulation.whole.story import Story


class Bounds(NamedTuple):
    """What may only rise while somebody leads."""

    log_start: int
    stable: int
    high_watermark: int


class ReplicationPromises:
    """See the module's text."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._bounds: dict[tuple[int, int, UUID, int], tuple[int, Bounds]] = {}
        self._leaders: dict[tuple[UUID, int, int], int] = {}

    def _problem(self, text: str) -> None:
        self._story.problem("replication", text)

    def look(self) -> None:
        """At who leads, and what leaders believe."""
        cluster = self._story.cluster
        image = cluster.image()
        for node in cluster.broker_ids:
            life = cluster.nodes[node].lives
            for partition in self._led_by(node):
                number, epoch, log = partition.topic_partition.partition, partition.leader_epoch, partition.log
                known = self._leaders.setdefault((partition.topic_id, number, epoch), node)
                if known != node:
                    self._problem(f"{partition.topic_partition}: {known} and {node} lead epoch {epoch}")
                if log is None:
                    continue
                bounds = Bounds(log.log_start_offset, log.last_stable_offset, log.high_watermark)
                if list(bounds) != sorted(bounds):
                    self._problem(f"{partition.topic_partition} on its leader {node}: {bounds} are not in order")
                key = (node, life, partition.topic_id, number)
                before_epoch, before = self._bounds.get(key, (-1, bounds))
                if before_epoch == epoch and any(now < then for now, then in zip(bounds, before, strict=True)):
                    self._problem(f"{partition.topic_partition} on its leader {node}: {before} became {bounds} in epoch {epoch}")
                self._bounds[key] = (epoch, bounds)
                if image is not None:
                    self._compare_isr(image, node, partition)

    def committed(self, image: MetadataImage) -> None:
        """What the controller may elect by from now on; leaders have asked for it, and do not know yet."""
        for node in self._story.cluster.broker_ids:
            for partition in self._led_by(node):
                self._compare_isr(image, node, partition)

    def _compare_isr(self, image: MetadataImage, node: int, partition: Partition) -> None:
        registration = image.topics.partition_by_id(partition.topic_id, partition.topic_partition.partition)
        if registration is None or (registration.leader, registration.leader_epoch) != (node, partition.leader_epoch):
            return
        if registration.partition_epoch < partition.partition_epoch:
            return  # The image of a controller that stands still and has been replaced.
        missing = set(registration.isr) - set(partition.isr.maximal_isr)
        if missing:
            self._problem(
                f"{partition.topic_partition}: the controller may elect {sorted(missing)} in epoch {partition.leader_epoch}, "
                f"and the leader {node} does not wait for them ({partition.isr!r})"
            )

    def _led_by(self, node: int) -> Iterator[Partition]:
        simulated = self._story.cluster.nodes[node]
        manager: Any = None
        if simulated.alive and simulated.broker is not None:
            manager = simulated.broker.node.replica_manager
        return iter(()) if manager is None else manager.leader_partitions()

    async def compare_at_the_end(self) -> None:
        """All replicas of a partition hold the same below the smallest high watermark, and logs are what logs have to be."""
        cluster = self._story.cluster
        image = cluster.image()
        if image is None:
            self._story.problem("liveness", "there is no controller at the end")
            return
        for topic in image.topics.by_name.values():
            for number, registration in topic.partitions.items():
                name = TopicPartition(topic.name, number)
                high_watermarks: list[int] = []
                for node in registration.replicas:
                    broker = cluster.nodes[node].broker
                    manager = None if broker is None else broker.node.replica_manager
                    partition = None if manager is None else manager.partition(name)
                    if partition is None or partition.log is None:
                        self._problem(f"{name}: node {node} has no log at the end")
                    else:
                        high_watermarks.append(partition.log.high_watermark)
                logs = {f"node {node}": list(batches_in(cluster.nodes[node].disk, f"{DATA}/{name}")) for node in registration.replicas}
                found = compare_logs(str(name), logs, min(high_watermarks, default=0))
                compacted = topic.name.startswith("__")
                for place, batches in logs.items():
                    found += check_log(f"{name} on {place}", batches, compacted=compacted)
                for anomaly in found:
                    self._problem(f"{anomaly.name}: {anomaly.text}")
