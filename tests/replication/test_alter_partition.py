"""ISR changes reach the controller one request at a time, and again until they are answered."""

from __future__ import annotations

from typing import cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicIdPartition
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.replication.alter_partition import AlterPartitionManager, IsrAnswer, IsrChange
from tests.clock import ManualClock
from tests.replication.support import TOPIC_ID


class AlterPartitionWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[tuple[AlterPartitionRequest, Deferred[AlterPartitionResponse]]] = []
        self.manager = AlterPartitionManager(self._send, self.clock, 1, lambda: 55)

    def _send(self, request: AlterPartitionRequest) -> Deferred[AlterPartitionResponse]:
        answer: Deferred[AlterPartitionResponse] = Deferred()
        self.sent.append((request, answer))
        return answer

    def submit(self, partition: int) -> Deferred[IsrAnswer]:
        return self.manager.submit(IsrChange(TopicIdPartition(TOPIC_ID, "orders", partition), 3, 7, [(1, 55), (2, -1)]))

    def answer(self, *partitions: tuple[int, ErrorCode], error: ErrorCode = ErrorCode.NONE) -> None:
        topic = AlterPartitionResponse.TopicData(
            topic_id=TOPIC_ID,
            partitions=[
                AlterPartitionResponse.PartitionData(
                    partition_index=index, error_code=code, leader_id=1, leader_epoch=3, isr=[1, 2], partition_epoch=8
                )
                for index, code in partitions
            ],
        )
        self.sent.pop(0)[1].complete(AlterPartitionResponse(error_code=error, topics=[topic]))


def test_changes_of_one_turn_share_a_request_and_later_ones_wait() -> None:
    world = AlterPartitionWorld()
    first, second = world.submit(0), world.submit(1)
    world.clock.run_due()
    third = world.submit(2)
    world.clock.run_due()
    [(request, _)] = world.sent
    assert request.encode(3)
    assert (request.broker_id, request.broker_epoch) == (1, 55)
    [topic] = request.topics
    assert [(partition.partition_index, partition.leader_epoch, partition.partition_epoch) for partition in topic.partitions] == [
        (0, 3, 7),
        (1, 3, 7),
    ]
    assert [(state.broker_id, state.broker_epoch) for state in topic.partitions[0].new_isr_with_epochs] == [(1, 55), (2, -1)]
    world.answer((0, ErrorCode.NONE), (1, ErrorCode.INELIGIBLE_REPLICA))
    assert first.result() == IsrAnswer(1, 3, 8, frozenset({1, 2}))
    assert isinstance(second.error, KafkaError)
    assert second.error.code is ErrorCode.INELIGIBLE_REPLICA
    assert not third.done
    assert len(world.sent) == 1
    world.answer((2, ErrorCode.NONE))
    assert third.done


def test_no_answer_and_a_refusal_of_the_whole_are_tried_again() -> None:
    world = AlterPartitionWorld()
    change = world.submit(0)
    world.clock.run_due()
    world.sent.pop()[1].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    world.clock.advance_ms(50)
    world.answer(error=ErrorCode.STALE_BROKER_EPOCH)
    assert not change.done
    world.clock.advance_ms(50)
    world.answer((0, ErrorCode.NONE))
    assert change.done


def test_codes_of_a_later_kafka_end_nothing_but_the_change() -> None:
    world = AlterPartitionWorld()
    change, other = world.submit(0), world.submit(1)
    world.clock.run_due()
    world.answer(error=cast(ErrorCode, 9999))
    world.clock.advance_ms(50)
    world.answer((0, cast(ErrorCode, 9999)), (1, ErrorCode.NONE))
    assert isinstance(change.error, KafkaError)
    assert change.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert other.error is None


def test_a_partition_the_answer_forgets_fails() -> None:
    world = AlterPartitionWorld()
    change = world.submit(0)
    world.clock.run_due()
    world.answer()
    assert isinstance(change.error, KafkaError)


def test_a_second_change_of_a_partition_is_not_attempted() -> None:
    world = AlterPartitionWorld()
    world.submit(0)
    error = world.submit(0).error
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_a_change_during_a_request_goes_out_after_its_answer() -> None:
    world = AlterPartitionWorld()
    world.submit(0)
    world.clock.advance_ms(0)
    later = world.submit(1)
    world.clock.advance_ms(0)
    assert len(world.sent) == 1
    world.answer((0, ErrorCode.NONE))
    world.clock.advance_ms(0)
    world.answer((1, ErrorCode.NONE))
    assert later.done


def test_after_closing_nothing_is_sent() -> None:
    world = AlterPartitionWorld()
    change = world.submit(0)
    world.manager.close()
    world.clock.advance_ms(1000)
    assert not world.sent
    assert not change.done
