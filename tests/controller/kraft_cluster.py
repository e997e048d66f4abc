"""KRaft nodes on virtual disks and virtual time, connected by encoded messages: no sockets, no threads.

A node is a process that may be killed, or stand still and go on: then what waits in its sockets is served before its timers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.broker import BrokerConfig
from odradek.consensus.messages import LeaderAndEpoch
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult
from odradek.controller.format import format_storage
from odradek.controller.kraft import KRaftNode
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.handlers.cluster import begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch_snapshot, raft_fetch, vote
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.protocol.registry import request_class, response_class
from odradek.protocol.schema import Message
from odradek.storage.meta_properties import read_meta_properties
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock, Timer

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
VERSIONS = {ApiKey.VOTE: 2, ApiKey.BEGIN_QUORUM_EPOCH: 1, ApiKey.END_QUORUM_EPOCH: 1, ApiKey.FETCH: 18, ApiKey.FETCH_SNAPSHOT: 1}


class RecordingPublisher:
    """Keeps every image it is told of."""

    def __init__(self) -> None:
        self.images: list[MetadataImage] = []
        self.deltas: list[MetadataDelta] = []
        self.leaders: list[LeaderAndEpoch] = []

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        self.deltas.append(delta)
        self.images.append(image)
        self.leaders.append(leader_and_epoch)


class HeldExecutor:
    """Jobs wait until the test runs them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], object], Future[object]]] = []

    def run_in_executor(self, _executor: None, work: Callable[[], object]) -> Future[object]:
        """As that of an event loop."""
        future: Future[object] = Future()
        self.waiting.append((work, future))
        return future

    def one(self) -> None:
        work, future = self.waiting.pop(0)
        try:
            result = work()
        except OSError as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def all(self) -> None:
        while self.waiting:
            self.one()


