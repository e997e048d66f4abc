"""A leader does not wait for a replica whose log directory or broker has failed, although it had caught up a moment before."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from odradek.replication.partition import Partition
from tests.replication.subscription_support import Leader

FAILED, WORKS, LEADERS = UUID(int=101), UUID(int=102), UUID(int=103)
FAILURE = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=200, log_dirs=[WORKS])


@pytest.fixture
def leader() -> Leader:
    """Broker 1, which leads two partitions; broker 2 has caught up, and has the one in a directory that is to fail."""
    leader = Leader(2)
    leader.broker.apply(
        RegisterBrokerRecord(broker_id=2, broker_epoch=200, incarnation_id=UUID(int=1002), log_dirs=[FAILED, WORKS], fenced=False),
        *[
            PartitionChangeRecord(partition_id=index, topic_id=leader.ids[1], directories=[LEADERS, directory])
            for index, directory in ((0, FAILED), (1, WORKS))
        ],
    )
    leader.open()
    return leader


def leave_the_isr(leader: Leader) -> None:
    """Broker 2 is caught up and outside of the ISR, as after a change that the controller refused."""
    leader.broker.apply(*[PartitionChangeRecord(partition_id=index, topic_id=leader.ids[1], isr=[1]) for index in (0, 1)])


def written(leader: Leader, index: int) -> Any:
    """Append a record with acks=all, which only the leader has; return the Deferred of the answer."""
    answer = leader.append(index, b"a", acks=-1)
    assert not answer.done
    return answer


def test_records_are_committed_when_the_controller_takes_the_replica_out_of_the_isr(leader: Leader) -> None:
    answers = [written(leader, index) for index in (0, 1)]
    leader.broker.apply(FAILURE, PartitionChangeRecord(partition_id=0, topic_id=leader.ids[1], isr=[1]))
    assert [answer.done for answer in answers] == [True, False]
    assert [each.error for each in answers[0].result()] == [ErrorCode.NONE]


def test_records_are_committed_when_the_replica_was_about_to_join(leader: Leader) -> None:
    leave_the_isr(leader)
    answers = [written(leader, index) for index in (0, 1)]
    leader.broker.apply(FAILURE)
    assert [answer.done for answer in answers] == [True, False]


def test_records_are_committed_when_the_broker_that_was_about_to_join_is_fenced(leader: Leader) -> None:
    leave_the_isr(leader)
    answers = [written(leader, index) for index in (0, 1)]
    leader.broker.apply(FenceBrokerRecord(id=2, epoch=200))
    assert [answer.done for answer in answers] == [True, True]


@pytest.mark.parametrize(
    "lost",
    [
        UnregisterBrokerRecord(broker_id=2, broker_epoch=200),
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=200, in_controlled_shutdown=1),
        RegisterBrokerRecord(broker_id=2, broker_epoch=300, incarnation_id=UUID(int=1003), log_dirs=[FAILED, WORKS], fenced=False),
    ],
    ids=["unregistered", "leaving", "another incarnation"],
)
def test_records_are_committed_when_the_broker_that_was_about_to_join_may_not(leader: Leader, lost: object) -> None:
    leave_the_isr(leader)
    answers = [written(leader, index) for index in (0, 1)]
    leader.broker.apply(lost)
    assert [answer.done for answer in answers] == [True, True]


def test_only_partitions_with_a_replica_on_a_broker_that_lost_something_are_looked_at(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = leader.broker
    broker.create_topic("with-3", partitions=3, replicas=(1, 3))
    broker.create_topic("alone", partitions=20, replicas=(1,))
    followed = broker.create_topic("followed", partitions=20, replicas=(1, 2))
    broker.apply(*[PartitionChangeRecord(partition_id=index, topic_id=followed, leader=2) for index in range(20)])
    third = RegisterBrokerRecord(broker_id=3, broker_epoch=300, incarnation_id=UUID(int=1003), fenced=True)
    visited: list[str] = []
    monkeypatch.setattr(Partition, "raise_high_watermark", lambda partition: visited.append(str(partition.topic_partition)))
    broker.apply(third)
    broker.apply(UnfenceBrokerRecord(id=3, epoch=300))
    broker.apply(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=300, cordoned_log_dirs=[WORKS]))
    assert visited == []
    broker.apply(FenceBrokerRecord(id=3, epoch=300))
    assert visited == ["with-3-0", "with-3-1", "with-3-2"]
    broker.apply(UnfenceBrokerRecord(id=3, epoch=300))
    assert len(visited) == 3
    broker.apply(FAILURE)
    assert visited[3:] == ["orders-0", "orders-1"]


def test_a_replica_that_moved_to_a_directory_that_works_is_waited_for_again(leader: Leader) -> None:
    leave_the_isr(leader)
    leader.broker.apply(FAILURE)
    leader.append(0, b"a")
    assert leader.high_watermark() == 1
    leader.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=leader.ids[1], directories=[LEADERS, WORKS]))
    leader.append(0, b"b")
    assert leader.high_watermark() == 1
