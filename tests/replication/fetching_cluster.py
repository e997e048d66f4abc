"""Brokers in one process that copy from one another: their real services, with frames between them that a test delays, damages or loses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers.scopes import BROKER
from odradek.network.chunks import Chunk, join_chunks
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Message
from odradek.replication.fetchers import ReplicaFetchers
from odradek.replication.fetching.states import FetchState, Followed
from odradek.replication.flushing import Flusher
from odradek.replication.partition import Partition
from odradek.storage.append import AppendOrigin
from odradek.storage.log import Log
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.handlers.support import LISTENER, Broker, run_inline, topic_id
from tests.replication.support import batch

ONE_WAY_S = 0.001

Tamper = Callable[[int, int, Message, bytearray], bytes | None]
"""(from, to, request, body of the answer) -> what arrives of it; None: nothing does."""


class _Line:
    """One connection: answers in the order of the requests."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self.busy = False


class Wire:
    """Requests between brokers, one after the other on each line."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.brokers: dict[int, Node] = {}
        self.cut: set[frozenset[int]] = set()
        """Pairs that do not reach each other: sending fails at once, what is under way is lost with its connection."""
        self.tamper: Tamper | None = None
        self.sent: list[tuple[int, int, str, Message]] = []
        self._lines: dict[tuple[int, int, str], _Line] = {}
        self._under_way: dict[Deferred[Message], frozenset[int]] = {}

    def send(
        self, source: int, target: int, purpose: str, request: Message, *, at_least: int, at_most: int | None, timeout_s: float
    ) -> Deferred[Message]:
        """As `network.peers.Peers.send`."""
        result: Deferred[Message] = Deferred()
        pair = frozenset((source, target))
        version = API_INFO[request.API_KEY].max_version
        version = version if at_most is None else min(version, at_most)
        assert at_least <= version
        if pair in self.cut or target not in self.brokers:
            result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {target} is not reached"))
            return result
        self.sent.append((source, target, purpose, request))
        frame = encode_request_header(request.API_KEY, version, 1, f"broker-{source}") + request.encode(version)
        line = self._lines.setdefault((source, target, purpose), _Line())
        self._under_way[result] = pair
        timer = self.clock.call_later(timeout_s, lambda: self._fail(result, ErrorCode.REQUEST_TIMED_OUT))

        def serve() -> None:
            line.busy = True
            if result.done:
                over()
                return
            dispatcher = self.brokers[target].dispatcher
            _, answer = dispatcher.handle_embedded(frame, scope=BROKER, listener_name=LISTENER, peer_host="127.0.0.1")
            if isinstance(answer, Deferred):
                answer.add_callback(lambda done: answered(done.result()))
            else:
                answered(answer)

        def answered(chunks: Sequence[Chunk] | None) -> None:
            body = join_chunks(chunks or ())[4:]
            _, offset = decode_response_header(body, request.API_KEY, version)
            self.clock.call_later(ONE_WAY_S, arrive, bytearray(body[offset:]))
            over()

        def arrive(body: bytearray) -> None:
            timer.cancel()
            self._under_way.pop(result, None)
            if result.done:
                return
            kept = bytes(body) if self.tamper is None else self.tamper(source, target, request, body)
            if kept is None:
                self._fail(result, ErrorCode.NETWORK_EXCEPTION)
            else:
                result.complete(response_class(request.API_KEY).decode(memoryview(kept), version))

        def over() -> None:
            line.busy = False
            if line.waiting:
                self.clock.call_later(0, line.waiting.popleft())

        def at_target() -> None:
            if line.busy:
                line.waiting.append(serve)
            else:
                serve()

        self.clock.call_later(ONE_WAY_S, at_target)
        return result

    def _fail(self, result: Deferred[Message], code: ErrorCode) -> None:
        self._under_way.pop(result, None)
        result.fail(KafkaError(code, "lost on the way"))

    def part(self, one: int, other: int) -> None:
        """The two do not reach each other any more; what is under way between them is lost."""
        pair = frozenset((one, other))
        self.cut.add(pair)
        for result, ends in list(self._under_way.items()):
            if ends == pair:
                self._fail(result, ErrorCode.NETWORK_EXCEPTION)

    def fetches(self, source: int, target: int) -> list[Any]:
        """The Fetch requests that went this way."""
        return [request for a, b, _, request in self.sent if (a, b) == (source, target) and request.API_KEY == ApiKey.FETCH]


class Node(Broker):
    """A broker that copies what it follows. With `hold_jobs` its jobs of following (flushes, hardening) wait for `run_jobs`."""

    def __init__(self, number: int, wire: Wire, nodes: Sequence[int], **config: str) -> None:
        super().__init__(
            node=number,
            nodes=tuple(nodes),
            clock=wire.clock,
            log_dirs=("/data", "/more"),
            **{"replica_lag_time_max_ms": "100000000"} | config,
        )
        self.number = number
        self.told = 0
        self.hold_jobs = False
        self._jobs: list[tuple[Callable[[], None], Deferred[None]]] = []
        self.fetchers = ReplicaFetchers(
            local_id=number,
            clock=wire.clock,
            config=self.services.dynamic_config,
            send=lambda target, purpose, request, **how: wire.send(number, target, purpose, request, **how),
            broker_epoch=lambda: 100 * number,
            hosted=self.manager.partitions,
            log_manager=self.parts.log_manager,
            run_job=self._run_job,
            flush=Flusher(self.disk, self._run_job).flush,
            drain=self.manager.delayed.drain,
        )
        self.manager.changes.fetchers = self.fetchers
        wire.brokers[number] = self

    def _run_job(self, job: Callable[[], None]) -> Deferred[None]:
        if not self.hold_jobs:
            return run_inline(job)
        done: Deferred[None] = Deferred()
        self._jobs.append((job, done))
        return done

    @property
    def jobs(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def run_jobs(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job, done in jobs:
            result = run_inline(job)
            if result.error is not None:
                done.fail(result.error)
            else:
                done.complete(None)

    def partition(self, topic_partition: TopicPartition) -> Partition:
        return self.manager.partition(topic_partition)

    def log(self, topic_partition: TopicPartition) -> Log:
        log = self.partition(topic_partition).log
        assert log is not None
        return log

    def followed(self, topic_partition: TopicPartition) -> Followed:
        followed = self.fetchers.followed(topic_partition)
        assert followed is not None
        return followed

    def state(self, topic_partition: TopicPartition) -> FetchState:
        return self.followed(topic_partition).state

    def lead(self, topic_partition: TopicPartition, *values: bytes, acks: int = 1, **options: Any) -> Deferred[Any]:
        """Appends a batch as leader; the answer to the producer."""
        answer = self.manager.appender.append(
            [(topic_partition, batch(*values, **options))], required_acks=acks, timeout_ms=30_000, origin=AppendOrigin.CLIENT
        )
        return answer if isinstance(answer, Deferred) else Deferred.of(answer)


class FetchCluster:
    """Some nodes and the truth about their partitions, of which each node is told when the test wants."""

    def __init__(self, *numbers: int, **config: str) -> None:
        self.clock = ManualClock()
        self.wire = Wire(self.clock)
        self.records: list[object] = []
        self.nodes = {number: Node(number, self.wire, numbers, **config) for number in numbers}

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def tell(self, *numbers: int) -> None:
        """These nodes (all, if none is named) hear of everything that has been decided."""
        for number in numbers or self.nodes:
            node = self.nodes[number]
            new, node.told = self.records[node.told :], len(self.records)
            if new:
                node.apply(*new)

    def create(self, name: str, *, leader: int, partitions: int = 1, number: int = 1, told: Sequence[int] = ()) -> UUID:
        """A topic with a replica on every node; these nodes (all, if none is named) hear of it now."""
        id_ = topic_id(number)
        self.records.append(TopicRecord(name=name, topic_id=id_))
        self.records += [
            PartitionRecord(
                partition_id=index,
                topic_id=id_,
                replicas=list(self.nodes),
                isr=list(self.nodes),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[UUID(int=1)] * len(self.nodes),
            )
            for index in range(partitions)
        ]
        self.tell(*told)
        return id_

    def elect(self, id_: UUID, leader: int, *told: int, partition: int = 0, isr: Sequence[int] | None = None) -> None:
        """Another leader; `told` hear of it now."""
        change = PartitionChangeRecord(partition_id=partition, topic_id=id_, leader=leader)
        if isr is not None:
            change.isr = list(isr)
        self.records.append(change)
        if told:
            self.tell(*told)

    def delete(self, id_: UUID) -> None:
        """Nobody is told yet."""
        self.records.append(RemoveTopicRecord(topic_id=id_))

    def run(self, milliseconds: float) -> None:
        self.clock.advance_ms(milliseconds)

    def run_until(self, condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Time passes until the condition holds; AssertionError when it does not within `seconds`."""
        end = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < end, "it never came"
            self.clock.advance_ms(1)

    def kill(self, number: int) -> None:
        """Nobody reaches it, and it reaches nobody."""
        for other in self.nodes:
            if other != number:
                self.wire.part(number, other)

    def heal(self) -> None:
        self.wire.cut.clear()


def stored(node: Node, topic_partition: TopicPartition) -> bytes:
    """The batches of the log, as its files hold them."""
    log, disk = node.log(topic_partition), node.disk
    assert isinstance(disk, VirtualDisk)
    return b"".join([disk.read_bytes(segment.log_path)[: segment.size] for segment in log.segments])
