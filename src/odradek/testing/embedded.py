"""Real brokers inside a test: in a thread of its process or in processes of their own, with temporary directories and free ports.

    with EmbeddedBroker(topics=["orders"]) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    with EmbeddedCluster(3) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
        cluster.kill(1)
        cluster.restart(1)

Any Kafka client can talk to them, as they listen on sockets. A directory goes at the end, unless it was given; directories and processes
also go when the test's process is killed. docs/testing.md shows what can be done to them.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from odradek.base.errors import ConfigError
from odradek.base.ids import random_uuid, uuid_to_string
from odradek.config.broker import with_controller_listener
from odradek.config.definition import setting_text
from odradek.storage.names import META_PROPERTIES
from odradek.testing.controls import ClockControl, Faults
from odradek.testing.embedded_node import CALL_S, START_S, EmbeddedNode
from odradek.testing.node_agent import NodeSpec, TestingError
from odradek.testing.places import HOST, ReservedPort, free_ports, new_directory, remove_directory
from odradek.testing.releases import release

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.testing.releases import Release

_VOTERS: Final = 3
_OF_ONE_NODE: Final = ("listeners", "advertised.listeners", "node.id", "broker.id", "log.dirs", "log.dir", "metadata.log.dir")
"""Keys that no two nodes can share."""

Setting: TypeAlias = str | int | float | bool | Sequence[str]
"""The value of a broker's key: text as in a properties file, or the Python value."""


def _texts(settings: Mapping[str, Setting] | None) -> dict[str, str]:
    return {name: setting_text(name, value) for name, value in (settings or {}).items()}


