"""A follower's session costs what has changed, and tells its follower all that a session which is looked through would."""

from __future__ import annotations

import random
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata_records import PartitionChangeRecord, RegisterBrokerRecord
from odradek.protocol.schema import records_view
from odradek.records.batch import iter_headers
from odradek.replication.fetch_session import EVICTION_S
from odradek.replication.reader import Reader
from odradek.replication.subscriptions import EXPECTED_S, EXPECTED_WAIT_MS, Subscriptions
from tests.handlers.support import through_the_wire
from tests.replication.subscription_support import VERSION, Leader, Position
from tests.storage.support import cleanup

LAG_MS = 30_000


class Told(NamedTuple):
    """What an answer says of one partition."""

    error: int
    high_watermark: int
    log_start_offset: int
    diverging: Position
    records: bytes


def told(response: FetchResponse) -> dict[tuple[UUID, int], Told]:
    return {
        (topic.topic_id, each.partition_index): Told(
            each.error_code,
            each.high_watermark,
            each.log_start_offset,
            (each.diverging_epoch.epoch, each.diverging_epoch.end_offset),
            bytes(records_view(each.records)),
        )
        for topic in response.responses
        for each in topic.partitions
    }


def result(answer: Any) -> FetchResponse:
    """Of a request that had to wait."""
    assert isinstance(answer, Deferred)
    return through_the_wire(answer.result(), VERSION)


def indexes(response: FetchResponse) -> list[int]:
    return [each.partition_index for topic in response.responses for each in topic.partitions]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are read, one after the other."""
    seen: list[int] = []
    original = Reader._read_or_error

    def counting(self: Reader, params: Any, wanted: Any, *rest: Any) -> Any:
        seen.append(wanted.partition)
        return original(self, params, wanted, *rest)

    monkeypatch.setattr(Reader, "_read_or_error", counting)
    return seen


class TestCost:
    def test_a_fetch_looks_at_what_has_changed(self, looked: list[int]) -> None:
        leader = Leader(300)
        session = leader.open()
        looked.clear()
        waiting = leader.fetch(session=session, epoch=2)
        assert isinstance(waiting, Deferred)
        assert looked == []
        assert (len(leader.delayed.fetch), leader.delayed.fetch.watchers) == (1, {})
        leader.append(7, b"a")
        leader.clock.run_due()
        assert indexes(result(waiting)) == [7]
        assert looked == [7]
        waiting = leader.fetch({(1, 7): 1}, session=session, epoch=3)
        assert looked == [7, 7]
        leader.clock.advance_ms(500)
        assert [each.high_watermark for each in told(result(waiting)).values()] == [1]
        looked.clear()
        leader.fetch(session=session, epoch=4)
        leader.fetch(session=session, epoch=5)
        assert looked == [7], "once more, to see that there is nothing left to tell"

    def test_an_append_to_another_leaders_partition_costs_nothing(self, looked: list[int]) -> None:
        leader = Leader(2)
        session = leader.open({(1, 0): 0})
        leader.clock.advance_s(EXPECTED_S)
        leader.fetch(session=session, epoch=2)
        looked.clear()
        leader.append(1, b"a")
        assert looked == []
        assert len(leader.clock.pending) == 1, "the time of the fetch itself"


class TestTurns:
    def test_the_appends_of_a_turn_make_one_answer(self) -> None:
        leader = Leader()
        session = leader.open()
        waiting = leader.fetch(session=session, epoch=2)
        for index in (2, 0, 2):
            leader.append(index, b"a")
            assert not waiting.done
        leader.clock.turn()
        answers = told(result(waiting))
        assert {
            index: [header.base_offset for _, header in iter_headers(memoryview(each.records))] for (_, index), each in answers.items()
        } == {
            2: [0, 1],
            0: [0],
        }

    def test_what_came_before_the_fetch_was_parked_is_seen(self) -> None:
        """An acknowledgement that the fetch itself gives leads to an append, as a coordinator's does."""
        leader = Leader(2)
        session = leader.open()
        answer = leader.append(0, b"a", acks=-1)
        leader.fetch(session=session, epoch=2)
        answer.add_callback(lambda _: leader.append(1, b"b"))
        waiting = leader.fetch({(1, 0): 1}, session=session, epoch=3)
        assert answer.done
        leader.clock.run_due()
        assert indexes(result(waiting)) == [0, 1]

    def test_a_new_high_watermark_alone_is_told_with_the_next_answer(self) -> None:
        leader = Leader(1)
        session = leader.open()
        leader.append(0, b"a")
        leader.fetch(session=session, epoch=2)
        waiting = leader.fetch({(1, 0): 1}, session=session, epoch=3)
        leader.clock.run_due()
        assert not waiting.done, "as in Kafka"
        leader.clock.advance_ms(500)
        [answer] = told(result(waiting)).values()
        assert (answer.high_watermark, answer.records) == (1, b"")


