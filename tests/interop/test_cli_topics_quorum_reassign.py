"""`odradek topics`, `quorum`, `cluster` and their neighbours beside Kafka's own tools: the same facts, whichever of the two tells them."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from interop.cluster import Member, MixedCluster
from interop.peers import QUICK, BrokerProcess, jvm_command
from interop.tools import JvmTools
from interop.waiting import until
from odradek.base.ids import TopicPartition
from odradek.cli.main import COMMANDS
from odradek.cli.topics.partition_files import reassignment_json
from odradek.client import Admin, ConfigResource, NewTopic, Producer
from odradek.client.admin.types.replicas import ElectionType
from tests.interop.pair import Pair

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOPICS = "org.apache.kafka.tools.TopicCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
ELECTIONS = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
PATIENCE_S = 60.0
PARTITIONS = [TopicPartition("moving", number) for number in range(2)]


def odradek(at: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Our command line, in a process of its own."""
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": at}
    command = [sys.executable, "-m", "odradek.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done


def rows(at: str, *arguments: str, status: int = 0) -> list[dict[str, object]]:
    return list(json.loads(odradek(at, *arguments, "-J", status=status).stdout))


def kafkas(tools: JvmTools, main_class: str, *arguments: str) -> str:
    """What Kafka's tool prints, whatever its exit status."""
    done = tools.run(main_class, *arguments)
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture(params=["odradek", "jvm"])
def broker(request: pytest.FixtureRequest, pair: Pair) -> BrokerProcess:
    return pair.brokers[request.param == "jvm"]


# -- topics --------------------------------------------------------------------------------------------------------------------------------


def described(text: str) -> tuple[dict[str, dict[str, str]], set[tuple[str, ...]]]:
    """What stands above a topic's partitions, by topic; and the partitions. Configurations are left out."""
    headings: dict[str, dict[str, str]] = {}
    partitions: set[tuple[str, ...]] = set()
    for line in text.splitlines():
        fields = dict(
            field.split(": ", 1) if ": " in field else (field.rstrip(": "), "") for field in line.strip("\n").split("\t") if field
        )
        fields = {name: value.strip() for name, value in fields.items()}
        fields.pop("Configs", None)
        if "PartitionCount" in fields:
            headings[fields["Topic"]] = fields
        elif "Partition" in fields:
            partitions.add(tuple(sorted(f"{name}={value}" for name, value in fields.items())))
    return headings, partitions


def test_topics(pair: Pair, broker: BrokerProcess) -> None:
    at = broker.bootstrap
    with Admin(bootstrap_servers=at) as admin:
        admin.create_topics([NewTopic("c-two", 2, 1, {"retention.ms": "9"}), NewTopic("c-one", 1, 1), NewTopic("d", 1, 1)])
        id_ = rows(at, "topics", "describe", "c-one")[0]["topic_id"]
    for arguments in (
        ("--list",),
        ("--list", "--exclude-internal", "--topic", "c-.*"),
        ("--list", "--topic", "c-one,d"),
        ("--list", "--topic", "none"),
    ):
        theirs = kafkas(pair.tools, TOPICS, "--bootstrap-server", at, *arguments).split()
        assert odradek(at, "kafka-topics.sh", *arguments).stdout.split() == theirs
    for arguments in (
        ("--describe",),
        ("--describe", "--topic", "c-.*"),
        ("--describe", "--topic", "c-two", "--partition-size-limit-per-response", "1"),
        ("--describe", "--topic-id", str(id_)),
        ("--describe", "--at-min-isr-partitions", "--exclude-internal"),
        ("--describe", "--under-min-isr-partitions", "--unavailable-partitions"),
        ("--describe", "--topic", "none", "--if-exists"),
    ):
        theirs_told = described(kafkas(pair.tools, TOPICS, "--bootstrap-server", at, *arguments))
        assert described(odradek(at, "kafka-topics.sh", *arguments).stdout) == theirs_told, arguments
    assert described(odradek(at, "topics", "describe", "c-two").stdout)[1]


def test_topics_are_altered_alike(pair: Pair, broker: BrokerProcess) -> None:
    at = broker.bootstrap

    def theirs(*arguments: str) -> int:
        return pair.tools.run(TOPICS, "--bootstrap-server", at, *arguments).returncode

    def ours(*arguments: str) -> int:
        command = [sys.executable, "-m", "odradek.cli.main", "kafka-topics", *arguments, "--bootstrap-server", at]
        return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode

    def counts() -> list[int]:
        with Admin(bootstrap_servers=at) as admin:
            return [len(admin.describe_topics([name])[name].partitions) for name in ("e-ours", "e-theirs")]

    for tool, name in ((ours, "e-ours"), (theirs, "e-theirs")):
        assert tool("--create", "--topic", name, "--replica-assignment", "1,1", "--config", "retention.ms=5") == 0
        assert tool("--create", "--topic", name, "--if-not-exists") == 0
        assert tool("--create", "--topic", name) == 1
        assert tool("--alter", "--topic", name, "--partitions", "3") == 0
        assert tool("--alter", "--topic", name, "--partitions", "2") == 1
        assert tool("--alter", "--topic", name, "--partitions", "4", "--replica-assignment", "1,1,1,1") == 0
        assert tool("--alter", "--topic", "e-none", "--partitions", "4") == 1
        assert tool("--alter", "--topic", "e-none", "--partitions", "4", "--if-exists") == 0
    assert counts() == [4, 4]
    for tool, name in ((ours, "e-ours"), (theirs, "e-theirs")):
        assert tool("--delete", "--topic", f"{name}.*") == 0
        assert tool("--delete", "--topic", name) == 1
        assert tool("--delete", "--topic", name, "--if-exists") == 0


# -- quorum, api-versions, cluster, features -----------------------------------------------------------------------------------------------


def test_quorum(pair: Pair, broker: BrokerProcess) -> None:
    at = broker.bootstrap
    said = kafkas(pair.tools, QUORUM, "--bootstrap-server", at, "describe", "--status")
    theirs = {line.split(":", 1)[0]: line.split(":", 1)[1].strip() for line in said.splitlines() if ":" in line}
    mine = {line.split(":", 1)[0]: line.split(":", 1)[1].strip() for line in odradek(at, "quorum", "describe").stdout.splitlines()}
    assert list(mine) == list(theirs)
    moving = ("HighWatermark", "MaxFollowerLagTimeMs")
    assert {name: value for name, value in mine.items() if name not in moving} == {
        name: value for name, value in theirs.items() if name not in moving
    }
    table = kafkas(pair.tools, QUORUM, "--bootstrap-server", at, "describe", "--replication").split("\n")
    told = [line.split() for line in table if line.split()[:1] == ["1"]]
    (row,) = rows(at, "kafka-metadata-quorum.sh", "describe", "--replication")
    assert [[str(row[name]) for name in ("node_id", "directory_id", "lag", "status")]] == [
        [each[0], each[1], each[3], each[6]] for each in told
    ]
    assert abs(int(str(row["last_fetch_timestamp"])) - int(told[0][4])) < 30_000
    readable = odradek(at, "quorum", "describe", "--replication", "--human-readable").stdout
    assert re.search(r"\d+ ms", readable)


def test_the_quorum_as_controllers_tell_it(pair: Pair, broker: BrokerProcess) -> None:
    controller = f"127.0.0.1:{broker.controller_port}"
    theirs = kafkas(pair.tools, QUORUM, "--bootstrap-controller", controller, "describe", "--status")
    mine = odradek(broker.bootstrap, "quorum", "describe", "--bootstrap-controller", controller).stdout
    assert [line for line in mine.splitlines() if line.startswith(("Leader", "CurrentVoters"))] == [
        line for line in theirs.splitlines() if line.startswith(("Leader", "CurrentVoters"))
    ]


def test_api_versions(pair: Pair, broker: BrokerProcess) -> None:
    said = kafkas(pair.tools, VERSIONS, "--bootstrap-server", broker.bootstrap)
    found = re.findall(r"^\s+(\w+)\((\d+)\): (?:(\d+)(?: to (\d+))?(?: \[usable: (\d+)\])?|UNSUPPORTED)", said, re.MULTILINE)
    theirs = {
        (name, int(key), _number(low), _number(high) if high else _number(low), _number(usable)) for name, key, low, high, usable in found
    }
    columns = ("name", "api_key", "min_version", "max_version", "usable")
    mine = {tuple(row[name] for name in columns) for row in rows(broker.bootstrap, "kafka-broker-api-versions.sh")}
    assert mine == theirs
    assert len(mine) > 60


def _number(text: str) -> int | None:
    return int(text) if text else None


def test_cluster(pair: Pair, broker: BrokerProcess) -> None:
    at = broker.bootstrap
    said = kafkas(pair.tools, CLUSTER, "cluster-id", "--bootstrap-server", at)
    assert f"Cluster ID: {odradek(at, 'kafka-cluster', 'cluster-id', '-b', at).stdout}" == said
    for arguments in ((), ("--include-fenced-brokers",)):
        table = kafkas(pair.tools, CLUSTER, "list-endpoints", "--bootstrap-server", at, *arguments)
        header, *lines = [line.split() for line in table.splitlines()]
        theirs = [dict(zip([name.lower() for name in header], line, strict=True)) for line in lines]
        mine = odradek(at, "cluster", "list-endpoints", *arguments).stdout.splitlines()
        assert mine[0].lower().replace("-", "_").split() == [name.lower() for name in header]
        told = {**rows(at, "cluster", "list-endpoints", *arguments)[0], "rack": "null"}
        assert [{name: str(told[name]) for name in each} for each in theirs] == theirs
    controller = f"127.0.0.1:{broker.controller_port}"
    table = kafkas(pair.tools, CLUSTER, "list-endpoints", "--bootstrap-controller", controller).splitlines()
    mine = odradek(at, "cluster", "list-endpoints", "-C", controller).stdout.splitlines()
    assert [word for word in table[1].split() if word != "null"] == [word for word in mine[1].split() if word != "-"]
    unknown = odradek(at, "kafka-cluster", "unregister", "--id", "77", status=1).stderr
    assert "BROKER_ID_NOT_REGISTERED" in unknown
    assert pair.tools.run(CLUSTER, "unregister", "--bootstrap-server", at, "--id", "77").returncode == 1


def test_features(pair: Pair, broker: BrokerProcess) -> None:
    at = broker.bootstrap
    said = kafkas(pair.tools, FEATURES, "--bootstrap-server", at, "describe")
    theirs = re.findall(r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)", said)
    names = ("name", "minimum", "maximum", "finalized")
    mine = [tuple(str(row[name]) for name in names) for row in rows(at, "kafka-features.sh", "describe")]
    assert [each for each in mine if each[0] != "metadata.version"] == [each for each in theirs if each[0] != "metadata.version"]
    assert rows(at, "features", "describe", "--node-id", "1") == rows(at, "features", "describe")
    assert "BROKER_NOT_AVAILABLE" in odradek(at, "features", "describe", "--node-id", "9", status=1).stderr
    for arguments in (("version-mapping", "--release-version", "4.1"), ("feature-dependencies", "--feature", "transaction.version=2")):
        assert odradek(at, "kafka-features", *arguments).stdout == pair.tools.run(FEATURES, *arguments).stdout.decode()
    for arguments in (
        ("upgrade", "--feature", "group.version=1", "--dry-run"),
        ("upgrade", "--metadata", "4.3", "--dry-run"),
        ("upgrade", "--feature", "group.version=9", "--dry-run"),
        ("disable", "--feature", "group.version", "--dry-run"),
        ("downgrade", "--feature", "metadata.version=1", "--dry-run"),
    ):
        status = pair.tools.run(FEATURES, "--bootstrap-server", at, *arguments).returncode
        odradek(at, "features", *arguments, status=status)


REFUSED = {
    "--delete-config",  # Kafka's script takes it and does nothing
    "--version",  # `odradek --version`
    "--help",
}
"""Flags of Kafka's scripts that ours have not."""


def help_of(main_class: str, *words: str) -> str:
    """In a process of its own, which some tools end."""
    command = jvm_command(main_class, *words, "--help", options=QUICK)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("main_class", "name"),
    [
        (TOPICS, "topics"),
        (QUORUM, "quorum"),
        (VERSIONS, "api-versions"),
        (CLUSTER, "cluster"),
        (ELECTIONS, "elections"),
        (REASSIGN, "reassign"),
        (FEATURES, "features"),
        ("kafka.tools.StorageTool", "storage"),
    ],
)
def test_every_flag_of_a_script_is_known(main_class: str, name: str) -> None:
    """A flag of the script is an option of our command, or of one of a group, or says what is to be done."""
    page = help_of(main_class)
    words = re.findall(r"\{([a-z-]+(?:,[a-z-]+)+)\}", page)
    pages = [page, *(help_of(main_class, word) for word in (words[0].split(",") if words else []))]
    columns = [line.strip().split("   ")[0] for each in pages for line in each.splitlines() if re.match(r" {0,2}-", line)]
    flags = {flag for column in columns for flag in re.findall(r"--[a-z][a-z.-]*[a-z]", column)}
    module = importlib.import_module(COMMANDS[name][0])
    commands = [*module.command.commands.values()] if isinstance(module.command, click.Group) else [module.command]
    ours = {spelling for command in commands for option in command.params for spelling in (*option.opts, *option.secondary_opts)}
    ours |= set(getattr(module, "_ACTIONS", ())) | {"--election-type" if name == "elections" else ""}
    assert len(flags) >= (4 if name == "api-versions" else 7)
    assert sorted(flags - ours - REFUSED) == []


