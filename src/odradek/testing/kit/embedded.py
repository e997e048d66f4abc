"""Real brokers inside a test: in threads of its process or in separate processes, with temporary directories and free ports.

    with EmbeddedBroker(topics=["orders"]) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    with EmbeddedCluster(3) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
        cluster.kill(1)
        cluster.restart(1)

The brokers listen on sockets, so any Kafka client can connect. A temporary directory is removed at the end; a given directory is kept.
Temporary directories and broker processes also end when the test's process is killed. See docs/testing.md.
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
from odradek.testing.kit.controls import ClockControl, Faults
from odradek.testing.kit.embedded_node import CALL_S, START_S, EmbeddedNode
from odradek.testing.kit.node_agent import NodeSpec, TestingError
from odradek.testing.kit.releases import release
from odradek.testing.kit.temporary import HOST, ReservedPort, free_ports, new_directory, remove_directory

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.testing.kit.releases import Release

_VOTERS: Final = 3
_OF_ONE_NODE: Final = ("listeners", "advertised.listeners", "node.id", "broker.id", "log.dirs", "log.dir", "metadata.log.dir")
"""Keys that two nodes cannot share."""

Setting: TypeAlias = str | int | float | bool | Sequence[str]
"""Value of a broker's key: text as in a properties file, or the Python value."""


def _texts(settings: Mapping[str, Setting] | None) -> dict[str, str]:
    return {name: setting_text(name, value) for name, value in (settings or {}).items()}


