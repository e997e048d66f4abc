"""`odradek elections` and `odradek reassign`: what they plan, the files that they read, and what a cluster answers."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interop.waiting import until
from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.topics.partition_files import read_election, read_reassignment, read_topics, reassignment_json
from odradek.cli.topics.reassignment_plan import Move, brokers_of, moves, proposal, spread, throttled_replicas
from odradek.cli.topics.reassignment_steps import (
    clear_throttles,
    directory_rows,
    move_directories,
    partition_rows,
    throttle_directories,
    throttle_partitions,
)
from odradek.client import Admin, ConfigChange, ConfigResource, NewTopic
from odradek.client.admin.types.replicas import PartitionReassignment, TopicPartitionReplica
from odradek.client.admin.types.topics import TopicDescription
from odradek.client.core.metadata import Broker
from odradek.client.types import ClusterDescription, ConfigEntry
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing.kit.embedded import EmbeddedCluster
from tests.cli.conftest import Command
from tests.testing.wire import Wire

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

# -- plans --------------------------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 8), st.integers(1, 40), st.integers(1, 8), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_replicas_are_spread_evenly(brokers: int, partitions: int, copies: int, rng: random.Random) -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(10, 10 + brokers))
    if copies > brokers:
        with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
            spread(racks, partitions, copies, rng)
        return
    found = spread(racks, partitions, copies, rng)
    assert all(len(set(replicas)) == copies for replicas in found)
    leaders = Counter(replicas[0] for replicas in found)
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=9), st.integers(1, 20), st.integers(1, 9), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_no_rack_has_two_replicas_while_another_has_none(of: list[str], partitions: int, copies: int, rng: random.Random) -> None:
    racks: dict[int, str | None] = dict(enumerate(of))
    for replicas in spread(racks, partitions, min(copies, len(of)), rng):
        assert len(set(replicas)) == min(copies, len(of))
        assert len({racks[broker] for broker in replicas}) == min(len(replicas), len(set(of)))


def test_followers_are_others_in_each_round() -> None:
    found = spread(dict.fromkeys(range(4)), 12, 2, random.Random(1))
    by_leader = {replicas[0]: {each[1] for each in found if each[0] == replicas[0]} for replicas in found}
    assert all(len(followers) == 3 for followers in by_leader.values())


def test_a_proposal_keeps_the_number_of_replicas_of_each_topic() -> None:
    found = proposal({A0: (1, 2), A1: (2, 1), B0: (3,)}, dict.fromkeys((4, 5, 6)), random.Random(2))
    assert {where: len(replicas) for where, replicas in found.items()} == {A0: 2, A1: 2, B0: 1}
    assert {broker for replicas in found.values() for broker in replicas} <= {4, 5, 6}


def test_what_moves_is_throttled_at_both_ends() -> None:
    under_way = {A0: PartitionReassignment((3, 1), (3,), (1,)), B0: PartitionReassignment((1, 2), (2,), ())}
    found = moves(under_way, {A0: [4, 1], A1: [2, 3]}, {A0: (3, 1), A1: (1, 2)})
    assert found == {
        A0: Move(frozenset({1}), frozenset({4})),
        A1: Move(frozenset({1, 2}), frozenset({3})),
        B0: Move(frozenset({1}), frozenset({2})),
    }
    assert throttled_replicas(found) == {"a": ("0:1,1:1,1:2", "0:4,1:3"), "b": ("0:1", "0:2")}
    assert brokers_of(found) == [1, 2, 3, 4]


# -- files --------------------------------------------------------------------------------------------------------------------------------


def test_files_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "moves.json"
    path.write_text(reassignment_json({A1: (2, 3), A0: (1,)}))
    assert '"log_dirs":["any"]' in path.read_text()
    assert read_reassignment(path) == ({A0: (1,), A1: (2, 3)}, {})
    path.write_text('{"partitions": [{"topic": "a", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "/d"]}]}')
    assert read_reassignment(path) == ({A1: (2, 3)}, {TopicPartitionReplica("a", 1, 3): "/d"})
    assert read_election(path) == [A1]
    path.write_text('{"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]}')
    assert read_topics(path) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "invalid JSON"),
        ("[]", "partitions is missing or empty"),
        ('{"version": 2}', "version 2 is unknown"),
        ('{"partitions": []}', "partitions is missing or empty"),
        ('{"partitions": [1]}', "partitions is missing or empty"),
        ('{"partitions": [{"topic": "a"}]}', "topic or partition is missing"),
        ('{"partitions": [{"topic": "a", "partition": true}]}', "topic or partition is missing"),
        ('{"partitions": [{"topic": "a", "partition": -1}]}', "partition -1 of topic a is not in the range 0 to 2147483647"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "replicas of a-0 must be a list of broker ids that is not empty"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}',
            "replicas of a-0 must be a list of broker ids that is not empty",
        ),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "replicas of a-0 may not contain duplicate entries: 1,1"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}, {"topic": "a", "partition": 0, "replicas": [2]}]}',
            "a-0 is given twice",
        ),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": [3]}]}', "log_dirs of a-0 must be a list of paths"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": []}]}', "a-0 has 1 replicas, but 0 log_dirs"),
    ],
)
def test_files_that_are_none(text: str, said: str, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "moves.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"{path}: {said}")):
        read_reassignment(path)
    for typed in ("execute", "verify", "cancel"):
        answer = command("reassign", typed, "-f", str(path), "-b", "127.0.0.1:1")
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith(f"odradek reassign: {path}: {said}")


@pytest.mark.parametrize(("text", "said"), [("{}", "topics is missing"), ('{"topics": [{}]}', "topic is missing in topics")])
def test_lists_of_topics_that_are_none(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_topics(path)
    path.write_text('{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    with pytest.raises(ConfigError, match="a is given twice"):
        read_topics(path)


# -- against a cluster --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    """`spread` with replicas on 1 and 2, on 2 and 3; `alone` on 3."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.create_topics([NewTopic("spread", assignments={0: [1, 2], 1: [2, 3]}), NewTopic("alone", assignments={0: [3]})])
        yield client


