"""Faults of the nodes of a cluster. Each fault is a class; `strike` causes the fault, ends it where possible, and returns a description.

`made` counts strikes, or another unit of the fault. A fault may need settings of the nodes, separate hosts or separate disks.
"""

from __future__ import annotations

import contextlib
import random
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from interop.cluster import ask
from interop.peers import OdradekBroker
from interop.waiting import eventually, until
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.campaigns import power_cuts
from tests.campaigns.cluster_nodes import Nodes
from tests.campaigns.power_cuts import CutDisk

NODE_GONE_S = 30.0
"""Maximum seconds that a node may lead after it has stopped answering."""


class Times(NamedTuple):
    """Durations in seconds (least, most)."""

    pause: tuple[float, float] = (10.0, 60.0)
    split: tuple[float, float] = (2.0, 20.0)


class Fault:
    """One kind of fault."""

    settings: ClassVar[Mapping[str, str]] = {}
    """Settings of the nodes."""
    topic: ClassVar[Mapping[str, str]] = {}
    """Configuration of the topic that is written."""
    partitions: ClassVar[int] = 6
    acks: ClassVar[str] = "all"
    network: ClassVar[bool] = False
    """Whether each node needs a separate host."""

    def __init__(self, cluster: Nodes, times: Times, rng: random.Random, acked: Callable[[], int]) -> None:
        """Make a fault. `acked` returns the number of records acknowledged so far."""
        self.cluster = cluster
        self.times = times
        self.rng = rng
        self.acked = acked
        self.ids = sorted(cluster.nodes)
        self.made = 0

    def prepare(self) -> None:
        """Prepare before the nodes' directories are made."""

    def strike(self) -> str:
        raise NotImplementedError

    def put_away(self) -> None:
        """Clean up after the nodes have ended."""

    def some_node(self) -> int:
        """Return a running node; with a higher chance the controller."""
        running = [node for node in self.ids if self.cluster.nodes[node].running]
        if self.rng.random() < 0.3:
            with contextlib.suppress(TimeoutError):
                return self.cluster.leader(timeout=1)
        return self.rng.choice(running)

    def absence_s(self) -> float:
        return self.rng.choice((0.0, self.rng.uniform(0, 1), self.rng.uniform(1, 4)))


class Kill(Fault):
    def strike(self) -> str:
        how_many = self.rng.choices((1, 2, 3), (80, 10, 10))[0]
        struck = self.ids if how_many == 3 else [self.some_node()]
        if how_many == 2:
            struck.append(self.rng.choice([node for node in self.ids if node not in struck]))
        for node in struck:
            self.cluster.nodes[node].kill()
        away_s = self.absence_s()
        time.sleep(away_s)
        for node in struck:
            self.cluster.launch(node)
        self.made += 1
        return f"kill -9 of {struck}, away for {away_s:.1f} s"


class Pause(Fault):
    def strike(self) -> str:
        node, seconds = self.some_node(), self.rng.uniform(*self.times.pause)
        self.cluster.nodes[node].pause()
        try:
            time.sleep(seconds)
        finally:
            self.cluster.nodes[node].resume()
        self.made += 1
        return f"pause of {node} for {seconds:.1f} s"


class Split(Fault):
    network = True
    WHOLE_S = 30.0

    def strike(self) -> str:
        network = self.cluster.network
        assert network is not None
        kind = self.rng.choice(("one-way", "bridge", "alone", "ring", "controllers"))
        seconds = self.rng.uniform(*self.times.split)
        first, second, third = self.rng.sample(self.ids, 3)
        ways = {
            "one-way": [(first, second)],
            "bridge": [(first, second), (second, first)],
            "ring": [(second, first), (third, second), (first, third)],
        }.get(kind, [(first, second), (second, first), (first, third), (third, first)])
        for sender, receiver in ways:
            ports = {self.cluster.nodes[node].controller_port for node in (sender, receiver)} if kind == "controllers" else [None]
            for port in ports:
                network.cut(sender, receiver, port)
        try:
            time.sleep(seconds)
        finally:
            network.heal()
        self.made += 1
        return f"{kind} split of {ways} for {seconds:.1f} s, whole {self.cluster.wait_whole(self.WHOLE_S):.1f} s later"