class Topic(NamedTuple):
    """Topic to create after a broker's start. `replication_factor` -1 is the broker's default."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


class _Place:
    """Directory of a broker or cluster: a given directory, which is kept, or a temporary directory."""

    def __init__(self, directory: str | None, *, memory: bool) -> None:
        if directory and memory:
            raise TestingError(f"directory={directory!r} excludes memory=True: give one of them")
        self.is_own = not directory
        self.path = directory or new_directory(memory=memory)
        self.pid = os.getpid()
        self.gone = False

    def remove(self) -> None:
        """Remove a temporary directory. Do nothing in a forked process or for a given directory."""
        if self.is_own and os.getpid() == self.pid:
            remove_directory(self.path)
            self.gone = True

    def must_be(self) -> None:
        """Raise TestingError when the temporary directory has been removed."""
        if self.gone:
            raise TestingError("this object was stopped and its temporary directory deleted; create another one, or give it a directory")


class EmbeddedBroker(EmbeddedNode):
    """Single-node cluster on 127.0.0.1. Call `start` and `stop`, or use the broker in a `with` block."""

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
        """Prepare a broker; `start` starts the broker.

        - `settings`: Kafka's broker keys. When `listeners` has no controller listener, one is added.
        - `topics`: created at the start, unless they exist.
        - `directory`: kept after the test, and served again if a broker has used the directory before. Without `directory` a temporary
          directory is used; its files are not fsynced, as they need not survive a power cut.
        - `memory`: put the temporary directory on /dev/shm, where the system has it, so that no disk is used.
        - `process`: run the broker in a separate process instead of a thread. The process imports the whole broker, which takes a quarter
          of a second.
        - `version`: release of Kafka ("3.7") whose API versions are announced to clients; later versions are refused (docs/testing.md).
        - `disk`: replaces the system's disk, for tests of a disk that fails; then `directory` is a path on that disk.

        Raises TestingError for arguments that exclude each other (`version` with `listeners`: at the start), ConfigError for a setting that
        is not text, a number or a boolean, and ReleaseError for an unknown `version`.
        """
        if disk is not None and process:
            raise TestingError("a custom disk works only for a broker in this process")
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
                # Old feature levels do not support voters in the log.
                settings.update({"controller.quorum.voters": f"1@{HOST}:{controller}", "controller.quorum.bootstrap.servers": ""})
        else:
            settings = with_controller_listener(settings)
        if self._release is not None and not self._ports:
            raise TestingError("version= excludes custom listeners")
        return NodeSpec(settings, standalone=True, release=self._release, sync=not self._place.is_own)

    @property
    def is_gone(self) -> bool:
        """Whether the broker was stopped and its temporary directory removed, so that it cannot be started again."""
        return self._place.gone

    @property
    def port(self) -> int:
        """Port that clients connect to. With `listeners` of your own the port is known after the start, otherwise before."""
        return self._ports[0].port if self._ports else super().port

    def start(self, timeout_s: float = START_S) -> Self:
        """Start the broker, and wait until the broker serves clients and has the topics.

        Raises TestingError when the broker is up, or when its temporary directory has been removed. Raises TimeoutError after `timeout_s`
        seconds, or the error that stopped the start; the broker is stopped then.
        """
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
        """Shut the broker down in order, even while it is starting. Wait until all is closed and a temporary directory is removed."""
        super().stop()
        for port in self._ports if self._place.is_own else ():
            port.release()
        self._place.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class EmbeddedCluster:
    """Nodes 1 to n on 127.0.0.1. Every node is a broker; the first three (or all of fewer) are also controllers.

    Each node keeps its ports as long as the object lives, so that clients find the node after a restart. Nodes in threads share one
    interpreter and therefore one core. `kill` has the effects of SIGKILL: connections break, locks are free, written bytes are in the
    files, and the node flushes nothing and sends no message.
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
        """Prepare a cluster; `start` starts the nodes.

        `settings` are Kafka's broker keys for all nodes. `directory` contains the nodes' directories (`node-1`, ...) and is kept; a cluster
        that is in `directory` already is started again. The other arguments are those of `EmbeddedBroker`. Raises ValueError for less than
        one node, and ConfigError for settings that two nodes cannot share.
        """
        if nodes < 1:
            raise ValueError(f"a cluster needs at least one node, not {nodes}")
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
        """Nodes by id."""
        self.faults = Faults(lambda: list(self.nodes.values()))
        """Faults of every node that is up. `cluster.nodes[1].faults` has the faults of one node."""
        self.clock = ClockControl(lambda: list(self.nodes.values()))
        """Clock of all nodes."""

    def _new_node(self, node: int, *, process: bool) -> EmbeddedNode:
        directory = self.directory_of(node)
        return EmbeddedNode(node, lambda: self._spec(node), directory, process=process, log_path=f"{directory}.log")

    @property
    def is_gone(self) -> bool:
        """Whether the cluster was stopped and its temporary directory removed, so that it cannot be started again."""
        return self._place.gone

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients: all nodes, including those that are down."""
        return ",".join(f"{HOST}:{port.port}" for port in self._ports.values())

    def port(self, node: int) -> int:
        """Return the port of a node that clients connect to."""
        return self._ports[node].port

    def directory_of(self, node: int) -> str:
        """Return the log directory of a node."""
        return os.path.join(self.directory, f"node-{node}")

    def is_up(self, node: int) -> bool:
        """Return whether the node was started and neither stopped nor killed since."""
        return self.nodes[node].is_up

    def start(self, timeout_s: float = START_S) -> Self:
        """Start every node that is down, and wait until the nodes serve clients and have the topics.

        Raises TimeoutError after `timeout_s` seconds, or the error that stopped the start of a node. All nodes are stopped then.
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
        """Start a node that is down, and wait until the node serves clients. Without a quorum a node cannot serve.

        Raises TestingError when the node is up, TimeoutError after `timeout_s` seconds, or the error that stopped the start.
        """
        self.nodes[node].start(timeout_s)

    def kill(self, node: int) -> None:
        """End a node as SIGKILL does. Raises TestingError when the node is down."""
        self.nodes[node].kill()

    def stop(self, node: int | None = None) -> None:
        """Shut down one node in order (TestingError when the node is down), or all nodes. After a stop of all, a temporary directory is
        removed.
        """
        if node is not None:
            if not self.nodes[node].is_up:
                raise TestingError(f"node {node} is not running")
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
        """Create a topic, wait until every node that is up knows a leader for each partition, and return the topic's name.

        Raises KafkaError when Kafka refuses the topic, and TestingError when no node is up.
        """
        self._any().create_topic(name, partitions, replication_factor=replication_factor, configs=configs)
        for node in self.nodes.values():
            if node.is_up:
                node.call("await_topic", name, True, timeout_s=CALL_S)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until no node that is up knows the topic.

        Raises KafkaError when Kafka refuses the deletion, and TestingError when no node is up.
        """
        self._any().delete_topic(name)
        for node in self.nodes.values():
            if node.is_up:
                node.call("await_topic", name, False, timeout_s=CALL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # -- internals -------------------------------------------------------------------------------------------------------------------

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
            # Static voters, not voters in the log: a cluster that is started again from its directory may have other ports.
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
        from odradek.testing.kit.node_thread import MortalDisk

        disk = MortalDisk(sync=not self._place.is_own)
        rng = random.Random()
        cluster_id = uuid_to_string(random_uuid(rng))
        for node in self.ids:
            if not os.path.exists(os.path.join(self.directory_of(node), META_PROPERTIES)):
                format_storage(disk, self._spec(node).config(), cluster_id=cluster_id, rng=rng, now_ms=time.time_ns() // 1_000_000)


def unique_name(prefix: str = "topic") -> str:
    """Return a new name: `prefix` and 12 random hexadecimal digits."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


__all__ = ["EmbeddedBroker", "EmbeddedCluster", "EmbeddedNode", "TestingError", "Topic", "free_ports", "unique_name"]