def test_a_proposal_is_for_the_brokers_that_are_named(cluster: EmbeddedCluster, admin: Admin, command: Command, tmp_path: Path) -> None:
    at = cluster.bootstrap_servers
    file = tmp_path / "topics.json"
    file.write_text('{"version": 1, "topics": [{"topic": "spread"}]}')
    typed = ("--generate", "--topics-to-move-json-file", str(file), "--broker-list", "1,3")
    lines = command("kafka-reassign-partitions.sh", "--bootstrap-server", at, *typed).out.splitlines()
    assert [lines[0], lines[2], lines[3]] == ["Current partition replica assignment", "", "Proposed partition reassignment configuration"]
    assert [each["replicas"] for each in json.loads(lines[1])["partitions"]] == [[1, 2], [2, 3]]
    assert [sorted(each["replicas"]) for each in json.loads(lines[4])["partitions"]] == [[1, 3], [1, 3]]
    both = json.loads(command("reassign", "generate", "spread", "alone", "--broker-list", "1,2", "-J", "-b", at).out)
    assert [len(each["replicas"]) for each in both["proposed"]["partitions"]] == [1, 2, 2]
    few = command("reassign", "generate", "spread", "--broker-list", "1", "-b", at)
    assert few.err == "odradek reassign: INVALID_REPLICATION_FACTOR: Replication factor: 2 larger than available brokers: 1.\n"
    strange = command("reassign", "generate", "spread", "--broker-list", "1,9", "-b", at)
    assert strange.err == "odradek reassign: BROKER_ID_NOT_REGISTERED: Unknown broker id 9; the brokers of the cluster are 1,2,3\n"


def test_our_partitions_stay_and_one_line_says_so(cluster: EmbeddedCluster, admin: Admin, command: Command, tmp_path: Path) -> None:
    at = cluster.bootstrap_servers
    file = tmp_path / "moves.json"
    file.write_text(reassignment_json({TopicPartition("spread", 0): (1, 3)}))
    for typed in (("execute", "--throttle", "1000"), ("cancel",)):
        answer = command("reassign", *typed, "-f", str(file), "-b", at)
        assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1)
        assert answer.err.startswith("odradek reassign: this cluster cannot move partitions: ")
        assert answer.err.endswith("; nothing was changed\n")
    entries = admin.describe_configs([ConfigResource("topic", "spread")])[ConfigResource("topic", "spread")]
    assert [each.name for each in entries if each.source == 1] == []
    assert command("reassign", "list", "-b", at) == (0, "No partition reassignments found.\n", "")
    assert command("reassign", "list", "-J", "-b", at).out == "[]\n"


