"""Three brokers in one process: their real services on virtual disks and one virtual clock, their channels over a network that loses.

Each node has replica manager, coordinators, transaction verification and dispatcher as a broker has them; requests between them, and those
of clients, are frames that get lost, come late or come twice. The controller is a list of records that reaches each node when the
simulation wants, so that a deposed leader goes on until it hears of it. Followers copy when the simulation lets them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.chunks import Chunk, release_chunks
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.metadata_records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from odradek.protocol.registry import response_class
from odradek.protocol.schema import Message
from odradek.replication.fetch_params import FetchPartition
from odradek.replication.following import truncate_to_divergence
from odradek.replication.partition import Partition
from odradek.replication.roles import Role
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.storage.log import Log
from tests.clock import ManualClock
from tests.handlers.support import LISTENER, Broker, topic_id
from tests.replication.support import content, fetch_as

NODES = (1, 2, 3)
CLIENT = 0
TRANSACTIONS, OFFSETS, DATA = "__transaction_state", "__consumer_offsets", "t"
TOPICS = {TRANSACTIONS: 1, OFFSETS: 1, DATA: 3}
"""Name -> partitions; all of them have a replica on every node."""
TOPIC_IDS = {name: topic_id(8 + number) for number, name in enumerate(TOPICS)}
LEADERS = {
    TopicPartition(TRANSACTIONS, 0): 1,
    TopicPartition(OFFSETS, 0): 2,
    TopicPartition(DATA, 0): 1,
    TopicPartition(DATA, 1): 2,
    TopicPartition(DATA, 2): 3,
}
"""Who leads at first."""


class Network:
    """Frames between nodes and clients. What goes one way between two ends keeps its order, as on a connection."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.loss = 0.0
        self.repeat = 0.0
        self.delays_ms: tuple[float, ...] = (1.0,)
        self.cut: set[frozenset[int]] = set()
        """Pairs of nodes that do not reach each other."""
        self.carried: list[tuple[int, int, int]] = []
        """(from, to, API key) of every request that got there."""
        self.on_request: Callable[[int, int, int], object] | None = None
        """Told of each before it is served."""
        self._last: dict[tuple[int, int], float] = {}

    def reaches(self, source: int, target: int) -> bool:
        return source == target or frozenset((source, target)) not in self.cut

    def _sent(self, source: int, target: int, arrive: Callable[[], object]) -> None:
        rng, clock = self._rng, self._cluster.clock
        if not self.reaches(source, target) or rng.random() < self.loss:
            return
        now = clock.monotonic()
        due = self._last[source, target] = max(self._last.get((source, target), now), now + rng.choice(self.delays_ms) / 1000)
        for _ in range(2 if rng.random() < self.repeat else 1):
            clock.call_later(due - now, arrive)

    def carry(self, source: int, target: int, scope: str, frame: bytes) -> Deferred[Sequence[Chunk] | None]:
        """See `server.cluster.channel.Carry`."""
        result: Deferred[Sequence[Chunk] | None] = Deferred()

        def arrive() -> None:
            self.carried.append((source, target, int.from_bytes(frame[:2], "big")))
            if self.on_request is not None:
                self.on_request(*self.carried[-1])
            dispatcher = self._cluster.nodes[target].dispatcher
            _, answer = dispatcher.handle_embedded(frame, scope=scope, listener_name=LISTENER, peer_host="127.0.0.1")
            if isinstance(answer, Deferred):
                answer.add_callback(lambda done: back(done.result()))
            else:
                back(answer)

        def back(chunks: Sequence[Chunk] | None) -> None:
            if chunks is None:
                return
            parts = [chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read(0, chunk.size) for chunk in chunks]
            release_chunks(chunks)
            self._sent(target, source, lambda: result.complete([b"".join(parts)]))

        self._sent(source, target, arrive)
        return result


class Ids:
    """Producer ids, as the controller gives them out."""

    def __init__(self) -> None:
        self._given = 4000

    def next_id(self) -> Deferred[int]:
        self._given += 1
        return Deferred.of(self._given)


class ClusterNode(Broker):
    """One of the brokers."""

    def __init__(self, cluster: Cluster, node: int, **config: str) -> None:
        settings = {"replica_lag_time_max_ms": "1000000000", "group_initial_rebalance_delay_ms": "0"} | config

        def new_channel(broker: Broker) -> InterBrokerChannel:
            return InterBrokerChannel(
                node,
                broker.clock,
                broker.dispatcher,
                listener_names={BROKER: LISTENER, CONTROLLER: "CONTROLLER"},
                carry=lambda target, scope, frame: cluster.network.carry(node, target, scope, frame),
            )

        super().__init__(node=node, nodes=NODES, clock=cluster.clock, producer_ids=cluster.ids, new_channel=new_channel, **settings)
        self.id = node
        self.told = 0
        """How many of the controller's records it has heard of."""
        self.manager.verified_appender.verifier = self.coordinators
        self.manager.changes.fetchers = _Copying()

    def partition(self, topic_partition: TopicPartition) -> Partition:
        return self.manager.partition(topic_partition)

    def log(self, topic_partition: TopicPartition) -> Log:
        log = self.partition(topic_partition).log
        assert log is not None
        return log


class _Copying:
    """The simulation copies by itself (`Cluster.copy`)."""

    def start(self, partitions: Sequence[Partition]) -> None:
        pass

    def stop(self, topic_partitions: Collection[TopicPartition]) -> None:
        pass


