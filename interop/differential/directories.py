"""Requests about log directories: what lies where, and moves between the two that both brokers have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.batches import batch
from interop.differential.case import Case
from interop.differential.peer import Peer
from interop.waiting import until
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.produce import ProduceRequest

MOVABLE = "movable"
LONG_NAME = "l" * 215
"""A topic with this name can be made, but not moved: the future directory's name would be too long."""


def first(peer: Peer) -> str:
    return next(own for own, shared in peer.spellings.items() if shared == "(folder)")


def second(peer: Peer) -> str:
    return first(peer) + "-2"


def moves(*wanted: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    """(directory, topic, partitions) each."""
    topic_of = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=[topic_of(name=topic, partitions=partitions)])
            for path, topic, partitions in wanted
        ]
    )


def listing(topics: dict[str, list[int]] | None) -> DescribeLogDirsRequest:
    topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(topics=None if topics is None else [topic_of(topic=name, partitions=p) for name, p in topics.items()])


def placed(path_of: Callable[[Peer], str]) -> Callable[[Peer], None]:
    """Makes the topic where it is missing, with records in it, and waits until both its partitions lie in the directory."""

    def place(peer: Peer) -> None:
        if MOVABLE not in peer.topic_ids:
            peer.create_topic(MOVABLE, 2)
            topic_of, partition_of = ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData
            data = [partition_of(index=index, records=memoryview(batch(count=5))) for index in (0, 1)]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic_of(name=MOVABLE, partition_data=data)])
            peer.call(ApiKey.PRODUCE, 9, request)
        path = path_of(peer)
        peer.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, moves((path, MOVABLE, [0, 1])))

        def moved() -> bool:
            answer = peer.call(ApiKey.DESCRIBE_LOG_DIRS, 4, listing({MOVABLE: [0, 1]}))
            inside = [
                partition for each in answer.results if each.log_dir == path for topic in each.topics for partition in topic.partitions
            ]
            elsewhere = [each for each in answer.results if each.log_dir != path and each.topics]
            return len(inside) == 2 and not elsewhere and not any(partition.is_future_key for partition in inside)

        until(moved, f"{peer.name} to move {MOVABLE} to {path}", 20)

    return place


def long_named(peer: Peer) -> None:
    if LONG_NAME not in peer.topic_ids:
        peer.create_topic(LONG_NAME)


def wherever(answer: DescribeLogDirsResponse) -> DescribeLogDirsResponse:
    """The same, with all topics in one made-up directory: in Kafka a hash map decides which of two directories takes a new log."""
    topics: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    for directory in answer.results:
        for topic in directory.topics:
            topics.setdefault(topic.name, DescribeLogDirsResponse.DescribeLogDirsTopic(name=topic.name)).partitions += topic.partitions
        directory.topics = []
    answer.results.append(DescribeLogDirsResponse.DescribeLogDirsResult(log_dir="(either)", topics=list(topics.values())))
    return answer


def describe_log_dirs(version: int) -> Iterator[Case]:
    def case(name: str, topics: dict[str, list[int]] | None, **options: Any) -> Case:
        return Case(ApiKey.DESCRIBE_LOG_DIRS, version, name, lambda _: listing(topics), **options)

    yield case("both partitions", {MOVABLE: [0, 1]}, before=placed(first))
    yield case("both partitions in the other directory", {MOVABLE: [0, 1]}, before=placed(second))
    yield case("one", {MOVABLE: [1]})
    yield case("twice", {MOVABLE: [1, 1]})
    yield case("one unknown partition", {MOVABLE: [0, 7]})
    yield case("unknown topic", {"unknown": [0]})
    yield case("no partitions", {MOVABLE: []})
    yield case("nothing", {})
    yield case("all", None, view=wherever)


def alter_replica_log_dirs(version: int) -> Iterator[Case]:
    def case(name: str, *wanted: tuple[Callable[[Peer], str], str, list[int]], **options: Any) -> Case:
        def build(peer: Peer) -> AlterReplicaLogDirsRequest:
            return moves(*[(path(peer), topic, partitions) for path, topic, partitions in wanted])

        return Case(ApiKey.ALTER_REPLICA_LOG_DIRS, version, name, build, **options)

    yield case("where it is", (first, MOVABLE, [0, 1]), before=placed(first))
    yield case("to the other directory", (second, MOVABLE, [0, 1]))
    yield case("to the other directory again", (second, MOVABLE, [1, 0]))
    yield case("and back", (first, MOVABLE, [0]))
    yield Case(ApiKey.DESCRIBE_LOG_DIRS, 4, f"after moves of version {version}", lambda _: listing({MOVABLE: [0, 1]}), before=placed(first))
    yield case("unknown topic", (second, "unknown", [0]))
    yield case("unknown partition", (second, MOVABLE, [9]))
    yield case("known and unknown", (second, MOVABLE, [0, 9]))
    yield case("a directory that is none", (lambda _: "/nowhere", MOVABLE, [0]))
    yield case("a relative directory", (lambda _: "data", MOVABLE, [0]))
    yield case("an empty directory", (lambda _: "", MOVABLE, [0]))
    yield case("a directory with a slash at its end", (lambda peer: second(peer) + "/", MOVABLE, [0]))
    yield case("a name too long", (second, LONG_NAME, [0]), before=long_named)
    yield case("two directories at once", (first, MOVABLE, [1]), (second, MOVABLE, [1]))
    yield case("unusable name", (second, "with space", [0]))
    yield case("no partitions", (second, MOVABLE, []))
    yield case("nothing")


DIRECTORY_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
}

WHOLE_VIEWS: dict[ApiKey, Callable[[Any], Any]] = {ApiKey.DESCRIBE_LOG_DIRS: wherever}
"""What is compared of an answer to bytes that happen to ask for everything."""