def test_verify_tells_the_states(cluster: EmbeddedCluster, admin: Admin, command: Command, tmp_path: Path) -> None:
    at = cluster.bootstrap_servers
    (path,) = admin.describe_log_dirs([1])[1]
    file = tmp_path / "moves.json"
    partitions = [
        {"topic": "spread", "partition": 0, "replicas": [1, 2], "log_dirs": [path, "any"]},
        {"topic": "spread", "partition": 1, "replicas": [1, 3], "log_dirs": ["/elsewhere", "any"]},
        {"topic": "gone", "partition": 0, "replicas": [1]},
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    kept = command("reassign", "verify", "-f", str(file), "--preserve-throttles", "-J", "-b", at)
    states = {(row["topic"], row["partition"], row["broker"]): row["state"] for row in json.loads(kept.out)}
    assert states == {
        ("gone", 0, None): "not active",
        ("spread", 0, None): "completed",
        ("spread", 1, None): "not active",
        ("spread", 0, 1): "completed",
        ("spread", 1, 1): "not active",
    }
    assert kept.err == ""
    shown = command("reassign", "--verify", "--reassignment-json-file", str(file), "-b", at)
    assert (shown.status, len(shown.out.splitlines()), shown.err) == (0, 6, "")


def test_throttles_are_cleared_when_nothing_moves_any_more(
    cluster: EmbeddedCluster, admin: Admin, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = cluster.bootstrap_servers
    cleared: list[object] = []
    monkeypatch.setattr("odradek.cli.topics.reassign.clear_throttles", lambda _, wanted: cleared.append(list(wanted)))
    file = tmp_path / "moves.json"
    file.write_text(reassignment_json({TopicPartition("spread", 0): (1, 2)}))
    assert command("reassign", "verify", "-f", str(file), "--preserve-throttles", "-b", at).status == 0
    assert cleared == []
    assert command("reassign", "verify", "-f", str(file), "-b", at).status == 0
    assert cleared == [[TopicPartition("spread", 0)]]
    under_way = {TopicPartition("alone", 0): PartitionReassignment((3, 1), (1,), ())}
    monkeypatch.setattr(Admin, "list_partition_reassignments", lambda *_: under_way)
    assert command("reassign", "verify", "-f", str(file), "-b", at).status == 0
    assert len(cleared) == 1  # others need them
    (row,) = json.loads(command("reassign", "list", "-J", "-b", at).out)
    assert row == {"topic": "alone", "partition": 0, "replicas": [3, 1], "adding": [1], "removing": []}


def test_throttles_stay_while_replicas_move_between_directories(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A partition stays where it is and its replica moves to another directory of the broker: no reassignment is under way."""
    cleared: list[object] = []
    state = "in progress"
    monkeypatch.setattr("odradek.cli.topics.reassign.Admin", lambda *_: nullcontext(SimpleNamespace(list_partition_reassignments=dict)))
    monkeypatch.setattr("odradek.cli.topics.reassign.partition_rows", lambda *_: [])
    monkeypatch.setattr(
        "odradek.cli.topics.reassign.directory_rows", lambda *_: [{"topic": "t", "partition": 0, "broker": 1, "state": state}]
    )
    monkeypatch.setattr("odradek.cli.topics.reassign.clear_throttles", lambda _, wanted: cleared.append(list(wanted)))
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/b"]}]}')
    assert command("reassign", "verify", "-f", str(file), "-b", "127.0.0.1:1").status == 0
    assert cleared == []
    state = "completed"
    assert command("reassign", "verify", "-f", str(file), "-b", "127.0.0.1:1").status == 0
    assert cleared == [[TopicPartition("t", 0)]]


class Described:
    """As much of an admin client as states need: what it was told of topics and of replicas."""

    def __init__(self, topics: Mapping[str, object], replicas: Mapping[TopicPartitionReplica, tuple[str | None, str | None]]) -> None:
        self.topics = topics
        self.replicas = replicas

    def try_describe_topics(self, names: list[str]) -> dict[str, object]:
        return {name: self.topics[name] for name in names}

    def describe_replica_log_dirs(self, places: Iterable[TopicPartitionReplica]) -> dict[TopicPartitionReplica, object]:
        return {each: SimpleNamespace(current_log_dir=self.replicas[each][0], future_log_dir=self.replicas[each][1]) for each in places}


@pytest.mark.parametrize(
    ("current", "future", "state"),
    [
        ("/a", None, "not active"),
        ("/b", None, "completed"),
        ("/a", "/b", "in progress"),
        ("/a", "/c", "not active"),
        ("/b", "/c", "not active"),
        (None, None, "not active"),
    ],
)
def test_a_replica_is_on_its_way_where_it_goes_to_the_directory_that_is_wanted(current: str | None, future: str | None, state: str) -> None:
    replica = TopicPartitionReplica("a", 0, 1)
    (row,) = directory_rows(cast(Admin, Described({}, {replica: (current, future)})), {replica: "/b"})
    assert row["state"] == state


def test_a_partition_is_where_it_should_be_when_its_replicas_stand_in_that_order() -> None:
    """The first is the preferred leader."""
    there = SimpleNamespace(partitions={0: SimpleNamespace(replicas=(1, 2))})
    admin = cast(Admin, Described({"a": there, "gone": KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}, {}))
    for where, target, state in (
        (A0, (1, 2), "completed"),
        (A0, (2, 1), "not active"),
        (A0, (1, 2, 3), "not active"),
        (A1, (1, 2), "not active"),
        (TopicPartition("gone", 0), (1,), "not active"),
    ):
        (row,) = partition_rows(admin, {where: target}, {})
        assert row["state"] == state
    moving = {A0: PartitionReassignment((2, 1), (2,), (1,))}
    assert [row["state"] for row in partition_rows(admin, {A0: (2, 1), A1: (1,)}, moving)] == ["in progress", "not active"]
    refused = cast(Admin, Described({"a": KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}, {}))
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        partition_rows(refused, {A0: (1,)}, {})


class Recorder:
    """As much of an admin client as throttles need: two brokers, topic `a`."""

    def __init__(self, settings_of: Mapping[ConfigResource, Mapping[str, int]]) -> None:
        self.settings_of = settings_of
        self.altered: dict[ConfigResource, list[ConfigChange]] = {}
        self.asked: list[list[TopicPartitionReplica]] = []
        self.answers: list[dict[TopicPartitionReplica, ErrorCode]] = []

    def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, (Broker(1, "h", 1), Broker(2, "h", 2)))

    def try_describe_topics(self, names: set[str]) -> dict[str, object]:
        there = TopicDescription("a", UUID(int=1), False, {})
        return {name: there if name == "a" else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names}

    def describe_configs(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry]]:
        return {
            each: [ConfigEntry(key, "1", source, False, False, None) for key, source in self.settings_of.get(each, {}).items()]
            for each in resources
        }

    def try_alter_replica_log_dirs(self, places: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartitionReplica, KafkaError | None]:
        """The answers that a test has put there, each question's in its turn."""
        self.asked.append(sorted(places))
        answer = self.answers.pop(0)
        return {each: None if each not in answer else KafkaError(answer[each], "no") for each in places}

    def incremental_alter_configs(self, changes: dict[ConfigResource, list[ConfigChange]]) -> None:
        self.altered.update(changes)


def test_throttles_are_set_at_topics_and_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    admin = Recorder({})
    moving = {A0: Move(frozenset({1}), frozenset({2}))}
    throttle_partitions(cast(Admin, admin), moving, [1, 2], 500)
    throttle_directories(cast(Admin, admin), [], 7)
    rates = [ConfigChange("leader.replication.throttled.rate", "500"), ConfigChange("follower.replication.throttled.rate", "500")]
    replicas = [
        ConfigChange("leader.replication.throttled.replicas", "0:1"),
        ConfigChange("follower.replication.throttled.replicas", "0:2"),
    ]
    brokers = {ConfigResource("broker", "1"): rates, ConfigResource("broker", "2"): rates}
    assert admin.altered == {ConfigResource("topic", "a"): replicas, **brokers}
    throttle_directories(cast(Admin, admin), [2], 7)
    assert admin.altered[ConfigResource("broker", "2")] == [ConfigChange("replica.alter.log.dirs.io.max.bytes.per.second", "7")]
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_replicas_that_are_still_coming_are_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = TopicPartitionReplica("a", 0, 1), TopicPartitionReplica("a", 0, 2)
    admin = Recorder({})
    admin.answers = [{second: ErrorCode.REPLICA_NOT_AVAILABLE}, {}]
    move_directories(cast(Admin, admin), {first: "/x", second: "/y"}, 60_000)
    assert admin.asked == [[first, second], [second]]
    assert capsys.readouterr().err == (
        "odradek reassign: started moving a-0 on broker 1 to /x\nodradek reassign: started moving a-0 on broker 2 to /y\n"
    )
    admin.answers = [{first: ErrorCode.REPLICA_NOT_AVAILABLE}] * 9
    with pytest.raises(OdradekError, match="did not start within 1 ms: a-0 on broker 1"):
        move_directories(cast(Admin, admin), {first: "/x"}, 1)
    admin.answers = [{first: ErrorCode.LOG_DIR_NOT_FOUND}]
    with pytest.raises(KafkaError, match="LOG_DIR_NOT_FOUND: a-0 on broker 1: no"):
        move_directories(cast(Admin, admin), {first: "/x"}, 60_000)


def test_throttles_that_are_set_are_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    own, default = ConfigResource("broker", "2"), ConfigResource("topic", "a")
    rate = "leader.replication.throttled.rate"
    admin = Recorder(
        {
            ConfigResource("broker", "1"): {rate: 3},  # the default of all brokers
            own: {rate: 2, "log.cleaner.threads": 2},
            default: {"leader.replication.throttled.replicas": 1, "follower.replication.throttled.replicas": 5},
        }
    )
    clear_throttles(cast(Admin, admin), {A0: (1,), TopicPartition("gone", 0): (1,)})
    assert admin.altered == {
        own: [ConfigChange(rate, operation="delete")],
        default: [ConfigChange("leader.replication.throttled.replicas", operation="delete")],
    }
    assert capsys.readouterr().err == "odradek reassign: cleared the throttles of broker 2, topic a\n"


def test_the_preferred_replica_leads_again(cluster: EmbeddedCluster, admin: Admin, command: Command, tmp_path: Path) -> None:
    at = cluster.bootstrap_servers
    assert command("elections", "preferred", "--all-topic-partitions", "-b", at).out == "No partition needs another leader.\n"
    assert command("elections", "preferred", "--all-topic-partitions", "-J", "-b", at).out == "[]\n"
    assert command("elections", "unclean", "--all-topic-partitions", "-b", at) == (0, "Every partition has a leader.\n", "")
    (row,) = json.loads(command("elections", "preferred", "spread:1", "-J", "-b", at).out)
    assert row == {"topic": "spread", "partition": 1, "election": "preferred", "result": "not needed"}
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "spread", "partition": 0}, {"topic": "none", "partition": 0}]}')
    some = command("kafka-leader-election.sh", "--bootstrap-server", at, "--election-type", "PREFERRED", "--path-to-json-file", str(file))
    assert some.status == 1
    assert some.out.split()[-3:] == ["preferred", "not", "needed"]
    assert some.err.startswith("odradek elections: none-0: UNKNOWN_TOPIC_OR_PARTITION: ")
    cluster.stop(2)
    assert command("elections", "preferred", "spread:1", "-b", at).err.startswith("odradek elections: spread-1: PREFERRED_LEADER_NOT_AV")
    names = ("--under-replicated-partitions", "-J", "-b", at)
    (shown,) = json.loads(command("topics", "describe", *names).out)
    assert [(part["partition"], part["isr"]) for part in shown["partitions"]] == [(0, [1]), (1, [3])]
    fenced = json.loads(command("cluster", "list-endpoints", "--include-fenced-brokers", "-J", "-b", at).out)
    assert {row["id"]: row["state"] for row in fenced} == {1: "unfenced", 2: "fenced", 3: "unfenced"}
    assert [row["id"] for row in json.loads(command("cluster", "list-endpoints", "-J", "-b", at).out)] == [1, 3]
    cluster.restart(2)
    until(lambda: [len(part.isr) for part in admin.describe_topics(["spread"])["spread"].partitions.values()] == [2, 2], "the replicas", 30)


