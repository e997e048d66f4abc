"""The broker tells the controller where its replicas lie: batched, again after failures, and only what is news."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from odradek.protocol.messages.metadata_records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from odradek.server.cluster.assignments import MOST_IN_A_REQUEST, AssignmentsManager
from odradek.server.cluster.channel import InterBrokerChannel
from tests.clock import ManualClock
from tests.server.registration_support import FakeChannel

TOPIC = UUID(int=77 << 64)
A, B, C = (UUID(int=(5 << 64) + number) for number in (1, 2, 3))


def image(directory: UUID = A, *, level: int = 20) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
    delta.replay(TopicRecord(name="t", topic_id=TOPIC))
    for number in (0, 1):
        delta.replay(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[directory],
            )
        )
    return delta.apply(MetadataProvenance(5, 1, 0))


class AssignmentsWorld:
    def __init__(self, level: int = 20) -> None:
        self.clock = ManualClock()
        self.channel = FakeChannel()
        self.image = image(level=level)
        self.manager = AssignmentsManager(cast(InterBrokerChannel, self.channel), self.clock, 1, lambda: 42, lambda: self.image)

    def changes(self, offset: int, **fields: Any) -> None:
        """Publishes metadata in which partition 0 has changed."""
        delta = MetadataDelta(self.image)
        delta.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields))
        self.image = delta.apply(MetadataProvenance(offset, 1, 0))
        self.manager.replicas_changed({}, {}, [] if 1 in fields["replicas"] else [TopicPartition("t", 0)])

    def answer(self, *codes: int, error: int = 0) -> AssignReplicasToDirsRequest:
        """Answers the request that waits with an error for each of its partitions, in order."""
        request = cast(AssignReplicasToDirsRequest, self.channel.sent[0][0])
        left = list(codes)
        response = AssignReplicasToDirsResponse(error_code=error)
        for directory in request.directories if not error else ():
            answered = AssignReplicasToDirsResponse.DirectoryData(id=directory.id)
            for topic in directory.topics:
                partitions = [
                    AssignReplicasToDirsResponse.PartitionData(partition_index=each.partition_index, error_code=left.pop(0) if left else 0)
                    for each in topic.partitions
                ]
                answered.topics.append(AssignReplicasToDirsResponse.TopicData(topic_id=topic.topic_id, partitions=partitions))
            response.directories.append(answered)
        self.channel.answer(response)
        return request


def partition(number: int) -> TopicIdPartition:
    return TopicIdPartition(TOPIC, "t", number)


def test_what_comes_together_goes_together() -> None:
    world = AssignmentsWorld()
    done = [world.manager.assign(partition(number), B) for number in (0, 1)]
    world.clock.run_due()
    request = world.answer()
    assert (request.broker_id, request.broker_epoch) == (1, 42)
    assert [(each.id, [p.partition_index for topic in each.topics for p in topic.partitions]) for each in request.directories] == [
        (B, [0, 1])
    ]
    assert all(each.done and each.error is None for each in done)
    assert not world.channel.sent


def test_what_the_metadata_has_is_not_sent() -> None:
    world = AssignmentsWorld()
    assert world.manager.assign(partition(0), A).done is False
    unknown = world.manager.assign(TopicIdPartition(UUID(int=1), "gone", 0), B)
    world.clock.run_due()
    assert not world.channel.sent
    assert unknown.done


@pytest.mark.parametrize("answered", ["before", "after", "failed"])
def test_a_replica_is_assigned_back_although_the_metadata_does_not_show_yet_that_it_went(answered: str) -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B)
    world.clock.run_due()
    if answered == "before":
        world.answer()
    back = world.manager.assign(partition(0), A)
    world.clock.run_due()
    if answered == "after":
        world.answer()
    elif answered == "failed":
        world.channel.fail()
    world.clock.advance_s(15)
    assert [each.id for each in world.answer().directories] == [A]
    assert back.done
    again = world.manager.assign(partition(0), A)
    world.clock.run_due()
    assert (again.done, world.channel.sent) == (True, []), "the metadata shows it"


def test_an_old_cluster_is_not_told() -> None:
    world = AssignmentsWorld(level=16)
    done = world.manager.assign(partition(0), B)
    world.clock.run_due()
    assert done.done
    assert not world.channel.sent


@pytest.mark.parametrize("how", ["no answer", "refused", "one refused"])
def test_failures_are_sent_again(how: str) -> None:
    world = AssignmentsWorld()
    done = world.manager.assign(partition(0), B)
    for _ in range(3):
        world.clock.advance_s(15)
        assert len(world.channel.sent) == 1
        if how == "no answer":
            world.channel.fail()
        elif how == "refused":
            world.answer(error=ErrorCode.STALE_BROKER_EPOCH)
        else:
            world.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert not done.done
    world.clock.advance_s(15)
    world.answer()
    assert done.error is None
    assert done.done


def test_pauses_grow_while_the_controller_refuses_and_are_short_again_after_it_took_something() -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B)
    world.clock.advance_s(0)
    for following in (C, B):
        pauses = list[float]()
        for _ in range(9):
            world.answer(error=ErrorCode.NOT_CONTROLLER)
            before = world.clock.now_s
            world.clock.advance_to_next()
            pauses.append(round(world.clock.now_s - before, 3))
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
        world.answer()
        world.manager.assign(partition(0), following)
        world.clock.advance_s(0)


def test_one_of_several_that_is_refused_is_sent_again_alone() -> None:
    world = AssignmentsWorld()
    first, second = world.manager.assign(partition(0), B), world.manager.assign(partition(1), B)
    world.clock.advance_s(0)
    world.answer(ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (first.done, second.done) == (True, False)
    world.clock.advance_s(0.1)
    request = world.answer(ErrorCode.NONE)
    assert [each.partition_index for each in request.directories[0].topics[0].partitions] == [1]
    assert second.done


def test_a_newer_wish_is_not_undone_by_the_refusal_of_the_one_before() -> None:
    world = AssignmentsWorld()
    first = world.manager.assign(partition(0), B)
    world.clock.advance_s(0)
    second = world.manager.assign(partition(0), C)
    world.answer(error=ErrorCode.NOT_CONTROLLER)
    assert first.error is not None
    world.clock.advance_s(0.1)
    request = world.answer()
    assert [each.id for each in request.directories] == [C]
    assert second.done
    assert not world.channel.sent


def test_a_replica_that_goes_while_the_controller_refuses_is_told_of_no_more() -> None:
    world = AssignmentsWorld()
    done = world.manager.assign(partition(0), B)
    world.clock.advance_s(0)
    world.answer(error=ErrorCode.NOT_CONTROLLER)
    world.changes(6, replicas=[2], isr=[2], leader=2, directories=[A])
    world.clock.advance_s(10)
    assert done.done
    assert not world.channel.sent


@pytest.mark.parametrize("other", [True, False])
def test_a_replica_that_went_and_came_back_is_told_of_again(other: bool) -> None:
    world = AssignmentsWorld()
    for epoch in (10, 20):
        world.manager.assign(partition(0), B)
        world.clock.run_due()
        assert [each.id for each in world.answer().directories] == [B]
        world.changes(epoch, replicas=[1], isr=[1], directories=[B])
        world.changes(epoch + 1, replicas=[2], isr=[2], leader=2, directories=[A])
        if other:
            world.manager.assign(partition(1), C if epoch == 10 else B)
            world.clock.run_due()
            world.answer()
        world.changes(epoch + 2, replicas=[1], isr=[1], leader=1, directories=[A])


def test_the_last_wish_counts() -> None:
    world = AssignmentsWorld()
    first = world.manager.assign(partition(0), B)
    world.clock.run_due()
    second = world.manager.assign(partition(0), A)
    world.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(first.error, KafkaError)
    world.image = image(B)
    world.clock.advance_s(15)
    assert world.answer().directories[0].id == A
    assert second.done
    assert second.error is None


def test_more_than_a_request_holds_goes_in_several_one_after_the_other() -> None:
    world = AssignmentsWorld()
    delta = MetadataDelta(world.image)
    for number in range(2, 3000):
        delta.replay(PartitionRecord(partition_id=number, topic_id=TOPIC, replicas=[1], isr=[1], leader=1, directories=[A]))
    world.image = delta.apply(MetadataProvenance(6, 1, 0))
    done = [world.manager.assign(partition(number), B) for number in range(3000)]
    world.clock.run_due()
    sizes: list[int] = []
    while world.channel.sent:
        assert len(world.channel.sent) == 1
        request = world.answer()
        sizes.append(sum(len(topic.partitions) for directory in request.directories for topic in directory.topics))
        world.clock.run_due()
    assert sizes == [MOST_IN_A_REQUEST, 3000 - MOST_IN_A_REQUEST]
    assert all(each.done for each in done)


def test_a_wish_that_comes_during_a_request_waits_for_its_answer() -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B)
    world.clock.run_due()
    later = world.manager.assign(partition(1), B)
    world.clock.advance_s(5)
    assert len(world.channel.sent) == 1
    world.answer()
    world.clock.run_due()
    assert len(world.channel.sent) == 1
    world.answer()
    assert later.done


def test_an_assignment_that_follows_another_waits_with_those_that_failed() -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B).add_callback(lambda _: world.manager.assign(partition(0), C))
    world.manager.assign(partition(1), B)
    world.clock.run_due()
    world.answer(0, ErrorCode.NOT_CONTROLLER)
    world.clock.run_due()
    assert not world.channel.sent, "the pause after a failure holds for all"
    world.clock.advance_s(0.1)
    request = world.answer()
    assert sum(len(topic.partitions) for each in request.directories for topic in each.topics) == 2
    world.clock.advance_s(100)
    assert not world.channel.sent


def test_an_assignment_is_not_lost_that_replaces_another_while_a_request_is_made() -> None:
    world = AssignmentsWorld()
    last = []
    world.manager.assign(partition(0), A).add_callback(lambda _: last.append(world.manager.assign(partition(1), B)))
    world.manager.assign(partition(1), A)
    world.clock.run_due()
    request = world.answer()
    assert [each.id for each in request.directories] == [B]
    assert last[0].done


def test_nothing_is_sent_once_closed() -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B)
    world.manager.close()
    world.clock.advance_s(60)
    assert not world.channel.sent


def test_what_is_refused_after_the_close_is_not_sent_again() -> None:
    world = AssignmentsWorld()
    world.manager.assign(partition(0), B)
    world.clock.run_due()
    world.manager.close()
    world.channel.fail()
    world.clock.advance_s(60)
    assert not world.channel.sent