# -- with three brokers of JVM Kafka -------------------------------------------------------------------------------------------------------

MEMBERS = {1: Member("jvm"), 2: Member("jvm", "broker"), 3: Member("jvm", "broker")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path_factory.mktemp("clib2"), MEMBERS, dynamic=True) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: MixedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=30_000) as client:
        until(lambda: len(client.describe_cluster().brokers) == 3, "three brokers", PATIENCE_S)
        topics = [NewTopic("moving", assignments={0: [1, 2], 1: [2, 3]}), NewTopic("alone", assignments={0: [3]})]
        client.create_topics([*topics, NewTopic("lossy", assignments={0: [2, 3]})])
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(100):
                producer.send("moving", b"x" * 1000, partition=number % 2)
            producer.flush()
        yield client


def places(admin: Admin) -> list[tuple[int, ...]]:
    return [part.replicas for part in admin.describe_topics(["moving"])["moving"].partitions.values()]


def settled(admin: Admin, target: list[tuple[int, ...]]) -> None:
    """Returns when nothing moves, and the broker that is asked knows the end."""
    until(lambda: admin.list_partition_reassignments() == {} and places(admin) == target, "the moves", PATIENCE_S)


def throttles(admin: Admin) -> dict[str, str | None]:
    resources = [ConfigResource("topic", "moving"), *(ConfigResource("broker", str(each)) for each in MEMBERS)]
    return {
        f"{resource.kind} {resource.name} {entry.name}": entry.value
        for resource, entries in admin.describe_configs(resources).items()
        for entry in entries
        if "throttle" in entry.name and entry.source in (1, 2)
    }


