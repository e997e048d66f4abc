"""The sender of markers alone: what is gathered, what is sent again, what is somebody else's business."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.markers import NO_LEADER, MarkerSender
from odradek.coordinator.transaction.state import Transaction, TransactionState
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.schema import Message
from tests.clock import ManualClock

HOME = TopicPartition("__transaction_state", 0)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)

Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


class Here:
    """The partitions of this broker."""

    node_id = 5

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, list[TopicPartition]]] = []
        self.answers: list[Deferred[Mapping[TopicPartition, ErrorCode]]] = []
        self.parts = 1

    def write_markers(
        self, transaction: Transaction, coordinator_epoch: int, partitions: Iterable[TopicPartition]
    ) -> list[Deferred[Mapping[TopicPartition, ErrorCode]]]:
        self.asked.append((transaction.transactional_id, coordinator_epoch, list(partitions)))
        answers: list[Deferred[Mapping[TopicPartition, ErrorCode]]] = [Deferred() for _ in range(self.parts)]
        self.answers += answers
        return answers


class MarkersWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leaders: dict[TopicPartition, int | None] = {P0: 1, P1: 1}
        self.sent: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.replies: list[Deferred[Message]] = []
        self.here = Here()
        self.sender = MarkerSender(self.clock, self, self._send, self.here)

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        return self.leaders[topic_partition]

    def _send(self, node: int, request: WriteTxnMarkersRequest) -> Deferred[Message]:
        self.sent.append((node, request))
        self.replies.append(Deferred())
        return self.replies[-1]

    def start(self, name: str = "x", producer_id: int = 1000, *partitions: TopicPartition, home: TopicPartition = HOME) -> Deferred[bool]:
        state = TransactionState.PREPARE_COMMIT
        transaction = Transaction(name, producer_id, 3, 60_000, state, frozenset(partitions or (P0,)), client_version=2)
        return self.sender.start(home, 7, transaction)

    def answer(self, codes: dict[tuple[int, TopicPartition], ErrorCode] | None = None, *, error: Exception | None = None) -> None:
        """The request sent last: (producer id, partition) -> code, NONE for the others."""
        self.clock.run_due()
        if error is not None:
            self.replies[-1].fail(error)
            return
        given = codes or {}
        self.replies[-1].complete(
            WriteTxnMarkersResponse(
                markers=[
                    Result(
                        producer_id=marker.producer_id,
                        topics=[
                            TopicResult(
                                name=topic.name,
                                partitions=[
                                    PartitionResult(
                                        partition_index=index,
                                        error_code=given.get((marker.producer_id, TopicPartition(topic.name, index)), ErrorCode.NONE),
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in self.sent[-1][1].markers
                ]
            )
        )
        self.clock.run_due()

    def asked(self, request: int = -1) -> list[tuple[int, list[int]]]:
        """(producer id, partitions of topic t) of a request."""
        return [(marker.producer_id, marker.topics[0].partition_indexes) for marker in self.sent[request][1].markers]


def test_what_is_decided_in_one_turn_shares_a_request() -> None:
    world = MarkersWorld()
    jobs = [world.start(f"x{number}", 1000 + number) for number in range(3)]
    world.answer()
    assert len(world.sent) == 1
    assert [job.result() for job in jobs] == [True] * 3
    assert len(world.sender) == 0


def test_what_is_decided_while_a_request_is_under_way_waits_for_its_answer() -> None:
    world = MarkersWorld()
    world.start("a", 1)
    world.clock.run_due()
    world.start("b", 2)
    world.start("c", 3)
    world.clock.run_due()
    assert len(world.sent) == 1
    world.answer()
    assert world.asked() == [(2, [0]), (3, [0])]


def test_a_code_of_a_later_release_is_asked_again() -> None:
    world = MarkersWorld()
    job = world.start("a", 1)
    world.start("b", 2)
    world.answer({(1, P0): 9_999})  # type: ignore[dict-item]
    assert not job.done
    world.clock.advance_s(0.2)
    assert world.asked() == [(1, [0])]
    world.answer()
    assert job.result()


def test_a_request_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.coordinator.transaction.markers._PER_REQUEST", 2)
    world = MarkersWorld()
    jobs = [world.start(f"x{number}", 1000 + number) for number in range(3)]
    world.answer()
    world.answer()
    assert [len(request.markers) for _, request in world.sent] == [2, 1]
    assert all(job.result() for job in jobs)


def test_only_the_partitions_that_have_it_not_are_asked_again() -> None:
    world = MarkersWorld()
    done = world.start("x", 1000, P0, P1)
    world.answer({(1000, P1): ErrorCode.NOT_LEADER_OR_FOLLOWER})
    world.leaders[P1] = 2
    world.clock.advance_s(0.2)
    assert world.sent[-1][0] == 2
    assert world.asked() == [(1000, [1])]
    assert not done.done
    world.answer()
    assert done.result()


@pytest.mark.parametrize("times", [1, 2, 5])
def test_what_gets_lost_is_sent_again_as_often_as_it_takes(times: int) -> None:
    world = MarkersWorld()
    done = world.start()
    for _ in range(times):
        world.answer(error=ConnectionError("lost"))
        world.clock.advance_s(0.2)
    world.answer()
    assert done.result()
    assert len(world.sent) == times + 1


def test_a_partition_without_a_leader_waits_for_one() -> None:
    world = MarkersWorld()
    world.leaders[P0] = NO_LEADER
    done = world.start()
    world.clock.advance_s(1)
    assert world.sent == []
    world.leaders[P0] = None
    world.clock.advance_s(0.2)
    assert done.result(), "it was deleted: there is nothing to end"


def test_what_an_answer_does_not_mention_is_not_written() -> None:
    world = MarkersWorld()
    done = world.start("x", 1000, P0, P1)
    world.clock.run_due()
    only = TopicResult(name="t", partitions=[PartitionResult(partition_index=0, error_code=ErrorCode.NONE)])
    world.replies[-1].complete(WriteTxnMarkersResponse(markers=[Result(producer_id=1000, topics=[only])]))
    world.clock.advance_s(0.2)
    assert not done.done
    assert world.asked() == [(1000, [1])]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.PRODUCER_FENCED],
    ids=lambda code: code.name,
)
def test_a_fenced_marker_is_somebody_elses_business(code: ErrorCode) -> None:
    world = MarkersWorld()
    done = world.start("x", 1000, P0, P1)
    other = world.start("y", 2000)
    world.answer({(1000, P0): code})
    assert done.result() is False
    assert other.result() is True
    world.clock.advance_s(10)
    assert len(world.sent) == 1
    assert len(world.sender) == 0


def test_a_later_transaction_of_the_same_id_takes_the_place_of_the_former() -> None:
    world = MarkersWorld()
    world.leaders[P0] = NO_LEADER
    former = world.start("x", 1000, P0)
    later = world.start("x", 2000, P1)
    assert former.result() is False
    world.answer()
    assert later.result() is True
    world.leaders[P0] = 1
    world.clock.advance_s(10)
    assert len(world.sent) == 1


def test_what_waits_behind_a_request_is_not_sent_once_another_broker_coordinates_it() -> None:
    world = MarkersWorld()
    other = TopicPartition("__transaction_state", 1)
    world.start("first", 1000, home=other)
    world.clock.run_due()
    moved, kept = world.start("moved", 1001), world.start("kept", 1002, home=other)
    world.sender.forget(HOME)
    assert moved.result() is False
    world.answer()
    world.clock.run_due()
    assert [marker.producer_id for _, request in world.sent for marker in request.markers] == [1000, 1002]
    world.answer()
    assert kept.result() is True


def test_a_partition_that_moved_is_forgotten_and_the_others_are_not() -> None:
    world = MarkersWorld()
    world.leaders[P0] = NO_LEADER
    gone, stays = world.start("a", 1), world.start("b", 2, home=TopicPartition("__transaction_state", 1))
    world.sender.forget(HOME)
    assert gone.result() is False
    world.leaders[P0] = 1
    world.clock.advance_s(0.2)
    assert world.asked() == [(2, [0])]
    world.answer()
    assert stays.result() is True


class TestPartitionsOfThisBroker:
    """They are written without a request."""

    def test_each_transaction_by_itself_after_what_has_decided_it(self) -> None:
        world = MarkersWorld()
        world.leaders = {P0: 5, P1: 1}
        both = world.start("x", 1000, P0, P1)
        own = world.start("y", 1001, P0)
        assert world.here.asked == []
        world.clock.run_due()
        assert world.here.asked == [("x", 7, [P0]), ("y", 7, [P0])]
        world.here.answers[1].complete({P0: ErrorCode.NONE})
        assert own.result() is True
        world.here.answers[0].complete({P0: ErrorCode.NONE})
        assert not both.done
        assert world.asked() == [(1000, [1])]
        world.answer()
        assert both.result() is True

    def test_those_that_come_later_do_not_wait_for_the_first(self) -> None:
        world = MarkersWorld()
        world.leaders = {P0: 5}
        world.start("x", 1000, P0)
        world.clock.run_due()
        second = world.start("y", 1001, P0)
        world.clock.run_due()
        world.here.answers[1].complete({P0: ErrorCode.NONE})
        assert second.result() is True

    def test_what_is_answered_in_parts_ends_with_the_last(self) -> None:
        world = MarkersWorld()
        world.leaders, world.here.parts = {P0: 5, P1: 5}, 2
        job = world.start("x", 1000, P0, P1)
        world.clock.run_due()
        world.here.answers[0].complete({P0: ErrorCode.NONE})
        world.clock.advance_s(1.0)
        assert not job.done
        assert len(world.here.asked) == 1, "the other part is on its way"
        world.here.answers[1].complete({P1: ErrorCode.NONE})
        assert job.result() is True

    def test_what_cannot_be_written_now_is_tried_again_where_it_is_led_by_then(self) -> None:
        world = MarkersWorld()
        world.leaders = {P0: 5}
        job = world.start("x", 1000, P0)
        world.clock.run_due()
        world.leaders = {P0: 1}
        world.here.answers[0].complete({P0: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        world.clock.advance_s(0.1)
        world.answer()
        assert job.result() is True
        assert len(world.here.asked) == 1

    def test_a_fenced_one_is_somebody_else_s(self) -> None:
        world = MarkersWorld()
        world.leaders = {P0: 5}
        job = world.start("x", 1000, P0)
        world.clock.run_due()
        world.here.answers[0].complete({P0: ErrorCode.TRANSACTION_COORDINATOR_FENCED})
        assert job.result() is False
