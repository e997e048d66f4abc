"""Questions to transaction coordinators: gathered, answered one by one, repeated while a transaction is being ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.replication.transaction_verifier import ChannelVerifier
from odradek.replication.verification import support_of_produce
from tests.clock import ManualClock

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class CoordinatorHere:
    """This broker's own."""

    node_id = 2

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.answers: list[Deferred[Any]] = []

    def ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition], *, verify_only: bool
    ) -> Deferred[Any]:
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions), verify_only))
        self.answers.append(Deferred())
        return self.answers[-1]


class Coordinator:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.answers: list[Deferred[Any]] = []
        self.code: Callable[[str, TopicPartition], ErrorCode] = lambda name, partition: ErrorCode.NONE
        self.node: int | None = 1
        self.again = [P1]
        self.at_once = False
        self.here = CoordinatorHere()
        self.verifier = ChannelVerifier(
            self.clock, self.send, lambda _: self.node, retry_ms=lambda: 20, retry_max_ms=lambda: 100, here=self.here
        )

    def send(self, node: int, request: AddPartitionsToTxnRequest, version: int) -> Deferred[Any]:
        self.requests.append(request)
        self.answers.append(Deferred())
        if self.at_once:
            self.answer(turn=False)
        return self.answers[-1]

    def answer(self, *, turn: bool = True) -> None:
        Result = AddPartitionsToTxnResponse
        response = Result(
            results_by_transaction=[
                Result.AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        Result.AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                Result.AddPartitionsToTxnPartitionResult(
                                    partition_index=number,
                                    partition_error_code=self.code(each.transactional_id, TopicPartition(topic.name, number)),
                                )
                                for number in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in self.requests[-1].transactions
            ]
        )
        self.answers[-1].complete(response)
        if turn:
            self.clock.run_due()  # what has gathered meanwhile is sent then

    def ask(self, name: str, *partitions: TopicPartition, epoch: int = 0, version: int = 11) -> Deferred[Any]:
        support = support_of_produce(version)
        again = (lambda: self.again) if support.adds else None
        return cast("Deferred[Any]", self.verifier.verify(name, 7, epoch, partitions, support, again))


def test_many_producers_share_a_request_and_the_next_waits_for_it() -> None:
    world = Coordinator()
    first = [world.ask("a", P0, P1), world.ask("b", P1)]
    world.clock.run_due()
    later = world.ask("c", P0)
    world.clock.run_due()
    assert [len(request.transactions) for request in world.requests] == [2]
    world.code = lambda name, partition: ErrorCode.PRODUCER_FENCED if partition == P1 else ErrorCode.NONE
    world.answer()
    assert [each.result() for each in first] == [{P1: ErrorCode.INVALID_PRODUCER_EPOCH}] * 2
    assert len(world.requests) == 2
    world.answer()
    assert later.result() == {}
    assert [each.verify_only for each in world.requests[0].transactions] == [True, True]


def test_a_request_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.replication.transaction_verifier._PER_REQUEST", 2)
    world = Coordinator()
    asked = [world.ask(name, P0) for name in "abc"]
    world.clock.run_due()
    world.answer()
    world.answer()
    assert [len(request.transactions) for request in world.requests] == [2, 1]
    assert [each.result() for each in asked] == [{}] * 3


