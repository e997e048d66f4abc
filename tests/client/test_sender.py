"""Whatever the network does, an idempotent producer writes each record once and in order."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


class World:
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


class Flight(World):
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


class TestSequences:
    def test_repeated_batches_go_one_at_a_time_lowest_first(self) -> None:
        world = Flight.after_one(3)
        assert [sequence for _, sequence, _ in world.flying] == [1, 2, 3]
        lost = list(world.wire[0])
        world.wire[0].clear()
        for dispatch, _ in reversed(lost):
            world.sender.on_failure(dispatch, KafkaError(ErrorCode.NETWORK_EXCEPTION), world.now)
        world.add(1)
        seen = []
        for _ in range(3):
            world.pass_back_off()
            seen.append([number for _, number, _ in world.flying])
            world.answer()
        assert seen == [[1], [2], [3, 4]]

    def test_the_echo_of_a_failure_costs_no_epoch(self) -> None:
        world = Flight.after_one(3)
        world.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        world.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        world.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        for number in (1, 2, 3):
            world.pass_back_off()
            assert world.flying == [(0, number, number)]
            world.answer()
        assert world.sender.producer_epoch == 0

    @pytest.mark.parametrize(
        "error", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH]
    )
    def test_a_lost_producer_state_costs_an_epoch(self, error: ErrorCode) -> None:
        world = Flight(1)
        world.answer()
        world.add(1)
        world.answer(error)
        world.pass_back_off()
        assert world.flying == [(1, 0, 1)]

    def test_nothing_is_numbered_anew_while_something_is_uncertain(self) -> None:
        world = Flight.after_one(3, CONFIG._replace(retries=0))
        world.answer(ErrorCode.REQUEST_TIMED_OUT)
        world.add(1)
        assert [value for _, _, value in world.flying] == [2, 3]
        world.answer()
        assert [value for _, _, value in world.flying] == [3]
        world.answer()
        assert world.flying == [(1, 0, 4)]

    def test_the_sequence_of_a_refused_batch_is_used_again_when_it_was_the_last(self) -> None:
        world = Flight(1)
        world.answer(ErrorCode.INVALID_RECORD)
        world.add(1)
        assert world.flying == [(0, 0, 1)]

    def test_the_last_epoch_is_followed_by_another_producer_id(self) -> None:
        world = Flight(0)
        world.sender.on_producer_id(7, 32767)
        world.add(1)
        assert world.flying == [(32767, 0, 0)]
        world.next_producer_id = 8
        world.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
        world.pass_back_off()
        assert world.flying == [(0, 0, 0)]
        assert world.sender.producer_id == 8

    def test_a_partition_with_something_under_way_keeps_its_epoch(self) -> None:
        world = World(1, 0.0, partitions=2, config=CONFIG._replace(retries=0))
        world.leaders = [0, 1]
        while len(world.sent[0]) < 1 or len(world.sent[1]) < 1:
            world.send(1)
        world.now += 10
        world.turn()
        world.sender.on_failure(world.wire[0].popleft()[0], KafkaError(ErrorCode.REQUEST_TIMED_OUT), world.now)
        before = len(world.sent[1])
        while len(world.sent[1]) == before:
            world.send(1)
        world.now += 10
        world.turn()
        epochs = [read_header(payload).producer_epoch for _, payloads in world.wire[1] for payload in payloads]
        assert epochs == [0], "the new batch of the other partition waits for the one on the wire"

    def test_a_repetition_that_the_broker_knew_already_is_a_success(self) -> None:
        world = Flight(1)
        world.answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, offset=-1)
        assert world.outcomes() == [ErrorCode.NONE]
        assert world.placed[0][2].result().offset == -1


class TestGivingUp:
    @pytest.mark.parametrize("lost", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER])
    def test_a_refusal_after_a_lost_answer_frees_no_sequence(self, lost: ErrorCode) -> None:
        """The first attempt may have been written: a broker would take another batch of that number for its repetition."""
        world = Flight.after_one(1)
        world.answer(lost)
        world.pass_back_off()
        world.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        world.add(1)
        assert world.outcomes()[1:] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, None]
        assert world.flying == [(1, 0, 2)]

    def test_after_the_retries(self) -> None:
        world = Flight(1, CONFIG._replace(retries=2))
        for _ in range(3):
            assert world.outcomes() == [None]
            world.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            world.pass_back_off()
        assert world.outcomes() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert not world.flying

    def test_when_the_answer_comes_after_the_delivery_timeout(self) -> None:
        world = Flight(1)
        world.now += CONFIG.delivery_timeout_ms
        world.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        world.pass_back_off()
        assert world.outcomes() == [ErrorCode.REQUEST_TIMED_OUT]
        assert not world.flying

    def test_what_waits_in_vain_is_failed_in_time(self) -> None:
        world = World(1, 0.0, partitions=1)
        world.leaders = [-1]
        world.sender.on_producer_id(7, 0)
        world.send(1)
        world.now += 100
        work = world.sender.poll(view_of([-1]), lambda _: True, world.now)
        assert work.needs_metadata
        assert work.wake_in_ms == CONFIG.delivery_timeout_ms - 100
        world.now += work.wake_in_ms
        world.sender.trouble = "the cat sat on the cable"
        world.turn()
        assert "the cat sat on the cable" in str(world.placed[0][2].exception())

    def test_nothing_is_sent_whose_time_is_up_when_a_leader_appears(self) -> None:
        world = World(1, 0.0, partitions=1)
        world.leaders = [-1]
        world.sender.on_producer_id(7, 0)
        world.send(10)
        world.now += CONFIG.delivery_timeout_ms
        world.leaders = [0]
        world.turn()
        assert not world.wire
        assert {type(future.exception()) for *_, future in world.placed} == {KafkaError}

    def test_what_is_on_the_wire_is_failed_in_time(self) -> None:
        world = Flight.after_one(2)
        first = world.placed[1][2]
        created = world.sender.incomplete()[0].created_ms
        work = world.sender.poll(view_of([0]), lambda _: True, world.now)
        assert work.wake_in_ms == created + CONFIG.delivery_timeout_ms - world.now
        world.now += work.wake_in_ms
        world.turn()
        assert world.outcomes() == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, None]
        assert first.done()
        world.now += 3
        world.turn()
        assert world.outcomes() == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT]

    @pytest.mark.parametrize(
        "late", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD]
    )
    def test_what_failed_on_the_wire_holds_memory_and_sequence_until_it_lands(self, late: ErrorCode) -> None:
        world = Flight.after_one(1)
        world.now += CONFIG.delivery_timeout_ms
        world.turn()
        held = world.accumulator.used
        assert held > 0
        world.add(1)
        assert [number for _, _, number in world.flying] == [1]
        world.answer(late)
        world.pass_back_off()
        assert world.outcomes()[:2] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
        assert [(epoch, sequence) for epoch, sequence, _ in world.flying] == [(1, 0)]
        world.answer()
        assert world.outcomes()[2] is ErrorCode.NONE
        assert (world.accumulator.used, world.sender.outstanding) == (0, 0)

    def test_gives_the_memory_back(self) -> None:
        world = Flight(1)
        world.answer(ErrorCode.INVALID_RECORD)
        assert world.accumulator.used == 0
        assert world.sender.outstanding == 0

    def test_of_a_topic_leaves_the_others(self) -> None:
        world = World(1, 0.0, partitions=1)
        world.send(2)
        other = world.accumulator.append(TopicPartition("u", 0), 0, None, b"u", (), world.now)
        assert other is not None
        world.sender.fail_topic("u", KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        assert other[0].is_done()
        assert not any(future.done() for *_, future in world.placed)
        assert world.sender.outstanding == 1

    def test_of_a_topic_lets_callbacks_send_again(self) -> None:
        world = World(1, 0.0, partitions=1)
        one, other = (world.accumulator.append(TopicPartition("u", number), 0, None, b"u", (), world.now) for number in (0, 1))
        assert one is not None
        assert other is not None
        for target in (TopicPartition("u", 0), TopicPartition("v", 0)):
            one[0].add_callback(lambda target=target: world.accumulator.append(target, 0, None, b"again", (), world.now))
        world.sender.fail_topic("u", KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        assert other[0].is_done()
        assert world.sender.outstanding == 2

    def test_of_everything_sends_nothing_more(self) -> None:
        world = World(1, 0.0, partitions=1)
        world.send(2)
        world.sender.abort(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        world.now += 100
        world.turn()
        assert all(future.done() for *_, future in world.placed)
        assert not any(world.wire.values())
        assert (world.sender.outstanding, world.accumulator.used) == (0, 0)


class TestPace:
    def test_a_failed_batch_waits_before_it_is_sent_again(self) -> None:
        world = Flight(1)
        world.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert not world.flying
        work = world.sender.poll(view_of([0]), lambda _: True, world.now)
        assert 4 <= work.wake_in_ms <= 6
        world.now += work.wake_in_ms
        world.turn()
        assert [value for _, _, value in world.flying] == [0]

    def test_five_batches_of_a_partition_at_most_also_over_two_leaders(self) -> None:
        world = Flight.after_one(7)
        assert len(world.flying) == 5
        world.leaders = [1]
        world.turn()
        assert len(world.flying) == 5, "the broker tells repetitions from news among the last five"

    def test_fewer_batches_of_a_partition_where_that_is_asked_for(self) -> None:
        world = Flight.after_one(3, CONFIG._replace(max_in_flight=2))
        world.leaders = [1]
        world.add(2)
        assert len(world.flying) == 2

    def test_a_batch_whose_answer_is_out_stays_among_the_last_five(self) -> None:
        """Its leader stands still and another goes on from what it has written: sent again, it must not look like a gap."""
        world = Flight.after_one(2)
        world.leaders = [1]
        world.add(9)
        for offset in (3, 4, 5):
            world.answer(offset=offset, node=1)
        assert [value for _, _, value in world.flying] == [1, 2]
        world.answer(ErrorCode.REQUEST_TIMED_OUT)
        world.answer(ErrorCode.REQUEST_TIMED_OUT)
        world.pass_back_off()
        world.answer(offset=1, node=1)
        world.pass_back_off()
        world.answer(offset=2, node=1)
        assert world.flying == [(0, 6, 6)]

    def test_the_first_batch_of_an_epoch_goes_alone(self) -> None:
        """A broker that does not know the producer takes any sequence: a second batch must not come before it has taken the first."""
        world = Flight(3)
        assert world.flying == [(0, 0, 0)]
        world.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        world.pass_back_off()
        assert world.flying == [(0, 0, 0)]
        world.answer()
        world.add(1)
        assert [sequence for _, sequence, _ in world.flying] == [1, 3]
        world.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
        world.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
        world.pass_back_off()
        assert [(epoch, sequence) for epoch, sequence, _ in world.flying] == [(1, 0)]

    def test_without_idempotence_the_first_batch_does_not_go_alone(self) -> None:
        world = Flight(3, CONFIG._replace(idempotent=False))
        assert len(world.flying) == 3

    def test_a_request_stays_below_its_largest_size(self) -> None:
        world = World(1, 0.0, partitions=4, config=CONFIG._replace(max_request_size=150))
        world.leaders = [0] * 4
        while not all(world.sent):
            world.send(1)
        world.now += 100
        world.turn()
        sizes = [sum(map(len, payloads)) for _, payloads in world.wire[0]]
        assert len(sizes) > 1
        assert all(size <= 150 for size in sizes)

    def test_a_batch_larger_than_a_request_goes_alone(self) -> None:
        world = Flight(1, CONFIG._replace(max_request_size=50))
        assert len(world.flying) == 1

    def test_any_batch_of_a_request_tells_that_the_metadata_is_out_of_date(self) -> None:
        for answers in ([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE], [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]):
            world = World(1, 0.0, partitions=2)
            world.leaders = [0, 0]
            while not all(world.sent):
                world.send(1)
            world.now += 100
            world.turn()
            dispatch, _ = world.wire[0].popleft()
            assert len(dispatch.batches) == 2
            assert world.sender.on_response(dispatch, [BatchAnswer(error, 0) for error in answers], world.now)

    def test_what_is_on_the_wire_is_incomplete_too(self) -> None:
        world = Flight.after_one(6)
        assert len(world.sender.incomplete()) == 6
        world.answer()
        assert len(world.sender.incomplete()) == 5


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
    # In five seconds a batch may be unlucky too often.
    world = World(seed, 0.2, max_batch=90, config=CONFIG._replace(delivery_timeout_ms=120_000))
    world.run(80)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert all(log.too_large for log in world.logs)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.1, 0.4]), st.sampled_from([3, 20]))
def test_nothing_fails_that_has_time(seed: int, trouble: float, burst: int) -> None:
    world = World(seed, trouble, config=CONFIG._replace(delivery_timeout_ms=1 << 40), burst=burst)
    world.run(120)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert world.sender.producer_epoch == 0, "no answer was ever in doubt for good"


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


def test_a_broker_with_another_producer_state_gets_a_new_epoch() -> None:
    world = World(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(5)
    world.now += 10
    world.turn()
    world.deliver()
    world.logs[0].recent = deque([(500, 500, 0)], maxlen=5)
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


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.0, 0.2]))
def test_refused_batches_take_nobody_with_them(seed: int, trouble: float) -> None:
    world = World(seed, trouble)
    for log in world.logs:
        log.poison = frozenset(range(3, 1000, 29))
    world.run(80)
    world.check()
    for partition, number, future in world.placed:
        error = future.exception()
        assert error is None or (isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_RECORD)
        assert (error is None) == (number in world.written(partition))


def test_a_batch_of_a_topic_that_has_failed_takes_no_more_records() -> None:
    flight = Flight(0)
    taken = flight.accumulator.append(TopicPartition("t", 0), 0, None, b"0", (), 0)
    assert taken is not None
    gatherer = taken[0].gatherer
    assert gatherer is not None
    flight.sender.fail_topic("t", KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert gatherer.take(None, b"1", 1) is None
    assert flight.accumulator.used == 0


def test_a_node_that_takes_nothing_is_late_after_the_timeout_until_it_takes_something() -> None:
    accumulator = Accumulator(200, 0, 1 << 20)
    sender = Sender(CONFIG._replace(availability_timeout_ms=100, delivery_timeout_ms=60_000), accumulator, Backoff(5, 50, random.Random(1)))
    sender.on_producer_id(7, 0)

    def late_at(now_ms: int, *, connected: bool) -> bool:
        accumulator.append(TopicPartition("t", 0), 0, None, b"x", (), now_ms)
        sender.poll(view_of([1]), lambda _: connected, now_ms)
        return sender.is_late(1)

    assert not sender.is_late(1), "nobody has asked it yet"
    assert not late_at(10_000, connected=False)
    assert not late_at(10_100, connected=False)
    assert late_at(10_101, connected=False)
    assert not late_at(10_102, connected=True)
    assert not late_at(10_200, connected=False)
    assert late_at(10_203, connected=False)


def test_without_the_timeout_no_node_is_late() -> None:
    accumulator = Accumulator(200, 0, 1 << 20)
    sender = Sender(CONFIG, accumulator, Backoff(5, 50, random.Random(1)))
    sender.on_producer_id(7, 0)
    accumulator.append(TopicPartition("t", 0), 0, None, b"x", (), 0)
    for now_ms in (0, 4000):
        sender.poll(view_of([1]), lambda _: False, now_ms)
        assert not sender.is_late(1)


def test_what_was_sent_leaves_the_memory() -> None:
    accumulator = Accumulator(200, 0, 1 << 20)
    sender = Sender(CONFIG, accumulator, Backoff(5, 50, random.Random(1)))
    sender.on_producer_id(7, 0)
    for send in (True, False):
        taken = accumulator.append(TopicPartition("t", 0), 0, None, b"x", (), 0)
        assert taken is not None
        gatherer = taken[0].gatherer
        assert gatherer is not None
        assert gatherer.records
        if send:
            (dispatch,) = sender.poll(view_of([1]), lambda _: True, 0).dispatches
            sender.on_response(dispatch, [BatchAnswer(ErrorCode.NONE, 0)], 0)
        else:
            sender.abort(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "closed"))
        assert gatherer.records == [], "a gatherer may be kept for longer than its batch"
