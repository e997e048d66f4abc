"""Real brokers inside a test process: threads of their own, temporary directories, free ports.

    with EmbeddedBroker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    with EmbeddedCluster(3) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
        cluster.kill(1)
        cluster.restart(1)

Any Kafka client can talk to them. A directory goes at the end, unless it was given.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from odradek.base.disk import Disk
from odradek.base.ids import random_uuid, uuid_to_string
from odradek.config.broker import BrokerConfig, standalone_config
from odradek.controller.format import format_storage
from odradek.storage.disk import OsDisk
from odradek.storage.names import META_PROPERTIES
from odradek.testing.node_thread import MortalDisk, NodeThread

_HOST: Final = "127.0.0.1"
_VOTERS: Final = 3
_PORTS: Final = (20_000, 32_000)
"""Below those that the system gives to outgoing connections: a client that dials a broker which is down must not find itself."""


class EmbeddedBroker:
    """A single-node cluster on 127.0.0.1; `settings` are Kafka's broker keys. Start and stop it once."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, directory: str | None = None, disk: Disk | None = None) -> None:
        """`disk`: in place of the system's, for tests of a disk that fails."""
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="odradek-")
        self.directory = directory or (self._own.name if self._own else "")
        self._settings = {
            "log.dirs": self.directory,
            "listeners": f"PLAINTEXT://{_HOST}:0,CONTROLLER://{_HOST}:0",
            **(settings or {}),
        }
        self._thread = NodeThread(lambda: standalone_config(self._settings), disk=disk, format_if_empty=True)

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self._thread.ready.result(0)

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given."""
        return f"{_HOST}:{self.port}"

    def start(self, timeout_s: float = 30.0) -> Self:
        """Returns when clients are served; raises what kept the broker from starting, TimeoutError after `timeout_s`."""
        self._thread.start()
        try:
            self._thread.ready.result(timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """An orderly shutdown, also of a broker that is still starting; returns when all is closed."""
        self._thread.stop()
        if self._own is not None:
            self._own.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class EmbeddedCluster:
    """Nodes 1 to n on 127.0.0.1, each a broker; the first three (or all of fewer) are controllers, too.

    `settings` are Kafka's broker keys for all of them. `directory` keeps the nodes' directories (`node-1`, ...); a cluster that is there
    already is started again. Each node has its ports as long as the object lives, so that clients find it again after a restart.

    The nodes share one interpreter, and so one core. `kill` leaves behind what SIGKILL of a process does: its connections break, nothing
    is flushed or told, its locks are free; what was written is in the files.
    """

    def __init__(self, nodes: int = 3, settings: Mapping[str, str] | None = None, *, directory: str | None = None) -> None:
        """ValueError for less than one node."""
        if nodes < 1:
            raise ValueError(f"a cluster of {nodes} nodes")
        self.ids = range(1, nodes + 1)
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="odradek-")
        self.directory = directory or (self._own.name if self._own else "")
        self._settings = dict(settings or {})
        ports = free_ports(2 * nodes)
        self._ports = dict(zip(self.ids, ports[:nodes], strict=True))
        self._controller_ports = dict(zip(self.ids, ports[nodes:], strict=True))
        self._threads: dict[int, NodeThread] = {}

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given: all nodes, whether they are up or not."""
        return ",".join(f"{_HOST}:{port}" for port in self._ports.values())

    def port(self, node: int) -> int:
        """The port of a node that clients connect to."""
        return self._ports[node]

    def directory_of(self, node: int) -> str:
        """The log directory of a node."""
        return os.path.join(self.directory, f"node-{node}")

    def is_up(self, node: int) -> bool:
        """Whether the node was started and neither stopped nor killed since."""
        return node in self._threads

    def start(self, timeout_s: float = 60.0) -> Self:
        """Starts every node that is not up; returns when they serve clients. Raises what kept one from starting, TimeoutError after
        `timeout_s`; everything is stopped then.
        """
        self._format()
        down = [node for node in self.ids if node not in self._threads]
        for node in down:
            self._begin(node)
        try:
            self._wait(down, timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self, node: int, timeout_s: float = 60.0) -> None:
        """Starts a node that was stopped or killed, as `start` does. RuntimeError when it is up. Without a quorum it cannot serve."""
        if node in self._threads:
            raise RuntimeError(f"node {node} is up")
        self._begin(node)
        try:
            self._wait([node], timeout_s)
        except BaseException:
            self._threads.pop(node).stop()
            raise

    def kill(self, node: int) -> None:
        """Ends a node as SIGKILL does. RuntimeError when it is not up."""
        self._take(node).kill()

    def stop(self, node: int | None = None) -> None:
        """An orderly shutdown: of one node (RuntimeError when it is not up), or of all, after which the cluster is gone."""
        if node is not None:
            self._take(node).stop()
            return
        threads, self._threads = self._threads, {}
        for thread in threads.values():
            thread.begin_stop()
        for thread in threads.values():
            thread.stop()
        if self._own is not None:
            self._own.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # -- inside ----------------------------------------------------------------------------------------------------------------------

    def _take(self, node: int) -> NodeThread:
        if node not in self._threads:
            raise RuntimeError(f"node {node} is not up")
        return self._threads.pop(node)

    def _begin(self, node: int) -> None:
        thread = self._threads[node] = NodeThread(lambda: self._config(node), disk=MortalDisk())
        thread.start()

    def _wait(self, nodes: list[int], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for node in nodes:
            self._threads[node].ready.result(max(0.0, deadline - time.monotonic()))

    def _config(self, node: int) -> BrokerConfig:
        voters = list(self.ids)[:_VOTERS]
        is_voter = node in voters
        copies = min(3, len(self.ids))
        controller = f",CONTROLLER://{_HOST}:{self._controller_ports[node]}" if is_voter else ""
        return BrokerConfig(
            {
                "process.roles": "broker,controller" if is_voter else "broker",
                "node.id": str(node),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{_HOST}:{self._ports[node]}{controller}",
                "inter.broker.listener.name": "PLAINTEXT",
                # Not in the log: a cluster that is started again from its directory may have other ports.
                "controller.quorum.voters": ",".join(f"{each}@{_HOST}:{self._controller_ports[each]}" for each in voters),
                "log.dirs": self.directory_of(node),
                "offsets.topic.replication.factor": str(copies),
                "transaction.state.log.replication.factor": str(copies),
                "transaction.state.log.min.isr": str(max(1, copies - 1)),
                **self._settings,
            }
        )

    def _format(self) -> None:
        rng = random.Random()
        cluster_id = uuid_to_string(random_uuid(rng))
        for node in self.ids:
            if not os.path.exists(os.path.join(self.directory_of(node), META_PROPERTIES)):
                format_storage(OsDisk(), self._config(node), cluster_id=cluster_id, rng=rng, now_ms=time.time_ns() // 1_000_000)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    found: list[int] = []
    candidates = random.sample(range(*_PORTS), k=_PORTS[1] - _PORTS[0])
    for port in candidates:
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((_HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {_PORTS[0]} to {_PORTS[1]}")