@pytest.mark.parametrize("kind", ["unclean", "UNCLEAN", "Unclean"])
@pytest.mark.parametrize("apart", [True, False])
def test_the_script_of_kafka_elects_unclean_leaders_at_once(kind: str, apart: bool, cluster: EmbeddedCluster, command: Command) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    words = ["--election-type", kind] if apart else [f"--election-type={kind}"]
    elected = command("kafka-leader-election.sh", *words, "--all-topic-partitions", *at)
    assert elected == (0, "No partition needs another leader.\n", ""), "a dry run says that none is without a leader"


def brokers_known_at(port: int) -> set[int]:
    with Wire(port) as wire:
        return {broker.node_id for broker in wire.ask(MetadataRequest(topics=[]), 12).brokers}


def test_an_unclean_election_is_told_first(cluster: EmbeddedCluster, admin: Admin, command: Command) -> None:
    """The last story: broker 3 ends, and with it the only replica of `alone`."""
    at = cluster.bootstrap_servers
    cluster.stop(3)
    # The commands ask any broker, and each follows the metadata by itself.
    until(lambda: all(brokers_known_at(cluster.port(node)) == {1, 2} for node in (1, 2)), "the others to know that broker 3 has ended", 60)
    told = command("elections", "unclean", "alone:0", "-J", "-b", at)
    assert [(row["topic"], row["replicas"], row["candidates"]) for row in json.loads(told.out)] == [("alone", [3], [])]
    assert told.err == "odradek elections: nothing was changed; add --execute to make the changes\n"
    (shown,) = json.loads(command("topics", "describe", "--unavailable-partitions", "-J", "-b", at).out)
    assert shown["topic"] == "alone"
    missing = command("elections", "unclean", "none:0", "alone:5", "-b", at)
    assert (missing.status, [line.split(": ")[1] for line in missing.err.splitlines()]) == (1, ["none-0", "alone-5"])
    for typed in (("unclean", "--execute"), ("--election-type", "unclean"), ("--election-type=unclean",)):
        done = command("elections", *typed, "--topic", "alone", "--partition", "0", "-b", at)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith("odradek elections: alone-0: ELIGIBLE_LEADERS_NOT_AVAILABLE")
    tried = command("elections", "--election-type", "unclean", "--topic", "alone", "--partition", "0", "--dry-run", "-b", at)
    assert tried.err == "odradek elections: nothing was changed; add --execute to make the changes\n"
    told = command("cluster", "unregister", "3", "-b", at)
    assert told == (0, "Would unregister broker 3.\n", "odradek cluster: nothing was changed; add --execute to make the changes\n")
    assert "which is up" in command("cluster", "unregister", "2", "-b", at).out
    assert command("cluster", "unregister", "--id", "3", "--dry-run", "-b", at).out == "Would unregister broker 3.\n"
    assert command("kafka-cluster.sh", "unregister", "--bootstrap-server", at, "--id", "3").out == "Broker 3 is no longer registered.\n"
    again = command("cluster", "unregister", "3", "-b", at)
    assert again.err.startswith("odradek cluster: BROKER_ID_NOT_REGISTERED: ")


def test_the_id_of_a_cluster(cluster: EmbeddedCluster, admin: Admin, command: Command) -> None:
    found = admin.describe_cluster().cluster_id
    assert command("cluster", "id", "-b", cluster.bootstrap_servers).out == f"{found}\n"
    assert command("kafka-cluster", "cluster-id", "--bootstrap-server", cluster.bootstrap_servers).out == f"{found}\n"
    assert json.loads(command("cluster", "id", "-J", "-b", cluster.bootstrap_servers).out) == [{"cluster_id": found}]
