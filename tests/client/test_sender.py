"""Whatever the network does, an idempotent producer writes each record once and in order."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.client.core.accumulator import Accumulator
from odradek.client.core.backoff import Backoff
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
    """One partition as a broker keeps it: duplicates recognised among the last five batches, gaps in the sequence refused."""

    def __init__(self, max_batch: int) -> None:
        self.values: list[int] = []
        self.max_batch = max_batch
        self.too_large = 0
        self.producer: tuple[int, int] = (-1, -1)
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=5)

    def append(self, payload: bytes) -> BatchAnswer:
        if len(payload) > self.max_batch:
            self.too_large += 1
            return BatchAnswer(ErrorCode.MESSAGE_TOO_LARGE)
        header = read_header(payload)
        producer = (header.producer_id, header.producer_epoch)
        if header.producer_id >= 0:
            if producer[0] == self.producer[0] and producer[1] < self.producer[1]:
                return BatchAnswer(ErrorCode.INVALID_PRODUCER_EPOCH)
            if producer != self.producer:
                if header.base_sequence != 0:
                    return BatchAnswer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if self.producer[0] >= 0 else ErrorCode.UNKNOWN_PRODUCER_ID)
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


class World:
    """A producer's core, brokers and a bad network, on virtual time."""

    def __init__(self, seed: int, trouble: float, partitions: int = 3, max_batch: int = 1 << 20, config: SenderConfig = CONFIG) -> None:
        self.rng = random.Random(seed)
        self.trouble = trouble
        self.now = 0
        self.accumulator = Accumulator(config.batch_size, 3, 1 << 20)
        self.sender = Sender(config, self.accumulator, Backoff(5, 50, random.Random(seed)))
        self.leaders = [number % 2 for number in range(partitions)]
        self.logs = [BrokerLog(max_batch) for _ in range(partitions)]
        self.wire: dict[int, deque[tuple[Dispatch, list[bytes]]]] = defaultdict(deque)
        self.sent: list[list[int]] = [[] for _ in range(partitions)]
        self.placed: list[tuple[int, int, RecordFuture]] = []
        self.max_in_flight = 0

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
                self.sender.on_producer_id(7, 0)
                continue
            if not work.dispatches:
                break
            for dispatch in work.dispatches:
                self.wire[dispatch.node_id].append((dispatch, [batch.payload or b"" for batch in dispatch.batches]))
        self.max_in_flight = max([self.max_in_flight, *(len(queue) for queue in self.wire.values())])

    def deliver(self) -> None:
        """One event of the network: an answer, an error, a lost request or answer, a broken connection, a new leader."""
        nodes = [node for node, queue in self.wire.items() if queue]
        if nodes:
            self._deliver(nodes[self.rng.randrange(len(nodes))])
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

    def _answers(self, node: int, dispatch: Dispatch, payloads: list[bytes]) -> list[BatchAnswer]:
        answers: list[BatchAnswer] = []
        for batch, payload in zip(dispatch.batches, payloads, strict=True):
            partition = batch.topic_partition.partition
            led_here = self.leaders[partition] == node
            answers.append(self.logs[partition].append(payload) if led_here else BatchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return answers

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.rng.random() < 0.5:
                self.send(self.rng.randrange(1, 20))
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


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.0, 0.1, 0.4]))
def test_each_record_once_and_in_order(seed: int, trouble: float) -> None:
    world = World(seed, trouble)
    world.run(120)
    world.check()
    assert world.max_in_flight <= CONFIG.max_in_flight


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_batches_that_are_too_large_are_split_without_losing_order(seed: int) -> None:
    world = World(seed, 0.2, max_batch=90)
    world.run(80)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert all(log.too_large for log in world.logs)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_times_out_neither_doubles_nor_reorders_the_rest(seed: int) -> None:
    world = World(seed, 0.5, config=CONFIG._replace(delivery_timeout_ms=120))
    world.run(120)
    world.check()


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_one_in_flight_keeps_order_without_idempotence(seed: int) -> None:
    config = CONFIG._replace(idempotent=False, max_in_flight=1)
    world = World(seed, 0.3, partitions=1, config=config)
    world.leaders = [0]
    world.run(80)
    first_seen = list(dict.fromkeys(world.written()))
    assert first_seen == sorted(first_seen)


def test_a_broker_that_lost_the_producer_state_gets_a_new_epoch() -> None:
    world = World(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(5)
    world.now += 10
    world.turn()
    world.deliver()
    world.logs[0].producer = (-1, -1)
    world.send(5)
    world.run(0)
    world.check()
    assert world.sender.producer_epoch == 1
    assert world.written() == list(range(10))


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_RECORD])
def test_a_refused_batch_fails_and_the_next_goes_through(error: ErrorCode) -> None:
    world = World(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(3)
    world.now += 10
    world.turn()
    dispatch, _ = world.wire[0].popleft()
    world.sender.on_response(dispatch, [BatchAnswer(error, message="no")], world.now)
    failed = dispatch.batches[0].error
    assert isinstance(failed, KafkaError)
    assert failed.code is error
    world.send(3)
    world.run(0)
    assert world.written() == [3, 4, 5]


def test_nothing_is_dispatched_to_a_node_without_connection() -> None:
    world = World(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(1)
    world.sender.on_producer_id(7, 0)
    work = world.sender.poll(view_of([0]), lambda _: False, 100)
    assert work.connect == {0}
    assert not work.dispatches