class Power(Fault):
    """Power cut of one node at a time. Flushing is left to the kernel, as by Kafka's default: the other nodes have what the node loses."""

    IMAGE_MIB = 1024

    def prepare(self) -> None:
        self.disks: dict[int, CutDisk] = {}
        for node, process in self.cluster.nodes.items():
            process.folder.mkdir(parents=True, exist_ok=True)
            disk = self.disks[node] = CutDisk(process.folder)
            disk.make(self.IMAGE_MIB)
            process.data = disk.mount_point / "data"

    def put_away(self) -> None:
        for disk in self.disks.values():
            disk.unmount(quietly=True)

    def strike(self) -> str:
        # The other nodes must have the lost records, so all replicas must be in sync before the power cut.
        waited_s = self.cluster.wait_whole()
        node = self.some_node()
        self.cut([node])
        return f"power cut of {node} after {waited_s:.1f} s"

    def cut(self, struck: Sequence[int]) -> None:
        if self.rng.random() < 0.5:
            # The kernel sometimes writes back: then a part of the written bytes is on the disk.
            self.disks[self.rng.choice(struck)].write_back()
            time.sleep(self.rng.uniform(0, 0.3))
        with contextlib.ExitStack() as standing:
            for node in struck:
                process = self.cluster.nodes[node]
                assert isinstance(process, OdradekBroker)
                standing.enter_context(power_cuts.stopped(process))
            for node in struck:
                self.disks[node].cut()
            for node in struck:
                self.cluster.nodes[node].kill()
        time.sleep(self.absence_s())
        for node in struck:
            self.disks[node].unmount()
            self.disks[node].mount()
            self.cluster.launch(node)
        self.made += 1


class PowerOfAll(Power):
    """Power cut of all nodes in the same moment. All in-sync replicas have flushed acknowledged records (flush.messages=1)."""

    settings: ClassVar[Mapping[str, str]] = {"log.flush.interval.messages": "1"}

    def strike(self) -> str:
        self.cut(self.ids)
        return "power cut of all"


class Elections(Fault):
    """Leaders pause or die until others lead, come back with records that only they have (acks=1), and are elected again. Counts
    elections.
    """

    settings: ClassVar[Mapping[str, str]] = {
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "200",
    }
    partitions = 24
    acks = "1"

    def prepare(self) -> None:
        self._begun = -1

    def strike(self) -> str:
        struck = self.rng.choice(self.ids)
        witness = self.rng.choice([node for node in self.ids if node != struck])
        killed = self.rng.random() < 0.2
        if killed:
            self.cluster.nodes[struck].kill()
        else:
            self.cluster.nodes[struck].pause()
        try:
            eventually(lambda: self._leads_nothing(struck, witness), f"others to lead what node {struck} led", NODE_GONE_S)
        finally:
            if killed:
                self.cluster.launch(struck)
            else:
                self.cluster.nodes[struck].resume()
        self.cluster.wait_whole()
        process = self.cluster.nodes[witness]
        with contextlib.suppress(OSError):
            ask(process.port, ElectLeadersRequest(topic_partitions=None, timeout_ms=5000), 2, 10, process.host)
        epochs = sum(partition.leader_epoch for _, partition in self.cluster.partitions(witness))
        if self._begun < 0:
            self._begun = epochs - self.partitions // len(self.ids)
        self.made = epochs - self._begun
        return f"{'kill' if killed else 'pause'} of {struck} until others led; {self.made} elections"

    def _leads_nothing(self, node: int, witness: int) -> bool | None:
        with contextlib.suppress(OSError):
            return True if all(each.leader_id not in (node, -1) for _, each in self.cluster.partitions(witness)) else None
        return None