class Topic(NamedTuple):
    """A topic to create when a broker has started; `replication_factor` -1 is the broker's default."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


class _Place:
    """The directory of a broker or cluster: given, and then kept, or a temporary one."""

    def __init__(self, directory: str | None, *, memory: bool) -> None:
        if directory and memory:
            raise TestingError(f"directory={directory!r} and memory=True: either a place of your own or one in memory")
        self.is_own = not directory
        self.path = directory or new_directory(memory=memory)
        self.pid = os.getpid()
        self.gone = False

    def remove(self) -> None:
        """Removes a temporary directory, in the process that made it."""
        if self.is_own and os.getpid() == self.pid:
            remove_directory(self.path)
            self.gone = True

    def must_be(self) -> None:
        """TestingError for a temporary directory that was removed."""
        if self.gone:
            raise TestingError("it was stopped, and its temporary directory removed; make another, or give it a directory")


class EmbeddedBroker(EmbeddedNode):
    """A single-node cluster on 127.0.0.1. `start` and `stop` it, or use it in a `with` block."""

    def __init__(
        self,
        settings: Mapping[str, Setting] | None = None,
        *,
        topics: Iterable[str | Topic] = (),
        directory: str | os.PathLike[str] | None = None,
        memory: bool = False,
        process: bool = False,
        version: str | None = None,
        disk: Disk | None = None,
    ) -> None:
        """`settings` are Kafka's broker keys; where `listeners` name none for the controller, it gets one.

        `topics`: created at the start, unless they are there.

        `directory`: kept, and served again if a broker has been there; else a temporary one, whose files are not flushed to the device, as
        they need not outlast a power cut. `memory`: the temporary one is on /dev/shm, where the system has that, so that no disk is used.
        `process`: a process of its own, which loads all of the broker anew (a quarter of a second), in place of a thread of this one.
        `version`: announces to clients what brokers of that release of Kafka do ("3.7"), and serves no more (docs/testing.md).
        `disk`: in place of the system's, for tests of a disk that fails; then `directory` is one of its own.
        TestingError for what does not go together, ConfigError for a setting that is no text, number or boolean.
        """
        if disk is not None and process:
            raise TestingError("a disk of your own works in this process only")
        self._place = _Place(os.fspath(directory) if directory else None, memory=memory)
        self._settings = _texts(settings)
        self._topics = [Topic(each) if isinstance(each, str) else each for each in topics]
        self._release: Release | None = None if version is None else release(version)
        self._ports = [] if "listeners" in self._settings else [ReservedPort(), ReservedPort()]
        data = self._place.path if not self._place.is_own else os.path.join(self._place.path, "data")
        log_path = os.path.join(self._place.path, "broker.log")
        super().__init__(1, self._spec, data, process=process, log_path=log_path, disk=disk)

    def _spec(self) -> NodeSpec:
        settings = {"log.dirs": self.directory, **self._settings}
        if self._ports:
            port, controller = (each.port for each in self._ports)
            settings["listeners"] = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}"
            if self._release is not None:
                # Old levels of features know no voters in the log.
                settings.update({"controller.quorum.voters": f"1@{HOST}:{controller}", "controller.quorum.bootstrap.servers": ""})
        else:
            settings = with_controller_listener(settings)
        if self._release is not None and not self._ports:
            raise TestingError("version= with listeners of your own")
        return NodeSpec(settings, standalone=True, release=self._release, sync=not self._place.is_own)

    @property
    def port(self) -> int:
        """The port that clients connect to; known as soon as the broker is made, unless `listeners` were given."""
        return self._ports[0].port if self._ports else super().port

    def start(self, timeout_s: float = START_S) -> Self:
        """Returns when clients are served, and topics there; raises what kept the broker from starting, TimeoutError after `timeout_s`."""
        self._place.must_be()
        self.begin()
        try:
            self.wait(timeout_s)
            known: set[str] = set(self.call("topics") if self._topics else ())
            for topic in self._topics:
                if topic.name not in known:
                    self.create_topic(topic.name, topic.partitions, replication_factor=topic.replication_factor, configs=topic.configs)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """An orderly shutdown, also of a broker that is still starting; returns when all is closed, and a temporary directory removed."""
        super().stop()
        for port in self._ports if self._place.is_own else ():
            port.release()
        self._place.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class EmbeddedCluster:
    """Nodes 1 to n on 127.0.0.1, each a broker; the first three (or all of fewer) are controllers, too.

    Each node has its ports as long as the object lives, so that clients find it again after a restart. In threads the nodes share one
    interpreter, and so one core. `kill` leaves behind what SIGKILL of a process does: connections break, nothing is flushed or told, locks
    are free; what was written is in the files.
    """

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, Setting] | None = None,
        *,
        topics: Iterable[str | Topic] = (),
        directory: str | os.PathLike[str] | None = None,
        memory: bool = False,
        process: bool = False,
    ) -> None:
        """`settings` are Kafka's broker keys for all nodes. `directory` keeps the nodes' directories (`node-1`, ...); a cluster that is
        there already is started again. For the rest see `EmbeddedBroker`. ValueError for less than one node, ConfigError for settings that
        no two nodes can share.
        """
        if nodes < 1:
            raise ValueError(f"a cluster of {nodes} nodes")
        if own := [key for key in _OF_ONE_NODE if key in (settings or {})]:
            raise ConfigError(f"Configuration {own[0]} cannot be the same for every node of a cluster; EmbeddedCluster chooses it")
        self.ids = range(1, nodes + 1)
        self._place = _Place(os.fspath(directory) if directory else None, memory=memory)
        self.directory = self._place.path
        self._settings = _texts(settings)
        self._topics = [Topic(each) if isinstance(each, str) else each for each in topics]
        self._ports = {node: ReservedPort() for node in self.ids}
        self._controller_ports = {node: ReservedPort() for node in self.ids}
        self.nodes = {node: self._new_node(node, process=process) for node in self.ids}
        """By id."""
        self.faults = Faults(lambda: list(self.nodes.values()))
        """What goes wrong on every node that is up; of one node: `cluster.nodes[1].faults`."""
        self.clock = ClockControl(lambda: list(self.nodes.values()))
        """Of all nodes."""

    def _new_node(self, node: int, *, process: bool) -> EmbeddedNode:
        directory = self.directory_of(node)
        return EmbeddedNode(node, lambda: self._spec(node), directory, process=process, log_path=f"{directory}.log")

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given: all nodes, whether they are up or not."""
        return ",".join(f"{HOST}:{port.port}" for port in self._ports.values())

    def port(self, node: int) -> int:
        """The port of a node that clients connect to."""
        return self._ports[node].port

    def directory_of(self, node: int) -> str:
        """The log directory of a node."""
        return os.path.join(self.directory, f"node-{node}")

    def is_up(self, node: int) -> bool:
        """Whether the node was started and neither stopped nor killed since."""
        return self.nodes[node].is_up

    def start(self, timeout_s: float = START_S) -> Self:
        """Starts every node that is not up; returns when they serve clients. Raises what kept one from starting, TimeoutError after
        `timeout_s`; everything is stopped then.
        """
        self._place.must_be()
        self._format()
        down = [node for node in self.nodes.values() if not node.is_up]
        try:
            for node in down:
                node.begin()
            deadline = time.monotonic() + timeout_s
            for node in down:
                node.wait(max(0.0, deadline - time.monotonic()))
            known: set[str] = set(self._any().call("topics") if self._topics else ())
            for topic in self._topics:
                if topic.name not in known:
                    self.create_topic(topic.name, topic.partitions, replication_factor=topic.replication_factor, configs=topic.configs)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self, node: int, timeout_s: float = START_S) -> None:
        """Starts a node that was stopped or killed, as `start` does. TestingError when it is up. Without a quorum it cannot serve."""
        self.nodes[node].start(timeout_s)

    def kill(self, node: int) -> None:
        """Ends a node as SIGKILL does. TestingError when it is not up."""
        self.nodes[node].kill()

    def stop(self, node: int | None = None) -> None:
        """An orderly shutdown: of one node (TestingError when it is not up), or of all, after which the cluster is gone."""
        if node is not None:
            if not self.nodes[node].is_up:
                raise TestingError(f"node {node} is not up")
            self.nodes[node].stop()
            return
        for each in self.nodes.values():
            each.begin_stop()
        for each in self.nodes.values():
            each.stop()
        if self._place.is_own:
            for port in (*self._ports.values(), *self._controller_ports.values()):
                port.release()
        self._place.remove()

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Its name, when every node that is up knows a leader for each of its partitions. KafkaError for what Kafka refuses."""
        self._any().create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        for node in self.nodes.values():
            if node.is_up:
                node.call("await_topic", name, True, timeout_s=CALL_S)
        return name

    def delete_topic(self, name: str) -> None:
        """Returns when no node that is up knows it any more. KafkaError for what Kafka refuses."""
        self._any().delete_topic(name)
        for node in self.nodes.values():
            if node.is_up:
                node.call("await_topic", name, False, timeout_s=CALL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    def _any(self) -> EmbeddedNode:
        for node in self.nodes.values():
            if node.is_up:
                return node
        raise TestingError("no node is up")

    def _spec(self, node: int) -> NodeSpec:
        voters = list(self.ids)[:_VOTERS]
        is_voter = node in voters
        copies = min(3, len(self.ids))
        controller = f",CONTROLLER://{HOST}:{self._controller_ports[node].port}" if is_voter else ""
        settings = {
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self._ports[node].port}{controller}",
            "inter.broker.listener.name": "PLAINTEXT",
            # Not in the log: a cluster that is started again from its directory may have other ports.
            "controller.quorum.voters": ",".join(f"{each}@{HOST}:{self._controller_ports[each].port}" for each in voters),
            "log.dirs": self.directory_of(node),
            "default.replication.factor": str(copies),
            "offsets.topic.replication.factor": str(copies),
            "transaction.state.log.replication.factor": str(copies),
            "transaction.state.log.min.isr": str(max(1, copies - 1)),
            **self._settings,
        }
        return NodeSpec(settings, standalone=False, sync=not self._place.is_own)

    def _format(self) -> None:
        from odradek.controller.format import format_storage
        from odradek.testing.node_thread import MortalDisk

        disk = MortalDisk(sync=not self._place.is_own)
        rng = random.Random()
        cluster_id = uuid_to_string(random_uuid(rng))
        for node in self.ids:
            if not os.path.exists(os.path.join(self.directory_of(node), META_PROPERTIES)):
                format_storage(disk, self._spec(node).config(), cluster_id=cluster_id, rng=rng, now_ms=time.time_ns() // 1_000_000)


def unique_name(prefix: str = "topic") -> str:
    """A name that no other topic has."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


__all__ = ["EmbeddedBroker", "EmbeddedCluster", "EmbeddedNode", "TestingError", "Topic", "free_ports", "unique_name"]
