"""Sender of a producer, whose requests are answered by hand, and logs of brokers."""

from __future__ import annotations

import random
from collections import defaultdict, deque

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.accumulator import Accumulator
from odradek.client.core.metadata import Broker, ClusterView, PartitionInfo, TopicInfo
from odradek.client.core.sender import BatchAnswer, Dispatch, Sender, SenderConfig
from odradek.client.producer.futures import RecordFuture
from odradek.records.batch import decode_records, read_header
from odradek.records.compression import Compression

CONFIG = SenderConfig(
    acks=-1,
    idempotent=True,
    max_in_flight=5,
    max_request_size=1 << 20,
    retries=1 << 30,
    delivery_timeout_ms=5_000,
    batch_size=200,
    compression=Compression.NONE,
    compression_level=None,
)


FOREIGN = -1
"""A record that another producer has written in between."""


def view_of(leaders: list[int]) -> ClusterView:
    partitions = {number: PartitionInfo(number, leader, 1, (), (), ()) for number, leader in enumerate(leaders)}
    brokers = {number: Broker(number, "host", 1) for number in set(leaders) if number >= 0}
    return ClusterView("c", 0, brokers, {"t": TopicInfo("t", ZERO_UUID, False, ErrorCode.NONE, partitions)})


class BrokerLog:
    """One partition as a broker keeps it: duplicates recognised among the last five batches, gaps in the sequence refused. Of a producer
    that it does not know it takes any sequence.
    """

    def __init__(self, max_batch: int) -> None:
        self.values: list[int] = []
        self.max_batch = max_batch
        self.poison: frozenset[int] = frozenset()
        """Records that no batch may hold."""
        self.too_large = 0
        self.producer: tuple[int, int] = (-1, -1)
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=5)

    def append(self, payload: bytes) -> BatchAnswer:
        if len(payload) > self.max_batch:
            self.too_large += 1
            return BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)
        if self.poison.intersection(int(record.value or b"-1") for record in decode_records(payload)):
            return BatchAnswer(ErrorCode.INVALID_RECORD)
        header = read_header(payload)
        producer = (header.producer_id, header.producer_epoch)
        if header.producer_id >= 0:
            if producer[0] == self.producer[0] and producer[1] < self.producer[1]:
                return BatchAnswer(ErrorCode.INVALID_PRODUCER_EPOCH)
            if producer != self.producer:
                if header.base_sequence != 0 and producer[0] == self.producer[0]:
                    return BatchAnswer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            else:
                for first, last, offset in self.recent:
                    if (first, last) == (header.base_sequence, header.last_sequence):
                        return BatchAnswer(ErrorCode.NONE, offset)
                if header.base_sequence != self.recent[-1][1] + 1:
                    return BatchAnswer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if producer != self.producer:
                self.producer = producer
                self.recent.clear()
            self.recent.append((header.base_sequence, header.last_sequence, len(self.values)))
        offset = len(self.values)
        self.values += [int(record.value or b"-1") for record in decode_records(payload)]
        return BatchAnswer(ErrorCode.NONE, offset)