def test_reassignments_by_either_tool(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools, tmp_path: Path) -> None:
    """Each moves what the other verifies, with the same throttles."""
    at = cluster.bootstrap
    file = tmp_path / "moves.json"
    set_: list[dict[str, str | None]] = []
    for target, by_us in (([(2, 3), (1, 3)], True), ([(1, 2), (2, 3)], False), ([(2, 3), (1, 3)], False)):
        file.write_text(reassignment_json(dict(zip(PARTITIONS, target, strict=True))))
        arguments = ("--execute", "--reassignment-json-file", str(file), "--throttle", "1000000")
        before = places(admin)
        if by_us:
            said = odradek(at, "kafka-reassign-partitions", *arguments).stdout
        else:
            said = kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, *arguments)
        (line,) = [line for line in said.splitlines() if line.startswith("{")]
        assert [tuple(each["replicas"]) for each in json.loads(line)["partitions"]] == before
        set_.append(throttles(admin))
        settled(admin, target)
        verify = ("--verify", "--reassignment-json-file", str(file))
        kept = rows(at, "reassign", *verify, "--preserve-throttles")
        assert [(row["partition"], row["state"], tuple(row["current"])) for row in kept] == [  # type: ignore[arg-type]
            (number, "completed", replicas) for number, replicas in enumerate(target)
        ]
        assert throttles(admin) == set_[-1] != {}
        if by_us:
            told = kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, *verify)
            assert len(re.findall(r"Reassignment of partition moving-\d is completed\.", told)) == 2
        else:
            odradek(at, "kafka-reassign-partitions.sh", *verify)
        until(lambda: throttles(admin) == {}, "no throttles", PATIENCE_S)
    assert set_[0] == set_[2]