class TestHold:
    """Two produce requests wait unless said otherwise, and the last answer has just left."""

    def setup_method(self) -> None:
        self.leader = Leader(3)
        self.session = self.leader.open()
        self.epoch = 2

    def answer(self) -> None:
        """Sends an answer now."""
        self.leader.append(2, b"answered")
        self.leader.fetch({(1, 2): 0}, session=self.session, epoch=self.epoch, max_wait_ms=0)
        self.epoch += 1

    def park(self) -> Any:
        waiting = self.leader.fetch({(1, 2): self.leader.end(2)}, session=self.session, epoch=self.epoch)
        self.epoch += 1
        assert isinstance(waiting, Deferred)
        return waiting

    def test_little_waits_for_more_a_millisecond_at_most(self) -> None:
        self.answer()
        waiting = self.park()
        self.leader.append(0, b"a", acks=-1)
        self.leader.append(1, b"b", acks=-1)
        self.leader.clock.run_due()
        assert not waiting.done
        self.leader.append(0, b"c")
        self.leader.clock.advance_ms(0.3)
        assert not waiting.done
        self.leader.clock.advance_ms(0.7)
        assert sorted(indexes(result(waiting))) == [0, 1, 2]

    def test_what_is_there_when_the_fetch_comes_waits_too(self) -> None:
        self.answer()
        self.leader.append(0, b"a", acks=-1)
        self.leader.append(1, b"b", acks=-1)
        waiting = self.park()
        self.leader.clock.run_due()
        assert not waiting.done
        self.leader.clock.advance_ms(1)
        assert sorted(indexes(result(waiting))) == [0, 1, 2]

    def test_once_there_is_much_it_leaves_with_the_turn(self) -> None:
        self.answer()
        waiting = self.park()
        for _ in range(2):
            self.leader.append(0, bytes(20_000), acks=-1)
        self.leader.clock.run_due()
        assert not waiting.done
        for _ in range(2):
            self.leader.append(1, bytes(20_000), acks=-1)
        self.leader.clock.run_due()
        assert waiting.done

    def test_one_request_alone_is_not_kept(self) -> None:
        self.answer()
        waiting = self.park()
        self.leader.append(0, b"a", acks=-1)
        self.leader.clock.run_due()
        assert waiting.done

    def test_after_a_while_without_answers_nothing_is_kept(self) -> None:
        self.answer()
        waiting = self.park()
        self.leader.clock.advance_ms(0.5)
        self.leader.append(0, b"a", acks=-1)
        self.leader.append(1, b"b", acks=-1)
        self.leader.clock.run_due()
        assert waiting.done

    def test_an_error_is_not_kept(self) -> None:
        self.leader.append(0, b"a", acks=-1)
        self.leader.append(1, b"b", acks=-1)
        self.answer()
        answer = self.leader.fetch({(1, 0): 77}, session=self.session, epoch=self.epoch)
        assert isinstance(answer, FetchResponse)

    def test_a_fetch_that_runs_out_of_time_while_it_is_held_up_is_answered_once(self) -> None:
        self.answer()
        self.leader.append(0, b"a", acks=-1)
        self.leader.append(1, b"b", acks=-1)
        waiting = self.leader.fetch(session=self.session, epoch=self.epoch, max_wait_ms=1)
        self.leader.clock.advance_ms(2)
        assert sorted(indexes(result(waiting))) == [0, 1, 2]