class SenderWorld:
    """A producer's core, brokers and a bad network, on virtual time."""

    def __init__(
        self,
        seed: int,
        trouble: float,
        partitions: int = 3,
        max_batch: int = 1 << 20,
        config: SenderConfig = CONFIG,
        burst: int = 20,
    ) -> None:
        self.rng = random.Random(seed)
        self.trouble = trouble
        self.now = 0
        self.next_producer_id = 7
        self.accumulator = Accumulator(config.batch_size, 3, 1 << 20)
        self.sender = Sender(config, self.accumulator, Backoff(5, 50, random.Random(seed)))
        self.leaders = [number % 2 for number in range(partitions)]
        self.logs = [BrokerLog(max_batch) for _ in range(partitions)]
        self.wire: dict[int, deque[tuple[Dispatch, list[bytes]]]] = defaultdict(deque)
        self.sent: list[list[int]] = [[] for _ in range(partitions)]
        self.placed: list[tuple[int, int, RecordFuture]] = []
        self.max_in_flight = 0
        self.burst = burst
        """More records than ever come at once. With few the network keeps up, and little is on the wire."""
        self.late: dict[int, list[tuple[Dispatch, list[BatchAnswer]]]] = {}
        """What nodes that stand still have done, and nobody has heard of yet."""

    def send(self, count: int) -> None:
        for _ in range(count):
            partition = self.rng.randrange(len(self.logs))
            number = len(self.sent[partition])
            taken = self.accumulator.append(TopicPartition("t", partition), 0, None, str(number).encode(), (), self.now)
            assert taken is not None
            self.sent[partition].append(number)
            self.placed.append((partition, number, RecordFuture(*taken, timestamp=0)))

    def turn(self) -> None:
        while True:
            work = self.sender.poll(view_of(self.leaders), lambda _: True, self.now)
            if work.needs_producer_id:
                self.sender.on_producer_id(self.next_producer_id, 0)
                continue
            if not work.dispatches:
                break
            for dispatch in work.dispatches:
                self.wire[dispatch.node_id].append((dispatch, [batch.payload or b"" for batch in dispatch.batches]))
        self.max_in_flight = max([self.max_in_flight, *(len(queue) for queue in self.wire.values())])

    def deliver(self) -> None:
        """One event of the network: an answer, an error, a lost request or answer, a broken connection, a new leader."""
        nodes = [node for node, queue in self.wire.items() if queue and node not in self.late]
        if nodes:
            self._deliver(nodes[self.rng.randrange(len(nodes))])
        if self.late and self.rng.random() < 0.05:
            self._go_on(self.rng.choice(list(self.late)))
        elif self.rng.random() < self.trouble / 20:
            self._stand_still(self.rng.randrange(2))
        if self.rng.random() < 0.2:
            self.rng.choice(self.logs).values.append(FOREIGN)
        if self.rng.random() < self.trouble / 10:
            self.leaders[self.rng.randrange(len(self.leaders))] ^= 1
        self.now += self.rng.randrange(20)

    def _deliver(self, node: int) -> None:
        if self.rng.random() >= self.trouble:
            dispatch, payloads = self.wire[node].popleft()
            self.sender.on_response(dispatch, self._answers(node, dispatch, payloads), self.now)
            return
        # The connection breaks: some of what was on it was executed, a prefix of it, and nobody hears of it.
        executed = self.rng.randrange(len(self.wire[node]) + 1)
        lost = list(self.wire[node])
        self.wire[node].clear()
        for dispatch, payloads in lost[:executed]:
            self._answers(node, dispatch, payloads)
        for dispatch, _ in lost:
            self.sender.on_failure(dispatch, KafkaError(ErrorCode.NETWORK_EXCEPTION), self.now)

    def _stand_still(self, node: int) -> None:
        """The node has done what was asked so far, and answers later. Others may lead its partitions meanwhile."""
        if node in self.late:
            return
        self.late[node] = [(dispatch, self._answers(node, dispatch, payloads)) for dispatch, payloads in self.wire.pop(node, ())]
        if self.rng.random() < 0.5:
            self.leaders = [1 - node] * len(self.leaders)

    def _go_on(self, node: int) -> None:
        lost = self.rng.random() < 0.5
        for dispatch, answers in self.late.pop(node):
            if lost:
                self.sender.on_failure(dispatch, KafkaError(ErrorCode.REQUEST_TIMED_OUT), self.now)
            else:
                self.sender.on_response(dispatch, answers, self.now)

    def _answers(self, node: int, dispatch: Dispatch, payloads: list[bytes]) -> list[BatchAnswer]:
        answers: list[BatchAnswer] = []
        for batch, payload in zip(dispatch.batches, payloads, strict=True):
            partition = batch.topic_partition.partition
            if self.leaders[partition] != node:
                answers.append(BatchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            elif self.rng.random() < self.trouble / 5:
                answers.append(BatchAnswer(ErrorCode.NOT_ENOUGH_REPLICAS))
            else:
                answers.append(self.logs[partition].append(payload))
        return answers

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.rng.random() < 0.5:
                self.send(self.rng.randrange(1, self.burst))
            self.turn()
            self.deliver()
        self.trouble = 0.0
        for _ in range(5000):
            self.turn()
            self.deliver()
            if not self.sender.outstanding:
                return
        raise AssertionError("the producer never came to rest")

    def written(self, partition: int = 0) -> list[int]:
        """What the log has of this producer."""
        return [value for value in self.logs[partition].values if value != FOREIGN]

    def check(self) -> None:
        for partition in range(len(self.logs)):
            own = self.written(partition)
            assert own == sorted(set(own)), f"partition {partition} is out of order or has duplicates"
        for partition, number, future in self.placed:
            assert future.done()
            if future.exception() is None:
                assert number in self.logs[partition].values
                offset = future.result().offset
                assert offset < 0 or self.logs[partition].values[offset] == number


class Flight(SenderWorld):
    """One partition and batches of one record each; the test answers."""

    def __init__(self, batches: int, config: SenderConfig = CONFIG) -> None:
        super().__init__(1, 0.0, partitions=1, config=config)
        self.leaders = [0]
        self.add(batches)

    @classmethod
    def after_one(cls, batches: int, config: SenderConfig = CONFIG) -> Flight:
        """Record 0 is acknowledged, so that the broker knows the producer, and so many batches follow it."""
        flight = cls(1, config)
        flight.answer()
        flight.add(batches)
        return flight

    def add(self, batches: int) -> None:
        """That many batches more, sent if that is allowed."""
        for _ in range(batches):
            self.send(1)
            self.now += 3
            self.turn()

    @property
    def flying(self) -> list[tuple[int, int, int]]:
        """(epoch, sequence, value) of what is on the wire."""
        found = []
        for queue in self.wire.values():
            for _, payloads in queue:
                for payload in payloads:
                    header = read_header(payload)
                    found.append((header.producer_epoch, header.base_sequence, int(decode_records(payload)[0].value or b"-1")))
        return found

    def answer(self, error: ErrorCode = ErrorCode.NONE, offset: int = 0, *, node: int = 0) -> bool:
        """Answers what was sent first and lets the sender go on."""
        dispatch, _ = self.wire[node].popleft()
        stale = self.sender.on_response(dispatch, [BatchAnswer(error, offset)] * len(dispatch.batches), self.now)
        self.turn()
        return stale

    def outcomes(self) -> list[ErrorCode | None]:
        """What became of each record; None while it is not known."""
        found: list[ErrorCode | None] = []
        for *_, future in self.placed:
            error = future.exception()
            assert error is None or isinstance(error, KafkaError)
            found.append(error.code if error is not None else ErrorCode.NONE if future.done() else None)
        return found

    def pass_back_off(self) -> None:
        self.now += 100
        self.turn()