def test_states_and_lists_of_moves_are_told_alike(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools, tmp_path: Path) -> None:
    """A throttle of next to nothing keeps a move under way."""
    at = cluster.bootstrap
    file = tmp_path / "moves.json"
    now = places(admin)
    target = {PARTITIONS[0]: [*[each for each in (3, 2, 1) if each != now[0][0]], now[0][0]]}
    cut = tmp_path / "cut.json"
    cut.write_text(reassignment_json({PARTITIONS[0]: (now[0][0],)}))
    odradek(at, "reassign", "execute", "-f", str(cut))
    until(lambda: places(admin)[0] == (now[0][0],) and not admin.list_partition_reassignments(), "one replica", PATIENCE_S)
    file.write_text(reassignment_json(target))
    arguments = ("--reassignment-json-file", str(file))
    odradek(at, "reassign", "execute", *arguments, "--throttle", "1")
    again = odradek(at, "reassign", "execute", *arguments, status=1).stderr
    assert again.startswith("odradek reassign: other moves are in progress")
    (row,) = rows(at, "reassign", "list")
    said = kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, "--list")
    (told,) = re.findall(r"moving-0: replicas: ([\d,]+)\. adding: ([\d,]+)\.", said)
    assert tuple(",".join(map(str, row[name])) for name in ("replicas", "adding")) == told  # type: ignore[call-overload]
    (state,) = rows(at, "reassign", "verify", *arguments)
    assert state["state"] == "in progress"
    assert "moving-0 is still in progress" in kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, "--verify", *arguments)
    shown = odradek(at, "topics", "describe", "--topic", "moving").stdout
    assert described(shown) == described(kafkas(jvm_tools, TOPICS, "--bootstrap-server", at, "--describe", "--topic", "moving"))
    assert "Adding Replicas: " in shown
    (gone,) = rows(at, "reassign", "cancel", *arguments)
    assert gone["result"] == "cancelled"
    until(lambda: admin.list_partition_reassignments() == {}, "no move", PATIENCE_S)
    assert throttles(admin) == {}
    assert odradek(at, "reassign", "cancel", *arguments).stdout == "None of the specified partition reassignments are active.\n"
    (left,) = rows(at, "reassign", "verify", *arguments)
    assert (left["state"], left["current"]) == ("not active", [now[0][0]])
    said = kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, "--verify", *arguments)
    assert f"but replica set is {now[0][0]} rather than {','.join(map(str, target[PARTITIONS[0]]))}" in said