class TestOrder:
    def test_a_busy_partition_starves_nobody(self) -> None:
        leader = Leader(3)
        session = leader.open()
        positions = dict.fromkeys(((1, index) for index in range(3)), 0)
        served: list[int] = []
        epoch = 2
        changed: dict[Position, int] = {}
        for _ in range(9):
            for index in (0, 1, 2) if not served else (0,):
                leader.append(index, b"a" * 100)
            answer = leader.fetch(changed, session=session, epoch=epoch, max_bytes=1)
            epoch += 1
            changed = {}
            for (_, index), each in told(answer).items():
                if each.records:
                    served.append(index)
                    positions[1, index] += 1
                    changed[1, index] = positions[1, index]
        assert served == [0, 1, 2, 0, 0, 0, 0, 0, 0]


class TestTheSessionsEnd:
    def test_one_that_is_evicted_answers_what_waits_and_leaves_nothing(self) -> None:
        leader = Leader(2, max_incremental_fetch_session_cache_slots="1")
        session = leader.open()
        leader.clock.advance_s(EVICTION_S / 2)
        waiting = leader.fetch(session=session, epoch=2, max_wait_ms=1_000_000)
        leader.clock.advance_s(EVICTION_S + 1)
        other = leader.fetch({(1, 0): 0}, epoch=0, max_wait_ms=0).session_id
        assert other not in (0, session)
        assert result(waiting).error_code == 0
        assert leader.fetch(session=session, epoch=3).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert {len(entries) for entries in leader.delayed.followers.by_partition.values()} == {1}
        assert list(leader.delayed.followers.by_partition) == [TopicPartition("orders", 0)]

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_one_that_is_closed_leaves_nothing(self, epoch: int) -> None:
        leader = Leader(2)
        session = leader.open()
        leader.append(0, b"a")
        answer = leader.fetch({(1, 0): 0, (1, 1): 0}, session=session, epoch=epoch, max_wait_ms=0)
        assert [bool(each.records) for each in told(answer).values()] == [True, False], "a rebuilt session loses nothing"
        assert sum(len(entries) for entries in leader.delayed.followers.by_partition.values()) == (2 if epoch == 0 else 0)

    def test_the_last_partition_forgotten_closes_it(self) -> None:
        leader = Leader(1)
        session = leader.open()
        leader.fetch(session=session, epoch=2, forgotten=[(1, 0)])
        assert leader.delayed.followers.by_partition == {}

    def test_a_request_that_overtakes_a_waiting_one_ends_it_at_once(self) -> None:
        leader = Leader(1)
        session = leader.open()
        first = leader.fetch(session=session, epoch=2)
        second = leader.fetch(session=session, epoch=3)
        assert result(first).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        leader.append(0, b"a")
        leader.clock.run_due()
        assert indexes(result(second)) == [0]

    def test_shutdown_answers_what_waits(self) -> None:
        leader = Leader(1)
        session = leader.open()
        waiting = leader.fetch(session=session, epoch=2)
        leader.delayed.close()
        assert result(waiting).error_code == 0

    def test_a_consumer_that_goes_on_with_it_is_served_by_looking_through(self) -> None:
        leader = Leader(2)
        session = leader.open()
        leader.append(1, b"a")
        request = FetchRequest(session_id=session, session_epoch=2, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20)
        assert indexes(leader.broker.call(fetch.handle, request, VERSION)) == []
        assert leader.delayed.followers.by_partition == {}
        assert indexes(leader.fetch(session=session, epoch=3)) == [1]


