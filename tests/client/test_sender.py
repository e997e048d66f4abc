"""Whatever the network does, an idempotent producer writes each record once and in order."""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.accumulator import Accumulator
from odradek.client.core.sender import BatchAnswer, Sender
from odradek.records.batch import read_header
from tests.client.sender_support import CONFIG, Flight, SenderWorld, view_of


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
        world = SenderWorld(1, 0.0, partitions=2, config=CONFIG._replace(retries=0))
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
        world = SenderWorld(1, 0.0, partitions=1)
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
        world = SenderWorld(1, 0.0, partitions=1)
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
        world = SenderWorld(1, 0.0, partitions=1)
        world.send(2)
        other = world.accumulator.append(TopicPartition("u", 0), 0, None, b"u", (), world.now)
        assert other is not None
        world.sender.fail_topic("u", KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        assert other[0].is_done()
        assert not any(future.done() for *_, future in world.placed)
        assert world.sender.outstanding == 1

    def test_of_a_topic_lets_callbacks_send_again(self) -> None:
        world = SenderWorld(1, 0.0, partitions=1)
        one, other = (world.accumulator.append(TopicPartition("u", number), 0, None, b"u", (), world.now) for number in (0, 1))
        assert one is not None
        assert other is not None
        for target in (TopicPartition("u", 0), TopicPartition("v", 0)):
            one[0].add_callback(lambda target=target: world.accumulator.append(target, 0, None, b"again", (), world.now))
        world.sender.fail_topic("u", KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        assert other[0].is_done()
        assert world.sender.outstanding == 2

    def test_of_everything_sends_nothing_more(self) -> None:
        world = SenderWorld(1, 0.0, partitions=1)
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
        world = SenderWorld(1, 0.0, partitions=4, config=CONFIG._replace(max_request_size=150))
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
            world = SenderWorld(1, 0.0, partitions=2)
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
    world = SenderWorld(seed, trouble)
    world.run(120)
    world.check()
    assert world.max_in_flight <= CONFIG.max_in_flight


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_batches_that_are_too_large_are_split_without_losing_order(seed: int) -> None:
    # In five seconds a batch may be unlucky too often.
    world = SenderWorld(seed, 0.2, max_batch=90, config=CONFIG._replace(delivery_timeout_ms=120_000))
    world.run(80)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert all(log.too_large for log in world.logs)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.1, 0.4]), st.sampled_from([3, 20]))
def test_nothing_fails_that_has_time(seed: int, trouble: float, burst: int) -> None:
    world = SenderWorld(seed, trouble, config=CONFIG._replace(delivery_timeout_ms=1 << 40), burst=burst)
    world.run(120)
    world.check()
    assert all(future.exception() is None for *_, future in world.placed)
    assert world.sender.producer_epoch == 0, "no answer was ever in doubt for good"


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_times_out_neither_doubles_nor_reorders_the_rest(seed: int) -> None:
    world = SenderWorld(seed, 0.5, config=CONFIG._replace(delivery_timeout_ms=120))
    world.run(120)
    world.check()


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30))
def test_one_in_flight_keeps_order_without_idempotence(seed: int) -> None:
    config = CONFIG._replace(idempotent=False, max_in_flight=1)
    world = SenderWorld(seed, 0.3, partitions=1, config=config)
    world.leaders = [0]
    world.run(80)
    first_seen = list(dict.fromkeys(world.written()))
    assert first_seen == sorted(first_seen)


def test_a_broker_with_another_producer_state_gets_a_new_epoch() -> None:
    world = SenderWorld(1, 0.0, partitions=1)
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
    world = SenderWorld(1, 0.0, partitions=1)
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
    world = SenderWorld(1, 0.0, partitions=1)
    world.leaders = [0]
    world.send(1)
    world.sender.on_producer_id(7, 0)
    work = world.sender.poll(view_of([0]), lambda _: False, 100)
    assert work.connect == {0}
    assert not work.dispatches


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from([0.0, 0.2]))
def test_refused_batches_take_nobody_with_them(seed: int, trouble: float) -> None:
    world = SenderWorld(seed, trouble)
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
