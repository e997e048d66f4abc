"""Three nodes of one cluster, each a process, and observers of the leaders that the nodes report."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from interop.cluster import Member, MixedCluster, ask
from interop.peers import BrokerProcess
from interop.waiting import eventually
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.campaigns.namespaces import Network

NODES = 3
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "log.segment.bytes": "4194304",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "log.segment.delete.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
}
PATIENCE_S = 90.0
GLANCE_S = 1.0
"""Seconds that a node has to answer an observer."""


class Nodes(MixedCluster):
    """Cluster of Odradek nodes, each broker and controller."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, network: Network | None = None) -> None:
        """Prepare the nodes. `network` has a host for each node; without `network` all nodes listen on loopback."""
        self.network = network
        members = {node: Member("odradek") for node in range(1, NODES + 1)}
        super().__init__(folder, members, dynamic=True, settings={**SETTINGS, **(settings or {})})

    def _process(self, kind: str, folder: Path) -> BrokerProcess:
        process = super()._process(kind, folder)
        if self.network is not None:
            host = int(folder.name)
            process.host, process.prefix = self.network.address(host), self.network.prefix(host)
        return process

    def launch(self, node: int) -> None:
        """Start a node without waiting for it."""
        self.nodes[node].launch()

    def partitions(self, asked: int, timeout: float = 5.0) -> list[tuple[str, MetadataResponse.MetadataResponsePartition]]:
        """Return (topic, partition) of all partitions, as one node reports them. Raises OSError when the node does not answer."""
        process = self.nodes[asked]
        response = ask(process.port, MetadataRequest(topics=None), 12, timeout, process.host)
        assert isinstance(response, MetadataResponse)
        return [(topic.name or "", partition) for topic in response.topics for partition in topic.partitions]

    def _whole(self) -> bool | None:
        try:
            for node in self.nodes:
                for _, partition in self.partitions(node):
                    if partition.leader_id < 0 or sorted(partition.isr_nodes) != sorted(partition.replica_nodes):
                        return None
            return True if self.caught_up(timeout=5) else None
        except (OSError, TimeoutError):
            return None

    def wait_whole(self, patience_s: float = PATIENCE_S) -> float:
        """Wait until every node reports a leader and a full ISR for every partition, and return the seconds that the wait took.

        Raises TimeoutError after `patience_s` seconds.
        """
        begin = time.monotonic()
        eventually(self._whole, "all partitions to have a leader and all their replicas in sync, by the word of all nodes", patience_s)
        return time.monotonic() - begin

    def stop(self) -> dict[int, int]:
        """Stop the nodes in order, and return node -> exit status. The first node stops alone, while the others are a majority."""
        first, *others = self.nodes.values()
        statuses = {1: first.stop(PATIENCE_S)}
        threads = [threading.Thread(target=lambda each=each: each.stop(PATIENCE_S)) for each in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for node, process in self.nodes.items():
            assert process.process is not None
            statuses[node] = process.process.wait()
        return statuses


class Leaders:
    """Reported leaders of the quorum and of partitions, by epoch."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], set[int]] = {}
        """(the quorum or a partition, epoch) -> leaders."""
        self.looks = 0

    def note(self, what: str, epoch: int, leader: int) -> None:
        if leader >= 0:
            self.seen.setdefault((what, epoch), set()).add(leader)

    def problems(self) -> list[str]:
        return [f"one-leader: {what} has {sorted(who)} in epoch {epoch}" for (what, epoch), who in self.seen.items() if len(who) > 1]

    def epochs(self, what: str) -> int:
        return sum(each == what for each, _ in self.seen)


QUORUM = "the quorum"


class Glance(threading.Thread):
    """Thread that asks one node again and again for the leaders of the quorum and of the partitions."""

    def __init__(self, cluster: Nodes, node: int, leaders: Leaders) -> None:
        super().__init__(name=f"glance-{node}", daemon=True)
        self.cluster = cluster
        self.node = node
        self.leaders = leaders
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            process: BrokerProcess = self.cluster.nodes[self.node]
            if not process.running:
                continue
            view = self.cluster.view(self.node, GLANCE_S)
            if view is not None:
                self.leaders.note(QUORUM, view.epoch, view.leader)
            try:
                partitions = self.cluster.partitions(self.node, GLANCE_S)
            except OSError:
                continue
            for topic, partition in partitions:
                self.leaders.note(f"{topic}-{partition.partition_index}", partition.leader_epoch, partition.leader_id)
            self.leaders.looks += 1
