"""DeleteRecords at handler level: log starts, refusals, and the wait for followers."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.admin import delete_records
from odradek.protocol.messages.delete_records import DeleteRecordsRequest
from odradek.storage.append import AppendOrigin
from tests.handlers.support import Broker, batch, through_the_wire

KEY = TopicPartition("topic", 0)
VERSIONS = (0, 1, 2)


def ask(broker: Broker, version: int, *wanted: tuple[str, int, int], timeout_ms: int = 1000) -> Any:
    topics: dict[str, Any] = {}
    for topic, partition, offset in wanted:
        entry = topics.setdefault(topic, DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[]))
        entry.partitions.append(DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset))
    return broker.call(delete_records.handle, DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms), version)


def plain(response: Any) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (topic.name, result.partition_index): (result.low_watermark, result.error_code)
        for topic in response.topics
        for result in topic.partitions
    }


def append(broker: Broker, topic: str, count: int, partition: int = 0) -> None:
    hosted = broker.manager.partition(TopicPartition(topic, partition))
    for number in range(count):
        hosted.append_as_leader(batch(b"%d" % number), 1, AppendOrigin.CLIENT)


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.create_topic("topic", partitions=2)
    append(broker, "topic", 10)
    return broker


def log_start(broker: Broker, key: TopicPartition = KEY) -> int:
    log = broker.manager.partition(key).log
    assert log is not None
    return log.log_start_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_start_rises_and_is_on_the_disk_when_the_answer_comes(broker: Broker, version: int) -> None:
    assert plain(ask(broker, version, ("topic", 0, 4))) == {("topic", 0): (4, 0)}
    assert log_start(broker) == 4
    assert b"topic 0 4" in broker.disk.read_bytes("/data/log-start-offset-checkpoint")
    assert plain(ask(broker, version, ("topic", 0, 2))) == {("topic", 0): (4, 0)}, "it never goes back"
    assert plain(ask(broker, version, ("topic", 0, -1))) == {("topic", 0): (10, 0)}


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_has_its_own_answer(broker: Broker, version: int) -> None:
    broker.create_topic("elsewhere", number=2, leader=2, replicas=(2,))
    broker.create_topic("compacted", number=3, cleanup_policy="compact")
    broker.create_topic("__consumer_offsets", number=4)
    answer = plain(
        ask(
            broker,
            version,
            ("topic", 0, 3),
            ("topic", 1, 1),
            ("topic", 7, 0),
            ("elsewhere", 0, 0),
            ("compacted", 0, 1),
            ("unknown", 0, 0),
            ("__consumer_offsets", 0, 0),
        )
    )
    assert answer == {
        ("topic", 0): (3, 0),
        ("topic", 1): (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("topic", 7): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("elsewhere", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("compacted", 0): (-1, ErrorCode.POLICY_VIOLATION),
        ("unknown", 0): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", 0): (-1, ErrorCode.INVALID_TOPIC_EXCEPTION),
    }


def test_a_partition_that_is_refused_keeps_no_other_from_the_disk(broker: Broker) -> None:
    answer = plain(ask(broker, 2, ("topic", 0, 4), ("topic", 7, 0)))
    assert answer == {("topic", 0): (4, 0), ("topic", 7): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert b"topic 0 4" in broker.disk.read_bytes("/data/log-start-offset-checkpoint")


def test_the_last_offset_named_for_a_partition_counts(broker: Broker) -> None:
    assert plain(ask(broker, 2, ("topic", 0, 8), ("topic", 0, 3))) == {("topic", 0): (3, 0)}


def test_a_failed_checkpoint_takes_the_directory_offline(broker: Broker) -> None:
    def fault(operation: str, path: str) -> None:
        if "log-start-offset-checkpoint" in path and operation != "read":
            raise OSError(5, "Input/output error", path)

    broker.disk.fault = fault
    assert plain(ask(broker, 2, ("topic", 0, 4))) == {("topic", 0): (-1, ErrorCode.KAFKA_STORAGE_ERROR)}


class TestWithAFollower:
    """Broker 2 follows, and tells by its fetches how far its own log start is."""

    @pytest.fixture
    def broker(self) -> Broker:
        broker = Broker()
        broker.create_topic("topic", replicas=(1, 2))
        append(broker, "topic", 10)
        self.fetch(broker, 10, 0)
        return broker

    def fetch(self, broker: Broker, offset: int, start: int) -> None:
        partition = broker.manager.partition(KEY)
        replica = partition.follower(2, 0)
        partition.record_follower_fetch(replica, fetch_offset=offset, log_start_offset=start, leader_end_offset=10, broker_epoch=200)
        broker.manager.delayed.drain()

    def test_the_answer_waits_until_the_follower_has_raised_its_log_start(self, broker: Broker) -> None:
        answer = ask(broker, 2, ("topic", 0, 6))
        assert isinstance(answer, Deferred)
        assert log_start(broker) == 6
        self.fetch(broker, 10, 5)
        assert not answer.done
        self.fetch(broker, 10, 6)
        assert plain(through_the_wire(answer.result(), 2)) == {("topic", 0): (6, 0)}

    def test_time_runs_out_for_those_that_did_not_follow(self, broker: Broker) -> None:
        answer = ask(broker, 2, ("topic", 0, 6), ("topic", 9, 6), timeout_ms=500)
        self.fetch(broker, 10, 3)
        broker.clock.advance_ms(499)
        assert not answer.done
        broker.clock.advance_ms(1)
        assert plain(through_the_wire(answer.result(), 2)) == {
            ("topic", 0): (3, ErrorCode.REQUEST_TIMED_OUT),
            ("topic", 9): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        }
        assert log_start(broker) == 6, "the leader's records are gone all the same"
        assert len(broker.manager.delayed.delete_records) == 0

    def test_a_fenced_follower_is_not_waited_for(self, broker: Broker) -> None:
        from odradek.protocol.messages.metadata_records import FenceBrokerRecord

        broker.apply(FenceBrokerRecord(id=2, epoch=200))
        assert plain(ask(broker, 2, ("topic", 0, 6))) == {("topic", 0): (6, 0)}

    def test_who_loses_the_leadership_says_so(self, broker: Broker) -> None:
        answer = ask(broker, 2, ("topic", 0, 6))
        broker.move_leader(broker.manager.partition(KEY).topic_id, 2)
        assert plain(through_the_wire(answer.result(), 2)) == {("topic", 0): (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}

    def test_no_time_to_wait(self, broker: Broker) -> None:
        for timeout_ms in (0, -5):
            answer = ask(broker, 2, ("topic", 0, 6), timeout_ms=timeout_ms)
            broker.clock.run_due()
            assert plain(through_the_wire(answer.result(), 2))[("topic", 0)][1] == ErrorCode.REQUEST_TIMED_OUT