class TestNewPartitions:
    """Of which the followers do not know yet when this broker begins to lead them."""

    def open(self, **config: str) -> tuple[Leader, int]:
        """Some time after the start."""
        leader = Leader(2, **config)
        session = leader.open()
        leader.clock.advance_s(EXPECTED_S)
        return leader, session

    def new_topic(self, leader: Leader, replicas: tuple[int, ...] = (1, 2)) -> None:
        leader.ids[2] = leader.broker.create_topic("more", number=2, replicas=replicas)

    def test_a_parked_fetch_is_answered_and_the_next_ones_wait_a_moment(self) -> None:
        leader, session = self.open()
        waiting = leader.fetch(session=session, epoch=2)
        self.new_topic(leader)
        assert not waiting.done
        leader.clock.run_due()
        assert indexes(result(waiting)) == []
        for epoch in (3, 4):
            waiting = leader.fetch(session=session, epoch=epoch)
            leader.clock.advance_ms(EXPECTED_WAIT_MS - 1)
            assert not waiting.done
            leader.clock.advance_ms(1)
            assert indexes(result(waiting)) == []
        waiting = leader.fetch({(2, 0): 0}, session=session, epoch=5)
        leader.clock.advance_ms(499)
        assert not waiting.done, told(result(waiting))
        leader.append(0, b"a", topic="more")
        leader.clock.run_due()
        assert indexes(result(waiting)) == [0]

    def test_a_follower_of_other_partitions_waits_on(self) -> None:
        leader, session = self.open()
        waiting = leader.fetch(session=session, epoch=2)
        self.new_topic(leader, replicas=(1, 3))
        leader.clock.advance_ms(499)
        assert not waiting.done
        waiting = leader.fetch(session=session, epoch=3)
        leader.clock.advance_ms(499)
        assert not waiting.done

    def test_who_does_not_fetch_it_waits_as_ever_after_a_second(self) -> None:
        leader, session = self.open()
        self.new_topic(leader)
        leader.clock.advance_s(EXPECTED_S)
        waiting = leader.fetch(session=session, epoch=2)
        leader.clock.advance_ms(499)
        assert not waiting.done
        assert len(leader.clock.pending) == 1, "the time of the fetch itself"

    def test_each_new_partition_has_its_second(self) -> None:
        leader, session = self.open()
        self.new_topic(leader)
        leader.clock.advance_s(EXPECTED_S / 2)
        leader.ids[3] = leader.broker.create_topic("most", number=3, replicas=(1, 2))
        leader.clock.advance_s(EXPECTED_S / 2)
        waiting = leader.fetch(session=session, epoch=2)
        leader.clock.advance_ms(EXPECTED_WAIT_MS)
        assert indexes(result(waiting)) == []
        leader.clock.advance_s(EXPECTED_S / 2)
        waiting = leader.fetch(session=session, epoch=3)
        leader.clock.advance_ms(499)
        assert not waiting.done

    def test_newer_metadata_about_what_it_leads_changes_nothing(self) -> None:
        leader, session = self.open()
        waiting = leader.fetch(session=session, epoch=2)
        leader.broker.apply(PartitionChangeRecord(partition_id=1, topic_id=leader.ids[1], leader=1))
        leader.clock.advance_ms(499)
        assert not waiting.done

    def test_the_follower_s_next_incarnation_is_answered_too(self) -> None:
        leader, session = self.open()
        waiting = leader.fetch(session=session, epoch=2, replica=(2, 201))
        self.new_topic(leader)
        leader.clock.run_due()
        assert indexes(result(waiting)) == []

    def test_a_session_that_has_ended_is_forgotten(self) -> None:
        leader, session = self.open()
        assert leader.delayed.followers.by_follower.keys() == {2}
        leader.fetch(session=session, epoch=2, forgotten=[(1, 0), (1, 1)])
        assert leader.delayed.followers.by_follower == {}