class Cluster:
    """`records` is the controller's truth, of which each node knows a beginning."""

    def __init__(self, rng: random.Random, *, transaction_version: int = 2, **config: str) -> None:
        self.rng = rng
        self.clock = ManualClock()
        self.network = Network(self, rng)
        self.ids = Ids()
        self.leaders = dict(LEADERS)
        self.records: list[object] = [FeatureLevelRecord(name="transaction.version", feature_level=transaction_version)]
        for name, partitions in TOPICS.items():
            self.records.append(TopicRecord(name=name, topic_id=TOPIC_IDS[name]))
            self.records += [self._partition(name, number) for number in range(partitions)]
        self.nodes = {node: ClusterNode(self, node, **config) for node in NODES}
        self.tell(*NODES)
        self.advance_ms(0)

    def _partition(self, name: str, number: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=number,
            topic_id=TOPIC_IDS[name],
            replicas=list(NODES),
            isr=list(NODES),
            leader=self.leaders[TopicPartition(name, number)],
            leader_epoch=0,
            partition_epoch=0,
            directories=[UUID(int=1)] * len(NODES),
        )

    # -- the controller --------------------------------------------------------------------------------------------------------------

    def elect(self, partition: TopicPartition, leader: int, *told: int) -> None:
        """A leader, perhaps the same one, of the next epoch; `told` hear of it now, the others later."""
        self.leaders[partition] = leader
        self.records.append(PartitionChangeRecord(partition_id=partition.partition, topic_id=TOPIC_IDS[partition.topic], leader=leader))
        self.tell(*told)

    def change_isr(self, partition: TopicPartition, isr: Sequence[int], *told: int) -> None:
        """Other replicas in sync, in the same leader epoch."""
        self.records.append(PartitionChangeRecord(partition_id=partition.partition, topic_id=TOPIC_IDS[partition.topic], isr=list(isr)))
        self.tell(*told)

    def tell(self, *nodes: int) -> None:
        """The nodes hear of everything that the controller has decided."""
        for node in nodes:
            broker = self.nodes[node]
            new, broker.told = self.records[broker.told :], len(self.records)
            if new:
                broker.apply(*new)

    def leader(self, partition: TopicPartition) -> ClusterNode:
        """The one that the controller has decided upon."""
        return self.nodes[self.leaders[partition]]

    # -- replication -----------------------------------------------------------------------------------------------------------------

    def copy(self, *nodes: int) -> None:
        """The nodes fetch once from the leaders that they know of, where they reach them."""
        for node in nodes:
            for topic_partition in LEADERS:
                self._copy(self.nodes[node], topic_partition)

    def _copy(self, node: ClusterNode, topic_partition: TopicPartition) -> None:
        follower = node.partition(topic_partition)
        if follower.role is not Role.FOLLOWER or follower.leader_id not in self.nodes:
            return
        if not self.network.reaches(node.id, follower.leader_id):
            return
        leader = self.nodes[follower.leader_id]
        log = node.log(topic_partition)
        request = FetchPartition(
            topic_partition.topic,
            TOPIC_IDS[topic_partition.topic],
            topic_partition.partition,
            fetch_offset=log.log_end_offset,
            max_bytes=1 << 20,
            current_leader_epoch=follower.leader_epoch,
            last_fetched_epoch=log.latest_epoch,
            log_start_offset=log.log_start_offset,
        )
        [(_, read)] = leader.manager.reader.read(fetch_as(node.id, replica_epoch=100 * node.id), [request], update_follower=True)
        leader.manager.delayed.drain()
        if read.error is not ErrorCode.NONE:
            return
        if read.diverging_epoch is not None:
            truncate_to_divergence(follower.followed_log(), *read.diverging_epoch)
            return
        follower.append_as_follower(
            memoryview(content(read)), follower.leader_epoch, high_watermark=read.high_watermark, log_start_offset=read.log_start_offset
        )
        node.manager.delayed.drain()

    # -- clients ---------------------------------------------------------------------------------------------------------------------

    def ask(self, node: int, request: Message, version: int) -> Deferred[Any]:
        """A client's request over the network; what gets lost is never answered."""
        result: Deferred[Any] = Deferred()
        header = encode_request_header(request.API_KEY, version, 1, "client")

        def answered(done: Deferred[Sequence[Chunk] | None]) -> None:
            chunks = done.result()
            assert chunks is not None
            body = bytes(chunks[0])[4:]  # type: ignore[arg-type]
            _, offset = decode_response_header(body, request.API_KEY, version)
            result.complete(response_class(request.API_KEY).decode(memoryview(body)[offset:], version))

        self.network.carry(CLIENT, node, BROKER, header + request.encode(version)).add_callback(answered)
        return result

    def answer(self, node: int, request: Message, version: int, *, seconds: float = 2.0) -> Any:
        """The answer to a client, while time passes and followers copy; TimeoutError without one."""
        asked = self.ask(node, request, version)
        self.run(seconds, until=lambda: asked.done)
        if not asked.done:
            raise TimeoutError(f"no answer to {type(request).__name__} from node {node}")
        return asked.result()

    def run(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Time passes, and everybody copies every 10 ms."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end and not until():
            self.copy(*NODES)
            self.advance_ms(10)

    def advance_ms(self, milliseconds: float) -> None:
        self.clock.advance_ms(milliseconds)

    def abort_timed_out(self, nodes: Iterable[int] = NODES) -> None:
        for node in nodes:
            self.nodes[node].parts.coordinators.abort_timed_out_transactions()


__all__ = ["CLIENT", "DATA", "LEADERS", "NODES", "OFFSETS", "TOPIC_IDS", "TRANSACTIONS", "Cluster", "ClusterNode"]
