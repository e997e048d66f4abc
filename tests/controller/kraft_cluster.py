"""KRaft nodes on virtual disks and virtual time, connected by encoded messages: no sockets, no threads."""

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
from odradek.testing.disk import VirtualDisk
from tests.clock import ManualClock

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


class Quorum:
    """Nodes 1..n; node k listens at host `node<k>`."""

    def __init__(self, nodes: int = 1, *, dynamic: bool = False, settings: dict[str, str] | None = None) -> None:
        self.clock = ManualClock(now_s=100.0)
        self.ids = range(1, nodes + 1)
        self.dynamic = dynamic
        self.settings = settings or {}
        self.disks = {node: VirtualDisk(time_ms=self.clock.time_ms) for node in self.ids}
        self.nodes: dict[int, KRaftNode] = {}
        self.faults: dict[int, BaseException] = {}
        self.cut: set[int] = set()
        self.executor: HeldExecutor | None = None
        """Where fsyncs and snapshots are run by the nodes started from now on; None: inline."""
        for node in self.ids:
            self.format(node)

    def config(self, node: int) -> BrokerConfig:
        servers = ",".join(f"node{each}:9093" for each in self.ids)
        quorum = (
            {"controller.quorum.bootstrap.servers": servers}
            if self.dynamic
            else {"controller.quorum.voters": ",".join(f"{each}@node{each}:9093" for each in self.ids)}
        )
        return BrokerConfig(
            {
                "node.id": str(node),
                "process.roles": "controller",
                "listeners": f"CONTROLLER://node{node}:9093",
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

        controllers = ",".join(f"{each}@node{each}:9093:{uuid_to_string(self.directory_id(each))}" for each in self.ids)
        format_storage(
            self.disks[node],
            self.config(node),
            cluster_id=CLUSTER_ID,
            rng=random.Random(node),
            now_ms=self.clock.time_ms(),
            initial_controllers=controllers if self.dynamic else None,
        )

    def start(self, *nodes: int) -> None:
        for node in nodes or self.ids:
            properties = read_meta_properties(self.disks[node], "/data")
            assert properties is not None
            assert properties.directory_id is not None
            config = self.config(node)
            self.nodes[node] = KRaftNode(
                log=MetadataLog.open(self.disks[node], self.clock, config),
                config=config,
                cluster_id=CLUSTER_ID,
                directory_id=properties.directory_id,
                disk=self.disks[node],
                clock=self.clock,
                rng=random.Random(node),
                channel=_Channel(self, node),
                loop=cast("asyncio.AbstractEventLoop | None", self.executor),
                on_fault=lambda error, node=node: self.faults.__setitem__(node, error),
            )
            self.nodes[node].start()

    def crash(self, node: int) -> None:
        """The process dies and the machine loses what was not flushed."""
        del self.nodes[node]
        self.disks[node] = self.disks[node].crash(random.Random(7))

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
    """Encodes, carries, decodes; a message takes a millisecond each way."""

    def __init__(self, quorum: Quorum, source: int) -> None:
        self._quorum = quorum
        self._source = source

    def send(self, node_id: int, host: str, port: int, api_key: ApiKey, request: Message) -> Deferred[Message]:
        answer: Deferred[Message] = Deferred()
        quorum, source = self._quorum, self._source
        target = int(host.removeprefix("node"))
        assert port == 9093
        try:
            data = request.encode(VERSIONS[api_key])
        except UnsupportedVersionError as error:  # as `network.peers` tells it
            return Deferred.failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)))
        if source in quorum.cut or target in quorum.cut:
            quorum.clock.call_later(1.0, answer.fail, ConnectionError("cut"))
            return answer

        def reply(finished: Deferred[Any]) -> None:
            if finished.error is not None:
                error = finished.error
                code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
                response: Message = response_class(api_key)(error_code=code)
            else:
                response = finished.result()
            version = VERSIONS[api_key]
            encoded = response.encode(version)
            quorum.clock.call_later(0.001, lambda: answer.complete(response_class(api_key).decode(encoded, version)))

        def arrive() -> None:
            node = quorum.nodes.get(target)
            if node is None:
                answer.fail(ConnectionError("down"))
                return
            decoded: Any = request_class(api_key).decode(data, VERSIONS[api_key])
            try:
                serve(node, decoded).add_callback(reply)
            except KafkaError as error:
                reply(Deferred.failed(error))

        quorum.clock.call_later(0.001, arrive)
        return answer


_HANDLERS: dict[int, Callable[..., Any]] = {
    ApiKey.VOTE: vote.handle,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch.handle,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch.handle,
    ApiKey.FETCH: raft_fetch.handle,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
    ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
}


def serve(node: KRaftNode, request: Message) -> Any:
    """What the node's handler answers to a request of another node, in the newest version."""
    context = SimpleNamespace(api_version=API_INFO[request.API_KEY].max_version)
    return _HANDLERS[request.API_KEY](context, request, SimpleNamespace(kraft=node))


def set_config(name: str, value: str | None) -> Callable[[ControllerContext], ControllerResult[str]]:
    """An operation that writes one broker config."""

    def operation(_: ControllerContext) -> ControllerResult[str]:
        record = ConfigRecord(resource_type=4, resource_name="", name=name, value=value)
        return ControllerResult([VersionedRecord(record, 0)], f"{name} is {value}")

    return operation
