"""A real node of a cluster for tests, through all its lives: in a thread of the test's process, or in a process of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from odradek.base.errors import ErrorCode, KafkaError
from odradek.testing.controls import ClockControl, Faults
from odradek.testing.faults import ApiName, api_key
from odradek.testing.node_agent import NodeSpec, TestingError, count_of
from odradek.testing.node_process import NodeProcess
from odradek.testing.node_thread import NodeThread
from odradek.testing.places import HOST

if TYPE_CHECKING:
    from odradek.base.disk import Disk
    from odradek.testing.gate import RequestKind

START_S: Final = 60.0
CALL_S: Final = 30.0


class EmbeddedNode:
    """Made by `EmbeddedBroker` and `EmbeddedCluster`. Its methods may be called from any thread, and wait for the node; not from the node's
    own handlers. TestingError where the node has to be up and is not.
    """

    def __init__(
        self, node_id: int, new_spec: Callable[[], NodeSpec], directory: str, *, process: bool, log_path: str, disk: Disk | None = None
    ) -> None:
        self.node_id = node_id
        self.log_path = log_path
        """Where the log output of a broker in a process of its own goes."""
        self.directory = directory
        """Its log directory."""
        self.ahead_s = 0.0
        self.faults = Faults(lambda: [self])
        """What goes wrong for its clients; ends with the node's life."""
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
        """Whether the node was started and neither stopped nor killed since."""
        return self._life is not None

    @property
    def pid(self) -> int | None:
        """Of the process that it runs in; None while it is down."""
        life = self._life
        return None if life is None else life.pid if isinstance(life, NodeProcess) else os.getpid()

    @property
    def port(self) -> int:
        """The port that clients connect to. TestingError before it has one."""
        life = self._life
        if life is None or not life.ready.done():
            raise TestingError("the broker is not up")
        return life.ready.result(0)

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given."""
        return f"{HOST}:{self.port}"

    def begin(self) -> None:
        """Starts it and goes on meanwhile. TestingError when it is up."""
        self._must_be_ours()
        with self._lock:
            if self._life is not None:
                raise TestingError(f"node {self.node_id} is up")
            spec = self._new_spec()._replace(ahead_s=self.ahead_s)
            life = self._life = NodeProcess(spec, self.log_path) if self._in_process else NodeThread(spec, disk=self._disk)
            life.start()

    def wait(self, timeout_s: float) -> None:
        """Returns when it serves clients. Raises what kept it from starting, TimeoutError after `timeout_s`."""
        life = self._life
        if life is None:
            raise TestingError("the broker is not up")
        try:
            life.ready.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"node {self.node_id} does not serve after {timeout_s:g} s") from None

    def start(self, timeout_s: float = START_S) -> Self:
        """Returns when it serves clients. Raises what kept it from starting, TimeoutError after `timeout_s`: it is down then."""
        self.begin()
        try:
            self.wait(timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """An orderly shutdown, also of a node that is still starting; returns when all is closed. No error when it is down."""
        life = self._take()
        if life is not None:
            life.stop()

    def kill(self) -> None:
        """Ends it as SIGKILL does: connections break, nothing is flushed or told; what was written is in the files. TestingError when it is
        down.
        """
        life = self._take()
        if life is None:
            raise TestingError(f"node {self.node_id} is not up")
        life.kill()

    def restart(self, timeout_s: float = START_S) -> None:
        """Stops it in good order if it is up, and starts it again on the same directory and port, as `start` does."""
        self._must_be_ours()
        life = self._take()
        if life is not None:
            life.stop()
        self.start(timeout_s)

    def pause(self) -> None:
        """As SIGSTOP does: nothing of it goes on until `resume`, while its sockets go on receiving. Nothing else can be asked meanwhile."""
        self._up().pause()

    def resume(self) -> None:
        """Takes `pause` back."""
        self._up().resume()

    def begin_stop(self) -> None:
        """An orderly shutdown begins; `stop` waits for it."""
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
            raise TestingError(f"node {self.node_id} is not up")
        return life

    def _must_be_ours(self) -> None:
        if os.getpid() != self._pid:
            raise TestingError("the broker belongs to the process that this one was forked off")

    def call(self, name: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """What the node's agent (`testing.node_agent`) answers."""
        return self._up().call(name, *arguments, timeout_s=timeout_s)

    # -- topics and logs -------------------------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Its name, when this node knows a leader for each of its partitions. KafkaError for what Kafka refuses (TOPIC_ALREADY_EXISTS).
        `replication_factor` -1 is the broker's default.
        """
        self._topic_call("create_topic", name, partitions, replication_factor, dict(configs or {}))
        self.call("await_topic", name, True, timeout_s=CALL_S)
        return name

    def delete_topic(self, name: str) -> None:
        """Returns when this node does not know it any more. KafkaError for what Kafka refuses (UNKNOWN_TOPIC_OR_PARTITION)."""
        self._topic_call("delete_topic", name)
        self.call("await_topic", name, False, timeout_s=CALL_S)

    def _topic_call(self, *arguments: Any) -> None:
        """Without an active controller, which a cluster finds again, it is asked once more."""
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
        """Compacts what this node has of the topic, now, from the start, and however little there is to gain; how many partitions were.

        The active segment is closed first, so that only what was written later is left out. Kafka's own limits hold: nothing from the first
        open transaction on, nothing younger than min.compaction.lag.ms, and tombstones stay for delete.retention.ms (`clock.advance`).
        TestingError for a topic that is not there, or has no cleanup.policy=compact.
        """
        return int(self.call("compact", topic, partition))

    def apply_retention(self, topic: str | None = None) -> int:
        """Applies retention.ms and retention.bytes to all topics or to one, now; how many segments went. Their records cannot be read any
        more, their files go file.delete.delay.ms later. TestingError for a topic that is not there.
        """
        return int(self.call("apply_retention", topic))

    # -- what can be seen of it ------------------------------------------------------------------------------------------------------

    def requests(self) -> dict[RequestKind, int]:
        """How many requests have come in since it was started, by API, version and client id; other nodes have ids `node-1`, ..."""
        counts: dict[RequestKind, int] = self.call("counts")
        return counts

    def seen(self, api: ApiName | None = None, *, client_id: str | None = None) -> int:
        """How many requests of clients have come in since it was started; for the arguments see `Faults`."""
        return count_of(self.requests(), None if api is None else api_key(api), client_id)

    def wait_until_seen(self, api: ApiName, count: int = 1, *, client_id: str | None = None, timeout_s: float = CALL_S) -> int:
        """Returns when `seen` is so many, with their number. TimeoutError, naming how many there are, after `timeout_s`."""
        key = api_key(api)
        try:
            return int(self.call("wait_until_seen", int(key), count, client_id, timeout_s=timeout_s))
        except TimeoutError:
            seen = self.seen(key, client_id=client_id)
            raise TimeoutError(f"{seen} {key.name} requests in {timeout_s:g} s, not {count}") from None

    def log_text(self, most: int = 100_000) -> str:
        """The end of that log, `most` bytes of it; empty for a broker in a thread, which logs through `logging` as all of its process."""
        try:
            with Path(self.log_path).open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - most))
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""
