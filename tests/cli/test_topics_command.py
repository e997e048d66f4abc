"""`odradek topics`: partitions that are added, patterns, assignments, and the partitions with a problem."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.cli.topics.topic_names import matching, replica_lists, topic_pattern
from odradek.cli.topics.topic_report import AT_MIN_ISR, UNAVAILABLE, UNDER_MIN_ISR, UNDER_REPLICATED, has_problem, replication_factor
from odradek.client import Admin, NewTopic
from odradek.client.admin.types.replicas import PartitionReassignment
from odradek.client.admin.types.topics import TopicPartitionInfo
from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster
from tests.cli.conftest import Command

ALL = (UNDER_REPLICATED, UNAVAILABLE, UNDER_MIN_ISR, AT_MIN_ISR)


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> TopicPartitionInfo:
    return TopicPartitionInfo(0, leader, 5, replicas, isr, (), None, None)


def problems(part: TopicPartitionInfo, min_isr: int | None, live: set[int], move: PartitionReassignment | None = None) -> list[str]:
    return [each for each in ALL if has_problem(part, move, min_isr, live, [each])]


@pytest.mark.parametrize(
    ("leader", "isr", "min_isr", "live", "expected"),
    [
        (1, (1, 2, 3), 2, {1, 2, 3}, []),
        (1, (1, 2), 2, {1, 2}, [UNDER_REPLICATED, AT_MIN_ISR]),
        (1, (1,), 2, {1}, [UNDER_REPLICATED, UNDER_MIN_ISR]),
        (-1, (1,), 2, {2}, [UNDER_REPLICATED, UNAVAILABLE, UNDER_MIN_ISR]),
        (1, (1, 2, 3), 2, {2, 3}, [UNAVAILABLE]),
        (-1, (1, 2, 3), 2, {2, 3}, [UNAVAILABLE, UNDER_MIN_ISR]),
        (1, (1,), None, {1}, [UNDER_REPLICATED]),
    ],
)
def test_problems_of_a_partition(leader: int, isr: tuple[int, ...], min_isr: int | None, live: set[int], expected: list[str]) -> None:
    part = partition(leader, (1, 2, 3), isr)
    assert problems(part, min_isr, live) == expected
    assert has_problem(part, None, min_isr, live, ALL) == bool(expected)


def test_a_replica_that_is_being_added_is_not_missed() -> None:
    part, move = partition(1, (3, 1, 2), (1, 2)), PartitionReassignment((3, 1, 2), (3,), ())
    assert replication_factor(part, move) == 2
    assert problems(part, 1, {1, 2, 3}, move) == []
    assert problems(part, 1, {1, 2, 3}) == [UNDER_REPLICATED]
    ended = PartitionReassignment((4, 1, 2), (4,), ())  # between the two questions
    assert replication_factor(partition(1, (1, 2, 3), (1, 2, 3)), ended) == 3


def test_patterns_are_those_of_kafka() -> None:
    names = ["a", "ab", "b", "b.c", "bxc"]
    assert matching(names, [topic_pattern("a,b")]) == {"a,b": ["a", "b"]}
    assert matching(names, [topic_pattern("'a.*'")]) == {"'a.*'": ["a", "ab"]}
    assert matching(names, [topic_pattern("b.c"), topic_pattern("no")]) == {"b.c": ["b.c", "bxc"], "no": []}
    for text, said in (("a(", "invalid regular expression"), ("''", "expected a value, not an empty one")):
        with pytest.raises(click.UsageError, match=said):
            topic_pattern(text)


def test_assignments_are_lists_of_brokers() -> None:
    assert replica_lists("1:2, 2:1") == [[1, 2], [2, 1]]
    for text, said in (
        ("1:2,3", "Partition 1 has different replication factor: 3"),
        ("1:1", "Partition replica lists may not contain duplicate entries: 1"),
        ("1:x", "expected ID:ID,ID:ID"),
        ("", "expected ID:ID,ID:ID"),
    ):
        with pytest.raises(click.UsageError, match=said):
            replica_lists(text)


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    """A broker with two topics and one of Kafka's own."""
    with EmbeddedBroker({"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1, {"retention.ms": "1000"}), NewTopic("payments", 1, 1)])
            admin.alter_consumer_group_offsets("billing", {TopicPartition("orders", 0): 0})
        yield broker.bootstrap_servers


def names(at: str, command: Command, *typed: str) -> list[str]:
    answer = command("topics", *typed, "-J", "-b", at)
    assert answer.status == 0, answer.err
    return [each["topic"] if isinstance(each, dict) else each for each in json.loads(answer.out)]


@pytest.mark.parametrize("what", ["list", "describe"])
def test_kafkas_own_topics_are_shown_when_somebody_asks_for_them(what: str, at: str, command: Command) -> None:
    own = ["orders", "payments"]
    assert names(at, command, what) == own
    assert names(at, command, what, "--internal") == ["__consumer_offsets", *own]
    assert names(at, command, what, "--topic", "__.*") == ["__consumer_offsets"]
    assert names(at, command, what, "--topic", ".*a.*,orders") == own
    assert names(at, command, f"--{what}") == ["__consumer_offsets", *own]
    assert names(at, command, f"--{what}", "--exclude-internal") == own
    assert names(at, command, f"--{what}", "--topic", ".*s", "--exclude-internal") == own


def test_topics_by_configuration_and_id(at: str, command: Command) -> None:
    assert names(at, command, "describe", "--topics-with-overrides") == ["orders"]
    shown = command("topics", "describe", "--topics-with-overrides", "-b", at).out.splitlines()
    assert len(shown) == 1
    assert shown[0].endswith("PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=1000")
    (row,) = json.loads(command("topics", "describe", "orders", "-J", "-b", at).out)
    assert names(at, command, "describe", "--topic-id", row["topic_id"]) == ["orders"]
    assert names(at, command, "describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--if-exists") == []
    missing = command("topics", "describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "-b", at)
    assert (missing.status, missing.err.startswith("odradek topics: UNKNOWN_TOPIC_ID: ")) == (1, True)


def test_a_topic_that_is_not_there(at: str, command: Command) -> None:
    said = "odradek topics: UNKNOWN_TOPIC_OR_PARTITION: Topic 'none' does not exist as expected; `odradek topics describe` shows topics"
    for typed in (["describe"], ["delete"], ["delete", "--execute"], ["alter", "-p", "3"]):
        answer = command("topics", *typed, "--topic", "none", "-b", at)
        assert (answer.status, answer.out, answer.err) == (1, "", f"{said} and partitions\n")
        assert command("topics", *typed, "--topic", "none", "--if-exists", "-b", at) == (0, "", "")
        assert command("topics", *typed, "none", "-b", at).status == 1
    assert command("topics", "describe", "none", "orders", "--if-exists", "-b", at).out.startswith("Topic: orders\t")
    assert command("topics", "alter", "none", "-p", "3", "--if-exists", "-b", at) == (0, "Topic none does not exist.\n", "")
    assert command("topics", "list", "--topic", "none", "-b", at) == (0, "", "")


def test_partitions_are_added(at: str, command: Command) -> None:
    def count() -> int:
        (row,) = json.loads(command("topics", "describe", "growing", "-J", "-b", at).out)
        return len(row["partitions"])

    assert command("topics", "create", "growing", "--replica-assignment", "1,1", "-b", at).out == "Created topic growing (2 partitions).\n"
    tried = command("topics", "alter", "growing", "-p", "3", "--validate-only", "-b", at)
    assert tried == (0, "Would change topic growing to 3 partitions.\n", "")
    assert count() == 2
    grown = command("topics", "--alter", "--topic", "grow.*", "--partitions", "3", "-b", at)
    assert grown.out == "Changed topic growing to 3 partitions.\n"
    assert count() == 3
    fewer = command("topics", "alter", "growing", "-p", "2", "-b", at)
    assert (fewer.status, fewer.out) == (1, "")
    assert fewer.err.startswith("odradek topics: growing: INVALID_PARTITIONS: ")
    # Of the brokers of all partitions only those of the new ones are sent.
    assert command("topics", "alter", "growing", "-p", "4", "--replica-assignment", "9,9,9,1", "-b", at).status == 0
    assert count() == 4
    wrong = command("topics", "alter", "growing", "-p", "5", "--replica-assignment", "1,1,1,1", "-b", at)
    assert wrong.err.startswith("odradek topics: growing: INVALID_REPLICA_ASSIGNMENT: ")
    assert command("topics", "delete", "--topic", "grow.*", "-b", at).out == "Would delete topic growing with 4 partitions and 0 records.\n"
    assert command("topics", "--delete", "--topic", "grow.*", "-b", at).out == "Deleted topic growing.\n"


def test_all_topics_that_can_be_altered_are(at: str, command: Command) -> None:
    with Admin(bootstrap_servers=at) as admin:
        admin.create_topics([NewTopic("small", 1, 1), NewTopic("large", 5, 1)])
        answer = command("topics", "alter", "large", "none", "small", "-p", "2", "-b", at)
        assert (answer.status, answer.out) == (1, "Changed topic small to 2 partitions.\n")
        assert [line.split(": ")[1] for line in answer.err.splitlines()] == ["UNKNOWN_TOPIC_OR_PARTITION", "large"]
        admin.delete_topics(["small", "large"])


def test_lines_name_what_kafkas_do(at: str, command: Command) -> None:
    lines = command("topics", "describe", "orders", "-b", at).out.splitlines()
    assert lines[1] == "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    (row,) = json.loads(command("topics", "describe", "orders", "-J", "--partition-size-limit-per-response", "1", "-b", at).out)
    assert [part["partition"] for part in row["partitions"]] == [0, 1]
    assert row["topic_id"] != str(ZERO_UUID)


def test_problems_of_a_cluster(command: Command) -> None:
    with EmbeddedCluster(2, {"min.insync.replicas": "1"}) as cluster:
        at = cluster.bootstrap_servers
        with Admin(bootstrap_servers=at) as admin:
            topics = [NewTopic("both", assignments={0: [1, 2]}), NewTopic("one", assignments={0: [1]})]
            admin.create_topics([*topics, NewTopic("strict", assignments={0: [2, 1]}, configs={"min.insync.replicas": "2"})])
        healthy = ("--under-replicated-partitions", "--under-min-isr-partitions", "--unavailable-partitions")
        assert command("topics", "describe", *healthy, "-b", at) == (0, "", "")
        assert names(at, command, "describe", "--at-min-isr-partitions") == ["one", "strict"]
        (line,) = command("topics", "describe", "one", "--at-min-isr-partitions", "-b", at).out.splitlines()
        assert line.startswith("\tTopic: one\tPartition: 0\t")


def test_the_topics_that_can_be_created_are(bootstrap: str, command: Command) -> None:
    answer = command("topics", "create", "there", "fresh-topic", "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "Created topic fresh-topic (2 partitions).\n")
    assert answer.err.startswith("odradek topics: there: TOPIC_ALREADY_EXISTS")
    answer = command("topics", "delete", "--execute", "none-such", "fresh-topic", "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "Deleted topic fresh-topic.\n")
    assert answer.err.startswith("odradek topics: UNKNOWN_TOPIC_OR_PARTITION: topic none-such does not exist")
