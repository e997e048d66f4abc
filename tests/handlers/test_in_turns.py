"""Answers about many partitions, topics or keys are made in many steps, between which the loop serves others: steps are counted."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.repeats import MOST_REPEATS
from odradek.handlers.admin import describe_log_dirs
from odradek.handlers.cluster import metadata
from odradek.handlers.data import list_offsets, offset_for_leader_epoch
from odradek.handlers.group import find_coordinator
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.metadata_records import PartitionRecord, TopicRecord
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.schema import Message
from tests.handlers.support import Broker, topic_id

MANY = 640
AT_ONCE = 16
"""How much an answer may hold of what one step makes."""
REMOTE = 2
"""A broker that leads what is not here."""


@pytest.fixture(scope="module")
def broker() -> Broker:
    """A topic of many partitions, two of which are here, and many topics of one."""
    broker = Broker()
    broker.create_topic("here", partitions=2)
    records: list[object] = [TopicRecord(name="wide", topic_id=topic_id(2))]
    records += [_partition(2, number) for number in range(MANY)]
    for number in range(3, MANY):
        records += [TopicRecord(name=f"topic-{number}", topic_id=topic_id(number)), _partition(number, 0)]
    broker.apply(*records)
    return broker


def _partition(topic: int, number: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number, topic_id=topic_id(topic), replicas=[REMOTE], isr=[REMOTE], leader=REMOTE, leader_epoch=0, partition_epoch=0
    )


def steps(broker: Broker, handle: Callable[..., object], request: Message, version: int) -> int:
    """The steps that make the answer."""
    made = handle(broker.context(request.API_KEY, version), request, broker.parts)
    assert isinstance(made, GeneratorType)
    count = 0
    for each in made:
        assert not isinstance(each, Deferred) or each.done
        count += 1
    return count


def offsets(*topics: tuple[str, int]) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=name, partitions=[partition(partition_index=number, timestamp=-1) for number in range(count)]
            )
            for name, count in topics
        ],
    )


def epochs(*topics: tuple[str, int]) -> OffsetForLeaderEpochRequest:
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    return OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=name, partitions=[partition(partition=number, leader_epoch=0) for number in range(count)]
            )
            for name, count in topics
        ],
    )


MANY_TOPICS = [(f"topic-{number}", 1) for number in range(MANY)]


@pytest.mark.parametrize(
    ("handle", "request_", "version"),
    [
        (list_offsets.handle, offsets(("wide", MANY)), 7),
        (list_offsets.handle, offsets(*MANY_TOPICS), 7),
        (offset_for_leader_epoch.handle, epochs(("wide", MANY)), 4),
        (offset_for_leader_epoch.handle, epochs(*MANY_TOPICS), 4),
        (find_coordinator.handle, FindCoordinatorRequest(key_type=5, coordinator_keys=[str(each) for each in range(MANY)]), 6),
        (metadata.handle, MetadataRequest(topics=None), 12),
        (metadata.handle, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="wide")]), 12),
    ],
)
def test_a_step_makes_little(broker: Broker, handle: Callable[..., object], request_: Message, version: int) -> None:
    # Offsets are looked up after it was seen which partitions the request names twice.
    least = 2 * MANY if handle is list_offsets.handle else MANY // AT_ONCE
    assert steps(broker, handle, request_, version) >= least


@pytest.mark.parametrize("described", [True, False])
def test_a_step_describes_one_replica(described: bool) -> None:
    broker = Broker()
    broker.create_topic("here", partitions=100)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic="here" if described else "there", partitions=list(range(100)))
    assert steps(broker, describe_log_dirs.handle, DescribeLogDirsRequest(topics=[topic]), 4) >= 200
    assert steps(broker, describe_log_dirs.handle, DescribeLogDirsRequest(topics=None), 4) >= 100


def test_an_answer_in_many_steps_is_that_of_one(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> Any:
        return broker.call(metadata.handle, MetadataRequest(topics=None), 12)

    in_steps = asked()
    monkeypatch.setattr(metadata, "_FEW", 10 * MANY)
    monkeypatch.setattr(metadata, "_FEW_TOPICS", 10 * MANY)
    assert asked() == in_steps
    assert {topic.name: len(topic.partitions) for topic in in_steps.topics} == {
        "here": 2,
        "wide": MANY,
        **{f"topic-{number}": 1 for number in range(3, MANY)},
    }


def test_a_key_is_found_a_few_times(broker: Broker) -> None:
    answer = broker.call(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=["b", *["a"] * MANY, "c"], key_type=5), 6)
    assert [each.key for each in answer.coordinators] == ["b", *["a"] * (1 + MOST_REPEATS), "c"]