@pytest.mark.parametrize(("version", "told"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
def test_older_producers_hear_an_older_word(version: int, told: ErrorCode) -> None:
    world = Coordinator()
    asked = world.ask("a", P0, version=version)
    world.clock.run_due()
    world.code = lambda name, partition: ErrorCode.TRANSACTION_ABORTABLE
    world.answer()
    assert asked.result() == {P0: told}


def test_a_transaction_that_is_being_ended_is_waited_for_a_moment() -> None:
    world = Coordinator()
    asked = world.ask("a", P0, version=12)
    codes = iter([ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE])
    world.code = lambda name, partition: next(codes)
    world.clock.run_due()
    assert not world.requests[0].transactions[0].verify_only
    world.answer()
    assert not asked.done
    world.clock.advance_s(0.03)
    assert [each.partitions for each in world.requests[1].transactions[0].topics] == [[1]]
    world.answer()
    assert asked.result() == {}
    endless = world.ask("a", P0, version=12)
    world.code = lambda name, partition: ErrorCode.CONCURRENT_TRANSACTIONS
    while not endless.done:
        world.clock.advance_s(0.03)
        world.answer()
    assert endless.result() == {P1: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_a_code_of_a_later_release_is_an_unknown_error() -> None:
    world = Coordinator()
    asked, other = world.ask("a", P0), world.ask("b", P1)
    world.clock.run_due()
    world.code = lambda name, partition: 9_999 if name == "a" else ErrorCode.NONE  # type: ignore[assignment, return-value]
    world.answer()
    assert (asked.result(), other.result()) == ({P0: ErrorCode.UNKNOWN_SERVER_ERROR}, {})
    refused = world.ask("a", P0)
    world.clock.run_due()
    world.answers[-1].complete(AddPartitionsToTxnResponse(error_code=9_999))
    assert refused.result() == {P0: ErrorCode.UNKNOWN_SERVER_ERROR}


def test_who_is_left_out_of_an_answer_waits_no_longer() -> None:
    world = Coordinator()
    asked = world.ask("a", P0, P1)
    world.clock.run_due()
    world.answers[-1].complete(AddPartitionsToTxnResponse())
    assert asked.result() == dict.fromkeys((P0, P1), ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_coordinator_that_cannot_be_asked_yet_leaves_old_producers_alone() -> None:
    world = Coordinator()
    for version, told in ((11, {}), (12, {P0: ErrorCode.NETWORK_EXCEPTION})):
        asked = world.ask("a", P0, version=version)
        world.clock.run_due()
        world.answers[-1].fail(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "it is a broker of 3.4"))
        assert asked.result() == told


def test_nothing_is_asked_again_when_no_partition_is_left_to_be_asked_about() -> None:
    world = Coordinator()
    world.again = []
    asked = world.ask("a", P0, version=12)
    world.code = lambda name, partition: ErrorCode.CONCURRENT_TRANSACTIONS
    world.clock.run_due()
    world.answer()
    world.clock.advance_s(0.03)
    assert asked.result() == {}
    assert len(world.requests) == 1


def test_a_repeated_question_and_a_fenced_one() -> None:
    world = Coordinator()
    world.ask("z", P0)
    world.clock.run_due()
    first, second, newer, older = (world.ask("a", P0, epoch=epoch) for epoch in (1, 1, 2, 1))
    assert first.result() == {P0: ErrorCode.NETWORK_EXCEPTION}
    assert second.result() == older.result() == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    world.answer()
    world.answer()
    assert newer.result() == {}


def test_nobody_to_ask_and_no_answer() -> None:
    world = Coordinator()
    world.node = None
    assert world.ask("a", P0).result() == {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.node = 1
    asked = world.ask("a", P0)
    world.clock.run_due()
    world.answers[-1].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"))
    assert asked.result() == {P0: ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_coordinator_that_refuses_the_request_refuses_each_in_it_and_is_asked_again_by_the_next(code: ErrorCode, told: ErrorCode) -> None:
    world = Coordinator()
    for _ in range(2):
        asked = [world.ask("a", P0), world.ask("b", P0, P1)]
        world.clock.run_due()
        world.answers[-1].complete(AddPartitionsToTxnResponse(error_code=code))
        assert [each.result() for each in asked] == [{P0: told}, {P0: told, P1: told}]
        mended = world.ask("a", P0)
        world.clock.run_due()
        world.answer()
        assert mended.result() == {}


def test_a_channel_that_answers_before_it_returns_is_not_entered_from_within() -> None:
    world = Coordinator()
    world.at_once = True
    inside = 0

    def ask_more(_: object) -> None:
        nonlocal inside
        inside += 1
        if inside < 3_000:
            before = len(world.requests)
            world.ask("a", P0, epoch=inside).add_callback(ask_more)
            assert len(world.requests) == before

    world.ask("a", P0).add_callback(ask_more)
    world.clock.run_due()
    assert inside == 3_000
    assert len(world.requests) == 3_000
    last = world.ask("b", P1)
    world.clock.run_due()
    assert last.result() == {}


class TestOfThisBroker:
    """A coordinator that is asked without a request."""

    def test_is_asked_at_once_and_each_producer_by_itself(self) -> None:
        world = Coordinator()
        world.node = 2
        asked = [world.ask("a", P0, P1), world.ask("b", P1, epoch=4, version=12)]
        assert world.here.asked == [("a", 7, 0, [P0, P1], True), ("b", 7, 4, [P1], False)]
        world.here.answers[1].complete({P1: ErrorCode.NONE})
        world.here.answers[0].complete({P0: ErrorCode.NONE, P1: ErrorCode.PRODUCER_FENCED})
        assert [each.result() for each in asked] == [{P1: ErrorCode.INVALID_PRODUCER_EPOCH}, {}]
        world.clock.run_due()
        assert world.requests == []

    def test_one_code_may_be_that_of_all_partitions(self) -> None:
        world = Coordinator()
        world.node = 2
        added, refused = world.ask("a", P0, P1, version=12), world.ask("b", P0, P1)
        world.here.answers[0].complete(ErrorCode.NONE)
        world.here.answers[1].complete(ErrorCode.INVALID_TXN_STATE)
        assert added.result() == {}
        assert refused.result() == dict.fromkeys((P0, P1), ErrorCode.INVALID_TXN_STATE)

    def test_a_transaction_that_is_being_ended_is_waited_for(self) -> None:
        world = Coordinator()
        world.node = 2
        asked = world.ask("a", P0, version=12)
        world.here.answers[0].complete({P0: ErrorCode.CONCURRENT_TRANSACTIONS})
        assert not asked.done
        world.clock.advance_s(0.02)
        assert world.here.asked[1:] == [("a", 7, 0, [P1], False)]
        world.here.answers[1].complete({P1: ErrorCode.NONE})
        assert asked.result() == {}

    def test_one_that_moves_away_is_asked_by_request(self) -> None:
        world = Coordinator()
        world.node = 2
        asked = world.ask("a", P0, version=12)
        world.node = 1
        world.here.answers[0].complete({P0: ErrorCode.CONCURRENT_TRANSACTIONS})
        world.clock.advance_s(0.02)
        world.clock.run_due()
        assert len(world.requests) == 1
        world.answer()
        assert asked.result() == {}