class IsrToOne(Fault):
    """A leader's client port is cut off from the other nodes until the leader is alone in sync. It acknowledges more records, and is
    killed.

    No other node may lead while the leader is away, and its acknowledged records must exist when the leader is back.
    """

    settings: ClassVar[Mapping[str, str]] = {"replica.lag.time.max.ms": "1500", "min.insync.replicas": "1"}
    topic: ClassVar[Mapping[str, str]] = {"min.insync.replicas": "1"}
    network = True
    ALONE_S = 30.0
    AWAY_S = 2.0

    def strike(self) -> str:
        network = self.cluster.network
        assert network is not None
        self.cluster.wait_whole()
        alone = self.some_node()
        witness, other = [node for node in self.ids if node != alone]
        for node in (witness, other):
            network.cut(node, alone, self.cluster.nodes[alone].port)
            network.cut(alone, node, self.cluster.nodes[alone].port)
        try:
            led = eventually(lambda: self._alone(alone, witness), f"node {alone} to be alone in sync", self.ALONE_S)
            acked = self.acked()
            until(lambda: self.acked() > acked + 100, "acknowledgements of a leader that is alone", self.ALONE_S)
            self.cluster.nodes[alone].kill()
        finally:
            network.heal()
        try:
            deadline = time.monotonic() + self.rng.uniform(0, self.AWAY_S)
            while time.monotonic() < deadline:
                self._check_offline(led, alone, witness)
        finally:
            self.cluster.launch(alone)
        self.made += 1
        return f"node {alone} was alone in {len(led)} partitions and was killed"

    def _alone(self, alone: int, witness: int) -> list[str] | None:
        """Return the partitions that the node leads, if the node is alone in sync in all of them. None otherwise, or if the node leads
        none.
        """
        with contextlib.suppress(OSError):
            led = [(name, each) for name, each in self.cluster.partitions(witness) if each.leader_id == alone]
            if led and all(each.isr_nodes == [alone] for _, each in led):
                return [f"{name}-{each.partition_index}" for name, each in led]
        return None

    def _check_offline(self, led: Sequence[str], alone: int, witness: int) -> None:
        with contextlib.suppress(OSError):
            for name, each in self.cluster.partitions(witness):
                partition = f"{name}-{each.partition_index}"
                if partition in led and each.leader_id not in (alone, -1):
                    raise RuntimeError(f"unclean: node {each.leader_id} leads {partition}, which only node {alone} has")


class Clock(Fault):
    """One node's clock jumps by up to an hour, forward or back, sometimes several times in a row."""

    HOUR_S = 3600.0

    def prepare(self) -> None:
        for process in self.cluster.nodes.values():
            process.folder.mkdir(parents=True, exist_ok=True)
            self._shift(self._file(process.folder), 0.0)
            process.prefix = (*process.prefix, sys.executable, "-m", "tests.campaigns.shifted_clock", str(self._file(process.folder)))

    def strike(self) -> str:
        node = self.rng.choice(self.ids)
        jumps = [self.rng.uniform(-self.HOUR_S, self.HOUR_S) for _ in range(self.rng.choice((1, 1, 5)))]
        for seconds in jumps:
            self._shift(self._file(self.cluster.nodes[node].folder), seconds)
            time.sleep(self.rng.uniform(0, 0.3))
        time.sleep(self.rng.uniform(0, 3))
        self.made += 1
        return f"the clock of {node} is off by {jumps[-1]:.0f} s, after {len(jumps)} jumps"

    @staticmethod
    def _file(folder: Path) -> Path:
        return folder / "clock"

    @staticmethod
    def _shift(file: Path, seconds: float) -> None:
        with file.open("r+b" if file.exists() else "wb") as opened:
            opened.write(struct.pack("d", seconds))


FAULTS: dict[str, type[Fault]] = {
    "kill": Kill,
    "pause": Pause,
    "split": Split,
    "power": Power,
    "power-all": PowerOfAll,
    "elections": Elections,
    "isr-to-one": IsrToOne,
    "clock": Clock,
}
