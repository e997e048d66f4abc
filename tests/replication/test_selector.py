"""Which replica a consumer is sent to, by its rack."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata_records import PartitionChangeRecord, RegisterBrokerRecord
from odradek.protocol.schema import records_view
from odradek.replication.selector import RACK_AWARE, ReplicaView, rack_aware, selector_for
from odradek.storage.append import AppendOrigin
from tests.handlers.support import Broker, batch

LEADER = ReplicaView(1, "a", 10, 0.0)


def view(broker_id: int, rack: str | None = "b", log_end_offset: int = 10, behind_s: float = 0.0) -> ReplicaView:
    return ReplicaView(broker_id, rack, log_end_offset, behind_s)


@pytest.mark.parametrize(
    ("rack", "followers", "chosen"),
    [
        ("b", [view(2)], 2),
        ("a", [view(2, "a")], 1),
        ("c", [view(2)], 1),
        ("", [view(2, "")], 1),
        ("b", [], 1),
        ("b", [view(2, None)], 1),
        ("b", [view(2, log_end_offset=9), view(3, log_end_offset=8)], 2),
        ("b", [view(2, log_end_offset=9, behind_s=1.0), view(3, log_end_offset=9, behind_s=2.0)], 2),
        ("b", [view(2), view(3)], 3),
        ("b", [view(2), view(3, "c", 11)], 2),
    ],
)
def test_the_nearest_and_of_those_the_one_that_is_caught_up_most(rack: str, followers: list[ReplicaView], chosen: int) -> None:
    assert rack_aware(rack, LEADER, followers).broker_id == chosen


def test_without_a_class_everybody_reads_from_the_leader() -> None:
    assert selector_for("") is None
    assert selector_for(RACK_AWARE) is rack_aware


class SelectorWorld:
    """Broker 1 leads in rack1; 2 and 3 follow, each in a rack of its own. Five records are everywhere."""

    def __init__(self, **config: str) -> None:
        self.broker = Broker(nodes=(1, 2, 3), **config)
        self.id = self.broker.create_topic("orders", replicas=(1, 2, 3))
        for _ in range(5):
            self.append()
        for replica in (2, 3):
            self.replicated(replica, 5)

    def register(self, broker_id: int, *, listener: str, fenced: bool) -> None:
        """Another life of a follower's broker, in its rack."""
        endpoint = RegisterBrokerRecord.BrokerEndpoint(name=listener, host=f"host{broker_id}", port=1, security_protocol=0)
        self.broker.apply(
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=100 * broker_id,
                incarnation_id=UUID(int=1000 + broker_id),
                end_points=[endpoint],
                rack=f"rack{broker_id}",
                fenced=fenced,
            )
        )

    def append(self) -> None:
        self.broker.manager.appender.append(
            [(TopicPartition("orders", 0), batch(b"a"))], required_acks=1, timeout_ms=1, origin=AppendOrigin.CLIENT
        )

    def ask(self, offset: int, version: int, *, leader_epoch: int = -1, log_start: int = -1, **fields: Any) -> Any:
        partition = FetchRequest.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch, log_start_offset=log_start
        )
        topic = FetchRequest.FetchTopic(topic="orders", topic_id=self.id, partitions=[partition])
        request = FetchRequest(**{"min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": [topic]} | fields)
        return self.broker.call(fetch.handle, request, version)

    def replicated(self, replica: int, offset: int, log_start: int = 0) -> None:
        state = FetchRequest.ReplicaState(replica_id=replica, replica_epoch=100 * replica)
        self.ask(offset, 17, replica_state=state, max_bytes=0, log_start=log_start)

    def read(self, rack: str, offset: int = 0, version: int = 17, **fields: Any) -> tuple[int, bool]:
        """The preferred read replica, and whether there were records."""
        fields = {"max_wait_ms": 500 if rack == "rack2" else 0} | fields
        if version >= 11:
            fields["rack_id"] = rack
        [topic] = self.ask(offset, version, **fields).responses
        [partition] = topic.partitions
        assert partition.error_code == 0
        assert partition.high_watermark == 5
        return partition.preferred_read_replica, bool(records_view(partition.records))


@pytest.fixture
def world() -> SelectorWorld:
    return SelectorWorld(replica_selector_class=RACK_AWARE)


ELSEWHERE = (2, False)
HERE = (-1, True)


def test_a_consumer_is_sent_to_its_rack_at_once(world: SelectorWorld) -> None:
    assert world.read("rack2") == ELSEWHERE
    assert world.read("rack3", max_wait_ms=500) == (3, False)
    assert world.read("rack1") == world.read("rack9") == world.read("") == HERE


def test_without_the_selector_everybody_reads_here() -> None:
    assert SelectorWorld().read("rack2") == HERE


def test_a_consumer_that_knows_nothing_of_it_reads_here(world: SelectorWorld) -> None:
    assert world.read("rack2", version=10) == HERE
    assert world.read("rack2", version=11) == ELSEWHERE


def test_who_is_not_in_sync_is_not_preferred(world: SelectorWorld) -> None:
    world.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=world.id, isr=[1, 3]))
    assert world.read("rack2") == HERE


def test_who_lacks_the_offset_is_not_preferred(world: SelectorWorld) -> None:
    world.append()
    world.replicated(3, 6)
    state = FetchRequest.ReplicaState(replica_id=-2)
    [topic] = world.ask(6, 17, rack_id="rack2", replica_state=state).responses
    assert topic.partitions[0].preferred_read_replica == -1
    assert world.read("rack2", 5, max_wait_ms=0) == ELSEWHERE
    world.replicated(2, 5, log_start=4)
    assert world.read("rack2", 3, max_wait_ms=0) == HERE
    assert world.read("rack2", 4, max_wait_ms=0) == ELSEWHERE


def test_who_is_fenced_or_not_on_the_listener_is_not_preferred(world: SelectorWorld) -> None:
    world.register(2, listener="OTHER", fenced=False)
    assert world.read("rack2") == HERE
    world.register(3, listener="PLAINTEXT", fenced=True)
    assert world.read("rack3") == HERE


def test_a_client_of_another_epoch_hears_of_that_first(world: SelectorWorld) -> None:
    [topic] = world.ask(0, 17, rack_id="rack2", leader_epoch=7).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_followers_are_never_sent_elsewhere(world: SelectorWorld) -> None:
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=200)
    [topic] = world.ask(0, 17, rack_id="rack2", replica_state=state).responses
    assert (topic.partitions[0].preferred_read_replica, bool(records_view(topic.partitions[0].records))) == HERE


def test_within_a_session_it_is_told_each_time(world: SelectorWorld) -> None:
    first = world.ask(0, 17, rack_id="rack2", session_epoch=0)
    for epoch in (1, 2):
        answer = world.ask(0, 17, rack_id="rack2", session_id=first.session_id, session_epoch=epoch, topics=[], max_wait_ms=500)
        assert [partition.preferred_read_replica for topic in answer.responses for partition in topic.partitions] == [2]


def test_a_follower_serves_who_was_sent_to_it(world: SelectorWorld) -> None:
    world.broker.apply(PartitionChangeRecord(partition_id=0, topic_id=world.id, leader=2))
    [topic] = world.ask(0, 17, rack_id="rack1", leader_epoch=1).responses
    [partition] = topic.partitions
    assert (partition.error_code, partition.preferred_read_replica, bool(records_view(partition.records))) == (0, -1, True)
    [topic] = world.ask(6, 17, rack_id="rack1").responses
    assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    [topic] = world.ask(0, 10).responses
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