def test_a_proposal_is_one_that_kafkas_tool_takes(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools, tmp_path: Path) -> None:
    at = cluster.bootstrap
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "moving"}]}')
    arguments = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    theirs = [
        json.loads(line) for line in kafkas(jvm_tools, REASSIGN, "--bootstrap-server", at, *arguments).splitlines() if line[:1] == "{"
    ]
    mine = [json.loads(line) for line in odradek(at, "kafka-reassign-partitions", *arguments).stdout.splitlines() if line[:1] == "{"]
    assert mine[0] == theirs[0]
    assert [list(each) for each in mine[1]["partitions"]] == [list(each) for each in theirs[1]["partitions"]]
    sizes = [len(each["replicas"]) for each in theirs[1]["partitions"]]
    assert [len(each["replicas"]) for each in mine[1]["partitions"]] == sizes
    file = tmp_path / "proposed.json"
    file.write_text(json.dumps(mine[1]))
    assert "Successfully started" in kafkas(
        jvm_tools, REASSIGN, "--bootstrap-server", at, "--execute", "--reassignment-json-file", str(file)
    )
    until(lambda: admin.list_partition_reassignments() == {}, "the moves", PATIENCE_S)
    assert {row["state"] for row in rows(at, "reassign", "verify", "-f", str(file))} == {"completed"}


