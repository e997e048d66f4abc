"""Log directories as operators see them: what lies where, how much, and where replicas are to go."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.handlers.fetch_support import append
from tests.handlers.support import NODE, Broker

ONE, TWO = "/data", "/more"


@pytest.fixture
def broker() -> Broker:
    broker = Broker(log_dirs=(ONE, TWO))
    broker.create_topic("orders", partitions=2)
    append(broker, b"a", b"b")
    return broker


def describe(broker: Broker, *wanted: tuple[str, int]) -> dict[str, Any]:
    topics = [DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[number]) for topic, number in wanted]
    answer = broker.ask(DescribeLogDirsRequest(topics=topics or None))
    assert answer.error_code == 0
    return {each.log_dir: each for each in answer.results}


def replicas(directory: Any) -> dict[tuple[str, int, bool], tuple[int, int]]:
    """(topic, partition, whether it is a future one) -> size and lag."""
    return {
        (topic.name, each.partition_index, each.is_future_key): (each.partition_size, each.offset_lag)
        for topic in directory.topics
        for each in topic.partitions
    }


def move(broker: Broker, path: str, *topics: tuple[str, int]) -> dict[tuple[str, int], int]:
    asked = [AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=name, partitions=[number]) for name, number in topics]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=asked)])
    answer = broker.ask(request)
    return {(topic.topic_name, each.partition_index): each.error_code for topic in answer.results for each in topic.partitions}


def where(broker: Broker, partition: int = 0) -> str:
    (found,) = [path for path, each in describe(broker, ("orders", partition)).items() if each.topics]
    return found


def test_every_replica_is_in_one_directory_with_its_size(broker: Broker) -> None:
    found = describe(broker)
    assert set(found) == {ONE, TWO}
    together = {key: value for each in found.values() for key, value in replicas(each).items()}
    assert set(together) == {("orders", 0, False), ("orders", 1, False)}
    assert together["orders", 0, False][0] > 0
    assert together["orders", 1, False] == (0, 0)
    for each in found.values():
        assert (each.error_code, each.is_cordoned) == (0, False)
        assert each.total_bytes >= each.usable_bytes > 0


def test_only_what_was_asked_for(broker: Broker) -> None:
    found = describe(broker, ("orders", 1))
    assert [key for each in found.values() for key in replicas(each)] == [("orders", 1, False)]
    assert all(not replicas(each) for each in describe(broker, ("nothing", 0)).values())


def test_a_directory_that_has_failed_says_so_and_the_others_go_on(broker: Broker) -> None:
    lost = where(broker, 0)
    broker.parts.log_manager.directory_failed(lost, OSError(5, "io"))
    found = describe(broker)
    assert (found[lost].error_code, found[lost].topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    (other,) = set(found) - {lost}
    assert found[other].error_code == 0


def test_a_replica_on_its_way_is_behind_by_what_it_lacks(broker: Broker) -> None:
    here = where(broker)
    there = TWO if here == ONE else ONE
    assert move(broker, there, ("orders", 0)) == {("orders", 0): 0}
    found = describe(broker, ("orders", 0))
    size, lag = replicas(found[there])["orders", 0, True]
    assert (size, lag) in ((0, 2), (replicas(found[here])["orders", 0, False][0], 0))


def test_a_replica_does_not_go_where_it_cannot(broker: Broker) -> None:
    assert move(broker, "/nowhere", ("orders", 0)) == {("orders", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    assert move(broker, ONE, ("nothing", 0)) == {("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    broker.create_topic("elsewhere", number=2, leader=2, replicas=(2,))
    assert move(broker, ONE, ("elsewhere", 0)) == {("elsewhere", 0): ErrorCode.REPLICA_NOT_AVAILABLE}
    assert NODE == 1


def test_the_log_has_a_few_lines_about_a_request_whatever_it_names(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        caplog.clear()
        codes = move(broker, "/no\nwhere", *[("orders", number) for number in range(500)])
        assert len(codes) == 500
        assert 0 not in codes.values()
        lines = [record.getMessage() for record in caplog.records if record.name.endswith("alter_replica_log_dirs")]
        assert len(lines) == 11
        assert lines[0].startswith("orders-0 cannot move to /no\\nwhere: ")
        assert lines[-1] == "490 more replicas of the same request cannot move"
