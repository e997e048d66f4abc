"""Produce requests with acks=-1 are acknowledged by offset: the right ones, once each, however they end."""

from __future__ import annotations

import random

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ErrorCode
from odradek.handlers.data import produce
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.replication.acks import Acks
from odradek.replication.appender import Appender
from odradek.replication.delayed_produce import Appends, PartitionAppend
from odradek.replication.flushing import Flusher
from odradek.storage.append import AppendOrigin
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.handlers.support import Broker
from tests.replication.partition_support import Pair
from tests.replication.support import TP, PartitionMetadata, batch


class Reached:
    """A partition of which only the high watermark matters; None: no leader any more."""

    topic_partition = TP

    def __init__(self) -> None:
        self.high_watermark: int | None = 0
        self.looked = 0

    def reached(self, required_offset: int) -> ErrorCode | None:
        self.looked += 1
        if self.high_watermark is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.high_watermark >= required_offset else None


class AcksWorld:
    def __init__(self, max_waiting: int = 1000) -> None:
        self.clock = ManualClock()
        self.acks = Acks(self.clock, max_waiting)
        self.partition = Reached()
        self.answered: list[tuple[int, ErrorCode]] = []

    def wait(self, required_offset: int, timeout_ms: int = 1000, partition: Reached | None = None) -> Applied[Appends]:
        append = PartitionAppend(TP, required_offset=required_offset)
        result = self.acks.wait(self.partition if partition is None else partition, append, [append], timeout_ms)  # type: ignore[arg-type]
        result.add_callback(lambda done: self.answered.extend((each.required_offset, each.error) for each in done.result()))
        return result

    def reach(self, high_watermark: int | None) -> None:
        self.partition.high_watermark = high_watermark
        self.acks.check(TP)

    def offsets(self) -> list[int]:
        answered, self.answered = self.answered, []
        return [offset for offset, _ in answered]


def test_a_high_watermark_answers_those_below_it_and_looks_at_one_more() -> None:
    world = AcksWorld()
    for offset in range(1, 1001):
        world.wait(offset)
    world.partition.looked = 0
    world.reach(10)
    assert world.offsets() == list(range(1, 11))
    assert world.partition.looked == 11
    world.reach(10)
    assert world.offsets() == []
    assert len(world.acks) == 990


def test_a_repeated_batch_is_acknowledged_by_the_offset_that_it_had_the_first_time() -> None:
    world = AcksWorld()
    for offset in (5, 10, 15, 7):
        world.wait(offset)
    world.reach(7)
    assert world.offsets() == [5, 7]
    world.reach(15)
    assert world.offsets() == [10, 15]
    assert (len(world.acks), world.acks.queues) == (0, {})