def test_moves_between_directories_and_what_is_refused(cluster: MixedCluster, admin: Admin, tmp_path: Path) -> None:
    at = cluster.bootstrap
    where = places(admin)[1][0]
    (path,) = admin.describe_log_dirs([where])[where]
    replicas = list(places(admin)[1])
    log_dirs = [path if each == where else "any" for each in replicas]
    partition = {"topic": "moving", "partition": 1, "replicas": replicas, "log_dirs": log_dirs}
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    done = odradek(at, "reassign", "execute", "-f", str(file))
    assert f"started moving moving-1 on broker {where} to {path}" in done.stderr
    states = [(row["broker"], row["state"]) for row in rows(at, "reassign", "verify", "-f", str(file))]
    assert states == [(None, "completed"), (where, "completed")]
    partition["log_dirs"] = ["/nowhere" if each == where else "any" for each in replicas]
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    assert "LOG_DIR_NOT_FOUND" in odradek(at, "reassign", "execute", "-f", str(file), status=1).stderr
    more = [*replicas, next(each for each in MEMBERS if each not in replicas)]
    file.write_text(reassignment_json({PARTITIONS[1]: more}))
    refused = odradek(at, "reassign", "execute", "-f", str(file), "--disallow-replication-factor-change", status=1)
    assert "odradek reassign: moving-1: INVALID_REPLICATION_FACTOR: " in refused.stderr
    dry = rows(at, "reassign", "execute", "-f", str(file), "--dry-run")
    assert [(row["replicas"], row["target"], row["result"]) for row in dry] == [(replicas, more, "would move")]
    assert list(places(admin)[1]) == replicas


def test_voters(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools) -> None:
    at = cluster.bootstrap
    (row,) = [each for each in rows(at, "quorum", "describe", "--replication") if each["status"] == "Leader"]
    said = kafkas(jvm_tools, QUORUM, "--bootstrap-server", at, "describe", "--replication")
    told = {tuple(line.split()[index] for index in (0, 1, 6)) for line in said.splitlines()[1:] if line.strip()}
    mine = rows(at, "quorum", "describe", "--replication")
    assert {(str(each["node_id"]), str(each["directory_id"]), str(each["status"])) for each in mine} == told
    properties = str(cluster.nodes[1].write_properties())
    ours = odradek(at, "quorum", "add-controller", "--config", properties, status=1).stderr
    assert ours.startswith("odradek quorum: DUPLICATE_VOTER: ")
    dry = ("add-controller", "--dry-run")
    theirs = kafkas(jvm_tools, QUORUM, "--bootstrap-server", at, "--command-config", properties, *dry)
    mine_dry = odradek(at, "kafka-metadata-quorum", "--bootstrap-server", at, "--command-config", properties, *dry).stdout
    assert theirs.strip().removeprefix("DRY RUN of adding ") == mine_dry.strip().removeprefix("Would add ")
    named = ("--controller-id", "1", "--controller-directory-id")
    assert "Would remove" in odradek(at, "quorum", "remove-controller", *named, str(row["directory_id"])).stdout
    strange = odradek(at, "quorum", "remove-controller", *named, "AAAAAAAAAAAAAAAAAAAABw", "--execute", status=1)
    assert "VOTER_NOT_FOUND" in strange.stderr