class TestPartitions:
    def test_forgotten_ones_are_told_of_no_more_and_added_ones_are(self) -> None:
        leader = Leader(3)
        session = leader.open({(1, 0): 0, (1, 1): 0})
        waiting = leader.fetch({(1, 2): 0}, session=session, epoch=2, forgotten=[(1, 0)])
        assert isinstance(waiting, FetchResponse) or not waiting.done
        leader.append(0, b"a")
        leader.append(2, b"b")
        leader.clock.run_due()
        assert indexes(result(waiting)) == [2]

    def test_one_that_cannot_be_read_is_answered_each_time_and_nothing_waits(self) -> None:
        leader = Leader(2)
        session = leader.open()
        for epoch in (2, 3):
            answer = leader.fetch({(1, 1): 5}, session=session, epoch=epoch)
            assert told(answer)[leader.ids[1], 1].error == ErrorCode.OFFSET_OUT_OF_RANGE
        waiting = leader.fetch({(1, 1): 0}, session=session, epoch=4)
        assert isinstance(waiting, Deferred)

    def test_the_loss_of_the_leadership_is_told_at_once(self) -> None:
        leader = Leader(2)
        session = leader.open()
        waiting = leader.fetch(session=session, epoch=2)
        leader.broker.apply(PartitionChangeRecord(partition_id=1, topic_id=leader.ids[1], leader=2))
        leader.clock.run_due()
        assert {index: each.error for (_, index), each in told(result(waiting)).items()} == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    def test_a_new_leader_epoch_is_told_at_once(self) -> None:
        leader = Leader(2)
        offsets = {(1, 0): 0, (1, 1): 0}
        session = leader.fetch(offsets, epoch=0, max_wait_ms=0, leader_epochs=dict.fromkeys(offsets, 0)).session_id
        waiting = leader.fetch(session=session, epoch=1)
        leader.broker.apply(PartitionChangeRecord(partition_id=1, topic_id=leader.ids[1], leader=1))
        leader.clock.run_due()
        assert {index: each.error for (_, index), each in told(result(waiting)).items()} == {1: ErrorCode.FENCED_LEADER_EPOCH}

    def test_a_deleted_topic_is_told_at_once_and_its_successor_is_served(self) -> None:
        leader = Leader(1)
        session = leader.open()
        waiting = leader.fetch(session=session, epoch=2)
        leader.ids[2] = leader.broker.create_topic("orders", number=2, replicas=(1, 2), former=leader.ids[1])
        leader.append(0, b"a")
        leader.clock.run_due()
        assert [each.error for each in told(result(waiting)).values()] == [ErrorCode.INCONSISTENT_TOPIC_ID]
        answer = leader.fetch({(2, 0): 0}, session=session, epoch=3, forgotten=[(1, 0)])
        assert [each.error for each in told(answer).values()] == [0]

    def test_a_topic_that_is_not_known_yet_is_served_once_it_is(self) -> None:
        leader = Leader(1)
        leader.ids[5] = UUID(int=(5 << 64) + 7)
        session = leader.fetch({(1, 0): 0, (5, 0): 0}, epoch=0, max_wait_ms=0).session_id
        leader.fetch(session=session, epoch=1, max_wait_ms=0)
        answer = leader.fetch(session=session, epoch=2, max_wait_ms=0)
        assert [each.error for each in told(answer).values()] == [ErrorCode.UNKNOWN_TOPIC_ID]
        leader.broker.create_topic("payments", number=5, replicas=(1, 2))
        waiting = leader.fetch(session=session, epoch=3)
        if isinstance(waiting, FetchResponse):
            waiting = leader.fetch(session=session, epoch=4)
        leader.append(0, b"a", topic="payments")
        leader.clock.run_due()
        assert [(each.error, bool(each.records)) for each in told(result(waiting)).values()] == [(0, True)]

    def test_retention_is_told(self) -> None:
        leader = Leader(1)
        session = leader.open()
        for number in range(3):
            leader.append(0, b"a" * 100)
            leader.fetch({(1, 0): number + 1}, session=session, epoch=2 + number, max_wait_ms=0)
        leader.fetch(session=session, epoch=5, max_wait_ms=0)
        leader.fetch(session=session, epoch=6, max_wait_ms=0)
        log = leader.partition().log
        assert log is not None
        log.roll()
        leader.clock.set_wall_ms(leader.clock.time_ms() + 30 * 24 * 3_600_000)
        assert cleanup(leader.manager._log_manager) == 1
        [answer] = told(leader.fetch(session=session, epoch=7, max_wait_ms=0)).values()
        assert answer.log_start_offset == 3