def test_the_end_of_the_leadership_answers_all() -> None:
    world = AcksWorld()
    for offset in (5, 10):
        world.wait(offset)
    world.reach(None)
    assert world.answered == [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (10, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_those_of_a_partition_that_was_made_anew_do_not_wait_behind_each_other() -> None:
    world = AcksWorld()
    world.wait(500)
    world.partition.high_watermark = None
    anew = Reached()
    world.wait(3, partition=anew)
    world.acks.check(TP)
    assert world.answered == [(500, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    anew.high_watermark = 3
    world.acks.check(TP)
    assert world.offsets()[1:] == [3]


def test_who_runs_out_of_time_leaves_alone_wherever_it_stands() -> None:
    world = AcksWorld()
    world.wait(1, timeout_ms=3000)
    world.wait(2, timeout_ms=1000)
    world.wait(3, timeout_ms=2000)
    world.clock.advance_ms(999)
    assert world.answered == []
    world.clock.advance_ms(1)
    assert world.answered == [(2, ErrorCode.REQUEST_TIMED_OUT)]
    world.reach(3)
    assert world.offsets() == [2, 1, 3]
    world.clock.advance_ms(5000)
    assert world.answered == []
    assert world.acks.queues == {}


def test_those_that_have_left_in_the_middle_are_swept_out() -> None:
    world = AcksWorld()
    world.wait(1, timeout_ms=100_000)
    for round_ in range(10):
        for offset in range(200):
            world.wait(2 + 200 * round_ + offset, timeout_ms=10)
        world.clock.advance_ms(10)
        assert len(world.acks.queues[TP].waiting) <= 66
    assert len(world.acks) == 1


def test_no_more_wait_than_may() -> None:
    world = AcksWorld(max_waiting=2)
    for offset in (1, 2, 3):
        world.wait(offset)
    assert world.answered == [(3, ErrorCode.REQUEST_TIMED_OUT)]
    assert len(world.acks) == 2


def test_close_answers_everybody() -> None:
    world = AcksWorld()
    world.wait(1)
    world.wait(2)
    world.acks.close()
    assert world.offsets() == [1, 2]
    assert (len(world.acks), world.clock.pending) == (0, [])


def test_one_answer_that_cannot_be_given_keeps_nobody_waiting() -> None:
    world = AcksWorld()

    def broken(_: object) -> None:
        raise ValueError("on purpose")

    world.wait(1).add_callback(broken)
    world.wait(2)
    world.reach(2)
    assert world.offsets() == [1, 2]


def test_any_history_answers_each_once_and_as_the_plain_rule_says() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        world = AcksWorld()
        open_: dict[int, int] = {}
        log_end = high_watermark = 0
        results: list[tuple[int, Applied[Appends]]] = []
        for number in range(200):
            if rng.random() < 0.6:
                required = rng.randint(high_watermark + 1, log_end) if log_end > high_watermark and rng.random() < 0.3 else log_end + 1
                log_end = max(log_end, required)
                open_[number] = required
                results.append((number, world.wait(required, timeout_ms=rng.choice((50, 500)))))
            elif rng.random() < 0.5 and log_end > high_watermark:
                high_watermark = rng.randint(high_watermark, log_end)
                world.reach(high_watermark)
            else:
                world.clock.advance_ms(rng.choice((10, 60)))
            for each, result in results:
                if each in open_:
                    assert result.done or open_[each] > high_watermark, seed
                    if result.done:
                        [append] = result.result()
                        expected = ErrorCode.NONE if open_.pop(each) <= high_watermark else ErrorCode.REQUEST_TIMED_OUT
                        assert append.error is expected, seed
        assert len(world.acks) == len(open_), seed


class TestThroughTheAppender:
    """Two replicas; what the answer of each way to end is."""

    def setup_method(self) -> None:
        self.pair = Pair()
        leader = self.pair.leader
        self.appender = Appender(leader.hosted, leader.delayed, Flusher(VirtualDisk(), lambda job: Deferred.of(job())))

    def produce(self) -> Deferred[Appends]:
        answer = self.appender.append([(TP, batch(b"a"))], required_acks=-1, timeout_ms=1000, origin=AppendOrigin.CLIENT)
        assert isinstance(answer, Applied), "the records are in the log: others may follow them"
        return answer

    def test_one_fetch_acknowledges_all_that_it_has_seen(self) -> None:
        answers = [self.produce() for _ in range(5)]
        self.pair.replicate()
        late = self.produce()
        self.pair.replicate()
        assert [answer.done for answer in answers] == [True] * 5
        assert [append.base_offset for answer in answers for append in answer.result()] == list(range(5))
        assert not late.done

    def test_the_log_directory_goes_away(self) -> None:
        answer = self.produce()
        self.pair.leader.partition.mark_offline()
        self.pair.leader.delayed.drain()
        assert answer.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR

    def test_the_leader_goes_on_in_another_epoch(self) -> None:
        answer = self.produce()
        self.pair.leader.partition.make_leader(PartitionMetadata(leader_epoch=1, partition_epoch=1), self.pair.leader.log)
        self.pair.leader.delayed.drain()
        assert not answer.done, "the records are in its log as before"


class TestSeveralPartitions:
    """A request over two partitions, each with a follower on broker 2."""

    def setup_method(self) -> None:
        self.broker = Broker()
        self.id = self.broker.create_topic("orders", partitions=2, replicas=(1, 2))

    def produce(self) -> Deferred[ProduceResponse]:
        data = [ProduceRequest.PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1)]
        topics = [ProduceRequest.TopicProduceData(name="orders", partition_data=data)]
        answer = self.broker.call(produce.handle, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        assert isinstance(answer, Deferred)
        return answer

    def replicated(self, partition: int, offset: int) -> None:
        wanted = [FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=200),
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=self.id, partitions=wanted)],
        )
        self.broker.ask(request, 17)

    def errors(self, answer: Deferred[ProduceResponse]) -> list[int]:
        [topic] = answer.result().responses
        return [partition.error_code for partition in topic.partition_responses]

    def test_waits_for_the_last_of_them(self) -> None:
        answer = self.produce()
        self.replicated(0, 1)
        assert not answer.done
        self.replicated(1, 1)
        assert self.errors(answer) == [0, 0]
        assert len(self.broker.manager.delayed.produce) == 0

    def test_one_that_is_lost_fails_alone(self) -> None:
        answer = self.produce()
        self.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=self.id, leader=2))
        assert not answer.done
        self.replicated(1, 1)
        assert self.errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]

    def test_fails_when_the_topic_is_deleted(self) -> None:
        answer = self.produce()
        self.broker.delete_topic(self.id)
        assert self.errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2

    def test_with_one_still_open_stands_in_the_queue_of_that_partition(self) -> None:
        self.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=self.id, leader=2))
        answer = self.produce()
        assert (len(self.broker.manager.delayed.acks), len(self.broker.manager.delayed.produce)) == (1, 0)
        self.replicated(1, 1)
        assert self.errors(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]

    def test_what_was_not_replicated_in_time_is_told(self) -> None:
        answer = self.produce()
        self.replicated(1, 1)
        self.broker.clock.advance_ms(1000)
        assert self.errors(answer) == [ErrorCode.REQUEST_TIMED_OUT, 0]