class Process:
    """One life of a node. It is the node's clock: its timers run neither while it stands still nor after its end."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.alive = True
        self.paused = False
        self._inbox: list[Callable[[], object]] = []
        self._late: list[tuple[Timer, Callable[[], object]]] = []
        self.connections: dict[Deferred[Message], None] = {}
        """The answers that others wait for."""

    def time_ms(self) -> int:
        return self._clock.time_ms()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer: Timer

        def due() -> None:
            if self.paused:
                self._late.append((timer, lambda: callback(*args)))
            elif self.alive:
                callback(*args)

        timer = self._clock.call_later(delay_s, due)
        return timer

    def do(self, work: Callable[[], object]) -> None:
        """Something reaches the process from outside, now or when it goes on."""
        if self.paused:
            self._inbox.append(work)
        elif self.alive:
            work()

    def pause(self) -> None:
        self.paused = self.alive

    def go_on(self) -> None:
        """Reads what waits in its sockets, then runs the timers that are late."""
        self.paused = False
        inbox, self._inbox = self._inbox, []
        for work in inbox:
            self.do(work)
        late, self._late = self._late, []
        for timer, callback in late:
            if not timer.cancelled:
                self.do(callback)

    def kill(self) -> None:
        """Whoever waits for an answer of it sees the connection break."""
        self.alive = self.paused = False
        self._inbox.clear()
        self._late.clear()
        connections, self.connections = self.connections, {}
        for answer in connections:
            self._clock.call_later(0.001, answer.fail, ConnectionResetError("killed"))


class Quorum:
    """Nodes 1..n; node k listens at host `node<k>`. Nodes in `observers` are brokers."""

    def __init__(self, nodes: int = 1, *, dynamic: bool = False, settings: dict[str, str] | None = None, observers: int = 0) -> None:
        """`observers` of the nodes, those with the largest ids, are brokers."""
        self.clock = ManualClock(now_s=100.0)
        self.ids = range(1, nodes + 1)
        self.voters = self.ids[: nodes - observers]
        self.dynamic = dynamic
        self.settings = settings or {}
        self.disks = {node: VirtualDisk(time_ms=self.clock.time_ms) for node in self.ids}
        self.nodes: dict[int, KRaftNode] = {}
        self.processes: dict[int, Process] = {}
        self.faults: dict[int, BaseException] = {}
        self.cut: set[int] = set()
        """Nodes that hear nobody and are heard by nobody."""
        self.cut_links: set[tuple[int, int]] = set()
        """(from, to)."""
        self.executor: HeldExecutor | None = None
        """Where fsyncs and snapshots are run by the nodes started from now on; None: inline."""
        for node in self.ids:
            self.format(node)

    def config(self, node: int) -> BrokerConfig:
        servers = ",".join(f"node{each}:9093" for each in self.voters)
        quorum = (
            {"controller.quorum.bootstrap.servers": servers}
            if self.dynamic
            else {"controller.quorum.voters": ",".join(f"{each}@node{each}:9093" for each in self.voters)}
        )
        controller = node in self.voters
        return BrokerConfig(
            {
                "node.id": str(node),
                "process.roles": "controller" if controller else "broker",
                "listeners": f"CONTROLLER://node{node}:9093" if controller else f"PLAINTEXT://node{node}:9092",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": "/data",
                "metadata.max.idle.interval.ms": "0",
                **quorum,
                **self.settings,
            }
        )

    def directory_id(self, node: int) -> UUID:
        return UUID(int=(1 << 100) + node)

    def format(self, node: int) -> None:
        from odradek.base.ids import uuid_to_string

        controllers = ",".join(f"{each}@node{each}:9093:{uuid_to_string(self.directory_id(each))}" for each in self.voters)
        format_storage(
            self.disks[node],
            self.config(node),
            # With it a new controller would set min.insync.replicas, and a new cluster would hold more than tests write.
            feature_levels={"eligible.leader.replicas.version": 0},
            cluster_id=CLUSTER_ID,
            rng=random.Random(node),
            now_ms=self.clock.time_ms(),
            initial_controllers=controllers if self.dynamic and node in self.voters else None,
        )

    def start(self, *nodes: int) -> None:
        for node in nodes or self.ids:
            properties = read_meta_properties(self.disks[node], "/data")
            assert properties is not None
            assert properties.directory_id is not None
            config = self.config(node)
            process = self.processes[node] = Process(self.clock)
            self.nodes[node] = KRaftNode(
                log=MetadataLog.open(self.disks[node], process, config),
                config=config,
                cluster_id=CLUSTER_ID,
                directory_id=properties.directory_id,
                disk=self.disks[node],
                clock=process,
                rng=self.random_for(node),
                channel=_Channel(self, node, process),
                loop=cast("asyncio.AbstractEventLoop | None", self.executor_for(process)),
                on_fault=lambda error, node=node: self.faults.__setitem__(node, error),
            )
            self.nodes[node].start()

    def random_for(self, node: int) -> random.Random:
        return random.Random(node)

    def executor_for(self, process: Process) -> object | None:
        """What stands for the loop of a node, which asks it for nothing but its executor."""
        return self.executor

    def kill(self, node: int) -> None:
        """The process dies; the machine has still all that it wrote."""
        self.nodes.pop(node)
        self.processes.pop(node).kill()

    def crash(self, node: int) -> None:
        """The process dies and the machine loses what was not flushed."""
        self.kill(node)
        self.disks[node] = self.disks[node].crash(random.Random(7))

    def pause(self, node: int) -> None:
        """The process stands still (SIGSTOP)."""
        self.processes[node].pause()

    def go_on(self, node: int) -> None:
        self.processes[node].go_on()

    def is_cut(self, source: int, target: int) -> bool:
        return source in self.cut or target in self.cut or (source, target) in self.cut_links

    def submit(self, node: int, operation: Callable[[ControllerContext], ControllerResult[Any]]) -> Deferred[Any]:
        """A client's request: it waits in the node's socket while that stands still."""
        answer: Deferred[Any] = Deferred()

        self.processes[node].do(lambda: self.nodes[node].submit(operation).add_callback(lambda done: _pass_on(done, answer)))
        return answer

    @property
    def active(self) -> KRaftNode:
        active = [node for node in self.nodes.values() if node.is_active_controller]
        return max(active, key=lambda node: node.leader_and_epoch.epoch)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        for _ in range(int(seconds * 100)):
            if condition():
                return
            self.clock.advance_s(0.01)
        raise AssertionError(f"not within {seconds} s; faults: {self.faults}")

    def wait_for_leader(self) -> KRaftNode:
        self.wait_for(lambda: any(node.is_active_controller for node in self.nodes.values()))
        return self.active

    def wait_for_all(self) -> None:
        """Every node has the newest image."""
        self.wait_for(
            lambda: (
                len({node.image.offset for node in self.nodes.values()}) == 1 and self.active.next_offset - 1 == self.active.image.offset
            )
        )


class _Channel:
    """Encodes, carries, decodes; a message takes a millisecond each way, or gets lost."""

    def __init__(self, quorum: Quorum, source: int, process: Process) -> None:
        self._quorum = quorum
        self._source = source
        self._process = process

    def send(self, node_id: int, host: str, port: int, api_key: ApiKey, request: Message) -> Deferred[Message]:
        answer: Deferred[Message] = Deferred()
        quorum, source = self._quorum, self._source
        target = int(host.removeprefix("node"))
        assert port == 9093
        try:
            data = request.encode(VERSIONS[api_key])
        except UnsupportedVersionError as error:  # as `network.peers` tells it
            return Deferred.failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)))
        # Silence, or an answer, or the end of the connection: whichever is known first, to a process that is there to hear it.
        wire: Deferred[Message] = Deferred()
        wire.add_callback(lambda done: self._process.do(lambda: _pass_on(done, answer)))
        quorum.clock.call_later(2.0, wire.fail, KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        def reply(finished: Deferred[Any]) -> None:
            if quorum.is_cut(target, source):
                return
            if finished.error is not None:
                error = finished.error
                code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
                response: Message = response_class(api_key)(error_code=code)
            else:
                response = finished.result()
            version = VERSIONS[api_key]
            encoded = response.encode(version)
            quorum.clock.call_later(0.001, lambda: wire.complete(response_class(api_key).decode(encoded, version)))

        def arrive() -> None:
            process = quorum.processes.get(target)
            if process is None:
                wire.fail(ConnectionRefusedError("no listener"))
                return
            process.connections[wire] = None
            wire.add_callback(lambda _: process.connections.pop(wire, None))
            process.do(lambda: serve_bytes(quorum.nodes[target], api_key, data, reply))

        if not quorum.is_cut(source, target):
            quorum.clock.call_later(0.001, arrive)
        return answer


def _pass_on(done: Deferred[Any], answer: Deferred[Any]) -> None:
    if done.error is not None:
        answer.fail(done.error)
    else:
        answer.complete(done.result())


def serve_bytes(node: KRaftNode, api_key: ApiKey, data: bytes, reply: Callable[[Deferred[Any]], None]) -> None:
    """Hands a request to the node's handler."""
    decoded: Any = request_class(api_key).decode(data, VERSIONS[api_key])
    try:
        serve(node, decoded).add_callback(reply)
    except KafkaError as error:
        reply(Deferred.failed(error))


HANDLERS: dict[int, Callable[..., Any]] = {
    ApiKey.VOTE: vote.handle,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch.handle,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch.handle,
    ApiKey.FETCH: raft_fetch.handle,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
    ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
}


def serve(node: KRaftNode, request: Message) -> Any:
    """What the node's handler answers to a request of another node, in the newest version."""
    context = SimpleNamespace(api_key=request.API_KEY, api_version=API_INFO[request.API_KEY].max_version)
    return HANDLERS[request.API_KEY](context, request, SimpleNamespace(kraft=node))


def set_config(name: str, value: str | None) -> Callable[[ControllerContext], ControllerResult[str]]:
    """An operation that writes one broker config."""

    def operation(_: ControllerContext) -> ControllerResult[str]:
        record = ConfigRecord(resource_type=4, resource_name="", name=name, value=value)
        return ControllerResult([VersionedRecord(record, 0)], f"{name} is {value}")

    return operation