class TestInSync:
    def test_who_fetched_without_a_word_about_an_idle_partition_has_a_full_lag_from_its_last_fetch(self) -> None:
        leader = Leader(2)
        session = leader.open()
        epoch = 2
        for _ in range(20):
            leader.fetch(session=session, epoch=epoch)
            epoch += 1
            leader.clock.advance_ms(LAG_MS / 2)
        leader.append(0, b"a")
        leader.manager.shrink_isrs()
        assert not leader.partition().isr.in_flight
        leader.clock.advance_ms(LAG_MS / 2)
        leader.manager.shrink_isrs()
        assert not leader.partition().isr.in_flight
        leader.clock.advance_ms(1)
        leader.manager.shrink_isrs()
        assert leader.partition().isr.in_flight, "it has not fetched for longer than the lag that it may have"
        assert not leader.partition(1).isr.in_flight

    def test_a_partition_that_moves_to_another_session_keeps_its_time(self) -> None:
        leader = Leader(2)
        session = leader.open()
        leader.clock.advance_ms(LAG_MS)
        leader.fetch(session=session, epoch=2, max_wait_ms=0)
        leader.fetch(session=session, epoch=3, max_wait_ms=0, forgotten=[(1, 1)])
        leader.append(1, b"a")
        leader.clock.advance_ms(1)
        leader.manager.shrink_isrs()
        assert not leader.partition(1).isr.in_flight

    def test_one_that_joins_is_looked_at_until_it_has(self) -> None:
        leader = Leader(1, isr=(1,))
        session = leader.fetch({(1, 0): 0}, epoch=0, max_wait_ms=0).session_id
        leader.clock.run_due()
        assert leader.partition().isr.in_flight
        for epoch in (1, 2, 3):
            leader.controller_answers(accepts=False)
            leader.fetch(session=session, epoch=epoch, max_wait_ms=0)
            leader.clock.run_due()
            assert leader.partition().isr.in_flight, "asked again"
        leader.controller_answers()
        assert leader.partition().isr.isr == {1, 2}

    def test_who_is_fenced_when_it_has_caught_up_joins_once_it_is_not(self) -> None:
        leader = Leader(1, isr=(1,))
        fenced = RegisterBrokerRecord(broker_id=2, broker_epoch=200, incarnation_id=UUID(int=1002), fenced=True)
        leader.broker.apply(fenced)
        session = leader.fetch({(1, 0): 0}, epoch=0, max_wait_ms=0).session_id
        leader.fetch(session=session, epoch=1, max_wait_ms=0)
        leader.fetch(session=session, epoch=2, max_wait_ms=0)
        assert not leader.partition().isr.in_flight
        leader.broker.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=200, incarnation_id=UUID(int=1002), fenced=False))
        leader.fetch(session=session, epoch=3, max_wait_ms=0)
        assert leader.partition().isr.in_flight

    def test_who_is_taken_out_by_the_controller_comes_back(self) -> None:
        leader = Leader(1)
        session = leader.open()
        leader.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=leader.ids[1], isr=[1], leader=1))
        assert leader.partition().isr.isr == {1}
        leader.fetch({(1, 0): 0}, session=session, epoch=2, leader_epochs={(1, 0): 1}, max_wait_ms=0)
        assert leader.partition().isr.in_flight

    def test_who_is_taken_out_by_an_answer_of_the_controller_comes_back(self) -> None:
        leader = Leader(1)
        session = leader.open()
        leader.append(0, b"a")
        leader.fetch(session=session, epoch=2, max_wait_ms=0)
        leader.clock.advance_ms(LAG_MS + 1)
        leader.manager.shrink_isrs()
        assert leader.partition().isr.in_flight
        leader.fetch({(1, 0): 1}, session=session, epoch=3, max_wait_ms=0)
        leader.fetch(session=session, epoch=4, max_wait_ms=0)
        leader.fetch(session=session, epoch=5, max_wait_ms=0)
        leader.clock.run_due()
        leader.controller_answers(publishes=False)
        assert leader.partition().isr.isr == {1}
        leader.fetch(session=session, epoch=6, max_wait_ms=0)
        assert leader.partition().isr.in_flight

    def test_another_incarnation_is_noted_everywhere(self) -> None:
        leader = Leader(2)
        session = leader.open()
        leader.broker.apply(RegisterBrokerRecord(broker_id=2, broker_epoch=201, incarnation_id=UUID(int=1003), fenced=False))
        old = leader.fetch(session=session, epoch=2)
        assert [each.error for each in told(old).values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        leader.fetch(session=session, epoch=3, replica=(2, 201), max_wait_ms=0)
        assert [leader.partition(index).replicas[2].broker_epoch for index in (0, 1)] == [201, 201]


class LookedThrough(Leader):
    """The same, with sessions as Kafka has them: every partition is read for every fetch."""

    def fetch(self, *args: Any, **more: Any) -> Any:
        for session in self.manager.fetch_sessions._sessions.values():
            session.unsubscribe()
        return super().fetch(*args, **more)


class History:
    """One follower that two leaders answer, and everything that happens happens to both."""

    PARTITIONS = 4

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sides = (Leader(self.PARTITIONS), LookedThrough(self.PARTITIONS))
        self.number = 1
        self.positions: dict[Position, int] = {}
        self.epochs: dict[Position, int] = {}
        self.changed: dict[Position, int] = {}
        self.forgotten: list[Position] = []
        self.session = self.epoch = 0
        self.waiting: tuple[Any, Any] | None = None
        for index in range(self.PARTITIONS):
            self.add(index)

    def add(self, index: int) -> None:
        position = (self.number, index)
        self.positions[position] = self.changed[position] = self.positions.get(position, 0)
        self.epochs[position] = self.sides[0].partition(index).leader_epoch
        if position in self.forgotten:
            self.forgotten.remove(position)

    def step(self) -> None:
        random_ = self.random
        actions = [self.append] * 5 + [self.fetch] * 6 + [self.time_passes] * 2
        actions += [
            self.forget,
            self.take_up,
            self.delete_records,
            self.new_epoch,
            self.isr,
            self.isr,
            self.move,
            self.recreate,
            self.start_over,
        ]
        random_.choice(actions)()
        for side in self.sides:
            side.clock.run_due()
        self.hear()
        self.check()

    def index(self) -> int:
        return self.random.randrange(self.PARTITIONS)

    def append(self) -> None:
        index, value = self.index(), bytes(self.random.choice((1, 200)))
        for side in self.sides:
            side.append(index, value)

    def fetch(self) -> None:
        if self.waiting is not None:
            return
        changed, self.changed = self.changed, {}
        if self.session == 0:
            changed = dict(self.positions)
        if not self.positions:
            return
        forgotten, self.forgotten = self.forgotten, []
        if self.session == 0:
            forgotten = []
        wait = self.random.choice((0, 500, 500))
        answers = tuple(
            side.fetch(
                changed,
                session=self.session,
                epoch=self.epoch,
                forgotten=forgotten,
                max_wait_ms=wait,
                leader_epochs=self.epochs,
                fetched_epochs=dict.fromkeys(changed, -1),
            )
            for side in self.sides
        )
        self.epoch += 1
        self.waiting = (answers[0], answers[1])
        self.hear()

    def hear(self) -> None:
        if self.waiting is None:
            return
        done = [not isinstance(answer, Deferred) or answer.done for answer in self.waiting]
        assert done[0] == done[1], "one waits and the other does not"
        if not done[0]:
            return
        answers = [result(answer) if isinstance(answer, Deferred) else answer for answer in self.waiting]
        self.waiting = None
        assert answers[0].error_code == answers[1].error_code
        assert answers[0].session_id == answers[1].session_id
        told_ = told(answers[0])
        assert told_ == told(answers[1])
        if answers[0].error_code:
            self.session = self.epoch = 0
            return
        self.session = answers[0].session_id
        ids = {id_: number for number, id_ in self.sides[0].ids.items()}
        for (id_, index), each in told_.items():
            position = (ids[id_], index)
            if position not in self.positions:
                continue
            if each.error == ErrorCode.FENCED_LEADER_EPOCH or each.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
                self.epochs[position] = self.sides[0].partition(index).leader_epoch
                self.changed[position] = self.positions[position]
            elif each.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                log = self.sides[0].partition(index).log
                assert log is not None
                self.positions[position] = self.changed[position] = log.log_start_offset
            elif each.error and self.random.random() < 0.5:
                self.drop(position)
            elif each.records and self.random.random() < 0.9:
                self.positions[position] = self.changed[position] = [
                    header.next_offset for _, header in iter_headers(memoryview(each.records))
                ][-1]

    def drop(self, position: Position) -> None:
        self.positions.pop(position, None)
        self.changed.pop(position, None)
        if position not in self.forgotten:
            self.forgotten.append(position)

    def forget(self) -> None:
        if len(self.positions) > 1:
            self.drop(self.random.choice(list(self.positions)))

    def take_up(self) -> None:
        self.add(self.index())

    def delete_records(self) -> None:
        index = self.index()
        for side in self.sides:
            if side.partition(index).is_leader:
                side.manager.deleter.delete_records({TopicPartition("orders", index): -1}, 10)

    def new_epoch(self) -> None:
        index = self.index()
        isr = self.random.choice(([1], [1, 2]))
        for side in self.sides:
            side.broker.apply(PartitionChangeRecord(partition_id=index, topic_id=side.ids[self.number], leader=1, isr=isr))

    def move(self) -> None:
        index = self.index()
        for side in self.sides:
            side.broker.apply(PartitionChangeRecord(partition_id=index, topic_id=side.ids[self.number], leader=2))

    def isr(self) -> None:
        accepts = self.random.random() < 0.7
        for side in self.sides:
            side.controller_answers(accepts=accepts)

    def recreate(self) -> None:
        if self.random.random() < 0.8:
            return
        former = self.number
        self.number += 1
        for side in self.sides:
            side.ids[self.number] = side.broker.create_topic(
                "orders", number=self.number, partitions=self.PARTITIONS, replicas=(1, 2), former=side.ids[former]
            )
        for position in list(self.positions):
            if self.random.random() < 0.7:
                self.drop(position)
        for index in range(self.PARTITIONS):
            self.add(index)

    def start_over(self) -> None:
        """The follower has lost its session, or thinks so."""
        if self.waiting is None and self.random.random() < 0.3:
            self.epoch = 0
            self.changed = dict(self.positions)
            if self.random.random() < 0.5:
                self.session = 0
            else:
                # It names the old one, which is closed with that.
                self.fetch_anew()

    def fetch_anew(self) -> None:
        if not self.positions:
            return
        self.forgotten = []
        changed, self.changed = dict(self.positions), {}
        answers = tuple(side.fetch(changed, session=self.session, epoch=0, max_wait_ms=0, leader_epochs=self.epochs) for side in self.sides)
        self.epoch = 1
        self.waiting = (answers[0], answers[1])
        self.hear()

    def time_passes(self) -> None:
        milliseconds = self.random.choice((1, 499, 501, LAG_MS / 2, LAG_MS + 1))
        shrink = self.random.random() < 0.5
        for side in self.sides:
            side.clock.advance_ms(milliseconds)
            if shrink:
                side.manager.shrink_isrs()

    def check(self) -> None:
        ours, kafkas = self.sides
        for index in range(self.PARTITIONS):
            mine, other = ours.partition(index), kafkas.partition(index)
            assert mine.log is not None
            assert other.log is not None
            assert (mine.log.log_end_offset, mine.log.high_watermark) == (other.log.log_end_offset, other.log.high_watermark)
            assert (repr(mine.isr), mine.partition_epoch) == (repr(other.isr), other.partition_epoch)
            assert mine.out_of_sync_replicas() == other.out_of_sync_replicas()
            if 2 in mine.replicas:
                assert mine.replicas[2].log_end_offset == other.replicas[2].log_end_offset


def test_a_partition_that_was_taken_before_the_turn_was_over_wakes_the_session_again() -> None:
    """The parked fetch was to be looked at after the turn; in the same turn the follower asked again, and that fetch took the record."""
    leader = Leader(1)
    session = leader.open()
    leader.fetch(session=session, epoch=2)
    leader.append(0, b"a")
    leader.fetch(session=session, epoch=3, max_wait_ms=0)
    leader.clock.turn()
    waiting = leader.fetch({(1, 0): 1}, session=session, epoch=4)
    assert not waiting.done
    leader.append(0, b"b")
    leader.clock.run_due()
    assert waiting.done


SEEDS = (*range(40), 1049, 1122)
"""The histories that are run; those that have found broken code are among them."""


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_is_answered_as_by_a_session_that_is_looked_through(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sessions that are looked through do not know whom a new leader expects.
    monkeypatch.setattr(Subscriptions, "expect", lambda self, replicas: None)
    history = History(seed)
    for _ in range(150):
        history.step()