def test_elections(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools, tmp_path: Path) -> None:
    at = cluster.bootstrap
    admin.alter_partition_reassignments({TopicPartition("lossy", 0): [3, 2]})
    until(lambda: admin.list_partition_reassignments() == {}, "the order of replicas", PATIENCE_S)
    admin.elect_leaders(ElectionType.PREFERRED)
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "lossy", "partition": 0}, {"topic": "alone", "partition": 0}]}')
    arguments = ("--election-type", "preferred", "--path-to-json-file", str(file))
    results: list[tuple[bool, bool]] = []
    for order, by_us in (([2, 3], True), ([3, 2], False)):
        admin.alter_partition_reassignments({TopicPartition("lossy", 0): order})
        until(lambda: admin.list_partition_reassignments() == {}, "the order of replicas", PATIENCE_S)
        if by_us:
            found = {row["topic"]: row["result"] for row in rows(at, "kafka-leader-election", *arguments)}
            results.append((found["lossy"] == "elected", found["alone"] == "not needed"))
        else:
            said = kafkas(jvm_tools, ELECTIONS, "--bootstrap-server", at, *arguments)
            elected = "Successfully completed leader election (PREFERRED) for partitions lossy-0" in said
            results.append((elected, "Valid replica already elected for partitions alone-0" in said))
    assert results == [(True, True), (True, True)]
    missing = ("--election-type", "preferred", "--topic", "none", "--partition", "0")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in odradek(at, "kafka-leader-election", *missing, status=1).stderr
    assert jvm_tools.run(ELECTIONS, "--bootstrap-server", at, *missing).returncode == 1


def test_brokers_that_ended(cluster: MixedCluster, admin: Admin, jvm_tools: JvmTools) -> None:
    """The last story: broker 2 ends, so that 3 leads `lossy` alone, then 3, and 2 comes back, whose records may lack some."""
    at = cluster.nodes[1].bootstrap
    cluster.nodes[2].kill()

    def lossy() -> tuple[int, tuple[int, ...]]:
        part = admin.describe_topics(["lossy"])["lossy"].partitions[0]
        return part.leader, part.isr

    until(lambda: lossy() == (3, (3,)), "broker 2 to be fenced", PATIENCE_S)
    for problem in ("--under-replicated-partitions", "--unavailable-partitions", "--at-min-isr-partitions"):
        theirs = described(kafkas(jvm_tools, TOPICS, "--bootstrap-server", at, "--describe", problem))
        assert described(odradek(at, "topics", "--describe", problem).stdout) == theirs
    cluster.nodes[3].kill()
    until(lambda: 3 not in {each.node_id for each in admin.describe_cluster().brokers}, "broker 3 to be fenced", PATIENCE_S)
    theirs = described(kafkas(jvm_tools, TOPICS, "--bootstrap-server", at, "--describe", "--unavailable-partitions"))
    assert described(odradek(at, "topics", "--describe", "--unavailable-partitions").stdout) == theirs
    assert {each[-1] for each in theirs[1]} >= {"Topic=lossy", "Topic=alone"}
    table = kafkas(jvm_tools, CLUSTER, "list-endpoints", "--bootstrap-server", at, "--include-fenced-brokers")
    states = {line.split()[0]: line.split()[4] for line in table.splitlines()[1:]}
    assert {str(row["id"]): row["state"] for row in rows(at, "cluster", "list-endpoints", "--include-fenced-brokers")} == states
    cluster.start(2)
    until(lambda: 2 in {each.node_id for each in admin.describe_cluster().brokers}, "broker 2", PATIENCE_S)
    told = {row["topic"]: row["candidates"] for row in rows(at, "elections", "unclean", "lossy:0", "alone:0")}
    assert told == {"lossy": [2], "alone": []}
    assert lossy()[0] == -1
    done = odradek(at, "elections", "unclean", "--execute", "lossy:0", "alone:0", "-J", status=1)
    assert [(row["topic"], row["result"]) for row in json.loads(done.stdout)] == [("lossy", "elected")]
    assert done.stderr.startswith("odradek elections: alone-0: ELIGIBLE_LEADERS_NOT_AVAILABLE")
    assert lossy()[0] == 2
    assert odradek(at, "cluster", "unregister", "3").stdout == "Would unregister broker 3.\n"
    assert odradek(at, "cluster", "unregister", "3", "--execute").stdout == "Broker 3 is no longer registered.\n"
    until(lambda: admin.describe_cluster(include_fenced_brokers=True).fenced_brokers == set(), "broker 3 to be forgotten", PATIENCE_S)
