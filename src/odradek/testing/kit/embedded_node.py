"""Real node of a test cluster, through several lives: in a thread of the test's process, or in a separate process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from odradek.base.errors import ErrorCode, KafkaError
from odradek.testing.kit.controls import ClockControl, Faults
from odradek.testing.kit.faults import ApiName, api_key
from odradek.testing.kit.node_agent import NodeSpec, TestingError, count_of
from odradek.testing.kit.node_process import NodeProcess
from odradek.testing.kit.node_thread import NodeThread
from odradek.testing.kit.temporary import HOST

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.testing.kit.gate import RequestKind

START_S: Final = 60.0
CALL_S: Final = 30.0


class EmbeddedNode:
    """Node of an `EmbeddedBroker` or `EmbeddedCluster`.

    Methods may be called from any thread except the node's own, and wait for the node. Methods that need a running node raise TestingError
    while the node is down.
    """

    def __init__(
        self, node_id: int, new_spec: Callable[[], NodeSpec], directory: str, *, process: bool, log_path: str, disk: Disk | None = None
    ) -> None:
        self.node_id = node_id
        self.log_path = log_path
        """File that receives the log output of a node in a separate process."""
        self.directory = directory
        """Log directory of the node."""
        self.ahead_s = 0.0
        self.faults = Faults(lambda: [self])
        """Faults for clients of this node. Faults end with the node's life."""
        self.clock = ClockControl(lambda: [self])
        self._new_spec = new_spec
        self._in_process = process
        self._disk = disk
        self._life: NodeThread | NodeProcess | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    # -- lives -----------------------------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """True if the node was started and neither stopped nor killed since."""
        return self._life is not None

    @property
    def pid(self) -> int | None:
        """Id of the process that the node runs in, or None while the node is down."""
        life = self._life
        return None if life is None else life.pid if isinstance(life, NodeProcess) else os.getpid()

    @property
    def port(self) -> int:
        """Port that clients connect to. Raises TestingError before the port is known."""
        life = self._life
        if life is None or not life.ready.done():
            raise TestingError("the broker is not running")
        return life.ready.result(0)

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return f"{HOST}:{self.port}"

    def begin(self) -> None:
        """Begin to start the node without waiting for the end of the start. Raises TestingError when the node is up."""
        self._must_be_ours()
        with self._lock:
            if self._life is not None:
                raise TestingError(f"node {self.node_id} is already running")
            spec = self._new_spec()._replace(ahead_s=self.ahead_s)
            life = NodeProcess(spec, self.log_path) if self._in_process else NodeThread(spec, disk=self._disk)
            life.start()
            self._life = life

    def wait(self, timeout_s: float) -> None:
        """Wait until the node serves clients. Raises TimeoutError after `timeout_s` seconds, or the error that stopped the start."""
        life = self._life
        if life is None:
            raise TestingError("the broker is not running")
        try:
            life.ready.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"node {self.node_id} does not respond after {timeout_s:g} s") from None

    def start(self, timeout_s: float = START_S) -> Self:
        """Start the node, and wait until it serves clients.

        Raises TestingError when the node is up. Raises TimeoutError after `timeout_s` seconds, or the error that stopped the start; the
        node is down then.
        """
        self.begin()
        try:
            self.wait(timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Shut the node down in order, even while it is starting, and wait until all is closed. No error when the node is down."""
        life = self._take()
        if life is not None:
            life.stop()

    def kill(self) -> None:
        """End the node as SIGKILL does: connections break, written bytes are in the files, and the node flushes nothing and sends no
        message.

        Raises TestingError when the node is down.
        """
        life = self._take()
        if life is None:
            raise TestingError(f"node {self.node_id} is not running")
        life.kill()

    def restart(self, timeout_s: float = START_S) -> None:
        """Stop the node in order if it is up, and start it again on the same directory and port. Raises the errors of `start`."""
        self._must_be_ours()
        life = self._take()
        if life is not None:
            life.stop()
        self.start(timeout_s)

    def pause(self) -> None:
        """Pause the node as SIGSTOP does, until `resume`. Its sockets still receive bytes. Other calls to the node wait for `resume`."""
        self._up().pause()

    def resume(self) -> None:
        """Let a paused node go on."""
        self._up().resume()

    def begin_stop(self) -> None:
        """Begin an orderly shutdown; `stop` waits for its end."""
        if self._life is not None and os.getpid() == self._pid:
            self._life.begin_stop()

    def _take(self) -> NodeThread | NodeProcess | None:
        if os.getpid() != self._pid:
            return None
        with self._lock:
            life, self._life = self._life, None
        return life

    def _up(self) -> NodeThread | NodeProcess:
        self._must_be_ours()
        life = self._life
        if life is None:
            raise TestingError(f"node {self.node_id} is not running")
        return life

    def _must_be_ours(self) -> None:
        if os.getpid() != self._pid:
            raise TestingError("the broker belongs to the process from which this process was forked")

    def call(self, name: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Call the method `do_<name>` of the node's agent (`testing.kit.node_agent`), and return its result."""
        return self._up().call(name, *arguments, timeout_s=timeout_s)

    # -- topics and logs -------------------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until this node knows a leader for each partition, and return the topic's name.

        `replication_factor` -1 is the broker's default. Raises KafkaError when Kafka refuses the topic (TOPIC_ALREADY_EXISTS).
        """
        self._topic_call("create_topic", name, partitions, replication_factor, dict(configs or {}))
        self.call("await_topic", name, True, timeout_s=CALL_S)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until this node no longer knows the topic. Raises KafkaError when Kafka refuses
        (UNKNOWN_TOPIC_OR_PARTITION).
        """
        self._topic_call("delete_topic", name)
        self.call("await_topic", name, False, timeout_s=CALL_S)

    def _topic_call(self, *arguments: Any) -> None:
        """Call the agent, and retry NOT_CONTROLLER for 30 s: a cluster without an active controller elects a new one."""
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                self.call(*arguments, timeout_s=CALL_S)
                return
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def compact(self, topic: str, partition: int | None = None) -> int:
        """Compact this node's logs of the topic now, from their start, however little there is to gain. Return the number of compacted
        partitions.

        The active segment is rolled first, so that only later records are left out. Kafka's limits hold: records from the first open
        transaction on stay, records younger than min.compaction.lag.ms stay, and tombstones stay for delete.retention.ms (see
        `clock.advance`). Raises TestingError for an unknown topic, and for a topic without cleanup.policy=compact.
        """
        return int(self.call("compact", topic, partition))

    def apply_retention(self, topic: str | None = None) -> int:
        """Apply retention.ms and retention.bytes now, to one topic or to all, and return the number of deleted segments.

        Records of deleted segments cannot be read any longer; the files are removed file.delete.delay.ms later. Raises TestingError for an
        unknown topic.
        """
        return int(self.call("apply_retention", topic))

    # -- observation -----------------------------------------------------------------------------------------------------------------

    def requests(self) -> dict[RequestKind, int]:
        """Return the number of requests received since the node's start, by API, version and client id. Other nodes have client ids
        `node-1`, ...
        """
        counts: dict[RequestKind, int] = self.call("counts")
        return counts

    def seen(self, api: ApiName | None = None, *, client_id: str | None = None) -> int:
        """Return the number of requests of clients received since the node's start. `Faults` describes the arguments."""
        return count_of(self.requests(), None if api is None else api_key(api), client_id)

    def wait_until_seen(self, api: ApiName, count: int = 1, *, client_id: str | None = None, timeout_s: float = CALL_S) -> int:
        """Wait until `seen` is at least `count`, and return that number. Raises TimeoutError, which tells the number, after `timeout_s`
        seconds.
        """
        key = api_key(api)
        try:
            return int(self.call("wait_until_seen", int(key), count, client_id, timeout_s=timeout_s))
        except TimeoutError:
            seen = self.seen(key, client_id=client_id)
            raise TimeoutError(f"{seen} {key.name} requests within {timeout_s:g} s, not {count}") from None

    def log_text(self, most: int = 100_000) -> str:
        """Return the last `most` bytes of the node's log output, or "" for a node in a thread, which logs through `logging` of the test's
        process.
        """
        try:
            with Path(self.log_path).open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - most))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""
