"""`odradek quorum` and `odradek api-versions`: what they make of answers, and what an embedded cluster answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from odradek.base.errors import ConfigError
from odradek.base.ids import ZERO_UUID, uuid_to_string
from odradek.cli.node.api_versions import version_rows
from odradek.cli.node.quorum import read_controller, replication_rows, status_row
from odradek.client import Admin
from odradek.client.admin.types.cluster import QuorumInfo, QuorumReplicaState, RaftVoterEndpoint
from odradek.client.core.metadata import Broker
from odradek.client.types import ClusterDescription
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.testing.kit.embedded import EmbeddedCluster
from tests.cli.conftest import Command

DIRECTORY = UUID(int=7)


def replica(node: int, end: int, caught_up: int | None = 1_000, directory: UUID = DIRECTORY) -> QuorumReplicaState:
    return QuorumReplicaState(node, directory, end, caught_up, caught_up)


QUORUM = QuorumInfo(
    2,
    9,
    95,
    (replica(1, 90, 400), replica(2, 100), replica(3, 97)),
    (replica(4, 50, None, ZERO_UUID),),
    {1: (RaftVoterEndpoint("CONTROLLER", "::1", 9093),), 2: (), 3: ()},
)


def test_the_status_is_about_the_voter_that_is_furthest_behind() -> None:
    row = status_row("c", QUORUM)
    assert [row[name] for name in ("leader_id", "leader_epoch", "high_watermark")] == [2, 9, 95]
    assert (row["max_follower_lag"], row["max_follower_lag_time_ms"]) == (10, 600)
    assert row["current_voters"] == [
        {"id": 1, "directoryId": uuid_to_string(DIRECTORY), "endpoints": ["CONTROLLER://[::1]:9093"]},
        {"id": 2, "directoryId": uuid_to_string(DIRECTORY)},
        {"id": 3, "directoryId": uuid_to_string(DIRECTORY)},
    ]
    assert row["current_observers"] == [{"id": 4}]


def test_a_lag_that_cannot_be_told_is_none() -> None:
    silent = QUORUM._replace(voters=(replica(1, 90, None), replica(2, 100)))
    assert (status_row("c", silent)["max_follower_lag"], status_row("c", silent)["max_follower_lag_time_ms"]) == (10, None)
    level = QUORUM._replace(voters=(replica(1, 100, None), replica(2, 100)))
    assert (status_row("c", level)["max_follower_lag"], status_row("c", level)["max_follower_lag_time_ms"]) == (0, 0)
    headless = QUORUM._replace(leader_id=-1)
    assert status_row("c", headless)["max_follower_lag"] is None
    assert {row["lag"] for row in replication_rows(headless, None)} == {None}


def test_replicas_stand_in_the_order_of_their_ranks() -> None:
    rows = replication_rows(QUORUM, None)
    assert [(row["node_id"], row["status"], row["lag"], row["last_fetch_timestamp"]) for row in rows] == [
        (2, "Leader", 0, 1_000),
        (1, "Follower", 10, 400),
        (3, "Follower", 3, 1_000),
        (4, "Observer", 50, None),
    ]
    assert [row["last_caught_up_timestamp"] for row in replication_rows(QUORUM, 900)] == ["in 100 ms", "500 ms ago", "in 100 ms", None]


# -- the controller of a file -------------------------------------------------------------------------------------------------------------

FILE = (
    "node.id=5\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER,SECURE\nlisteners=CONTROLLER://:9093,SECURE://:9094\n"
    "advertised.listeners=SECURE://[::1]:9194\nlog.dirs=@/data,@/more\nssl.keystore.location=/etc/keys.jks\n"
)


def written(
    folder: Path, text: str, meta: str | None = "version=1\ncluster.id=c\nnode.id=5\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n"
) -> Path:
    (folder / "data").mkdir(exist_ok=True)
    if meta is not None:
        (folder / "data" / "meta.properties").write_text(meta)
    path = folder / "server.properties"
    path.write_text(text.replace("@", str(folder)))
    return path


def test_a_controller_is_read_from_its_file_and_directory(tmp_path: Path) -> None:
    found = read_controller(written(tmp_path, FILE))
    assert (found.node_id, found.directory_id) == (5, DIRECTORY)
    assert found.endpoints == (RaftVoterEndpoint("CONTROLLER", "localhost", 9093), RaftVoterEndpoint("SECURE", "::1", 9194))


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("node.id=5", "", "node.id is missing"),
        ("node.id=5", "node.id=x", "node.id is 'x', not a number"),
        ("roles=controller", "roles=broker", "process.roles does not contain controller"),
        ("controller.listener.names=CONTROLLER,SECURE", "", "controller.listener.names is missing"),
        ("names=CONTROLLER,SECURE", "names=OTHER", "contains OTHER, but listeners and advertised.listeners do not"),
        ("log.dirs=@/data,@/more", "", "metadata.log.dir and log.dirs are missing"),
        ("log.dirs=@/data,@/more", "log.dirs=@/more", "is not formatted"),
        ("CONTROLLER://:9093", "CONTROLLER:9093", "a listener must have the form"),
    ],
)
def test_a_file_that_is_no_controllers(line: str, instead: str, said: str, tmp_path: Path, command: Command) -> None:
    path = written(tmp_path, FILE.replace(line, instead))
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_controller(path)
    answer = command("quorum", "add-controller", "-c", str(path), "-b", "127.0.0.1:1")
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1)


def test_a_directory_without_an_id(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no directory id"):
        read_controller(written(tmp_path, FILE, "version=1\ncluster.id=c\nnode.id=5\n"))


def test_a_dry_run_asks_nobody(tmp_path: Path, command: Command) -> None:
    path = written(tmp_path, FILE)
    answer = command("quorum", "add-controller", "-c", str(path), "--dry-run", "-b", "127.0.0.1:1")
    urls = "CONTROLLER://localhost:9093, SECURE://[::1]:9194"
    assert answer == (0, f"Would add controller 5 with directory id AAAAAAAAAAAAAAAAAAAABw and endpoints: {urls}\n", "")
    script = command("kafka-metadata-quorum", "--bootstrap-server", "h:1", "--command-config", str(path), "add-controller", "--dry-run")
    assert script == answer


# -- against a cluster --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(2) as running:
        yield running


def test_the_quorum_of_a_cluster(cluster: EmbeddedCluster, command: Command) -> None:
    at = cluster.bootstrap_servers
    rows = json.loads(command("quorum", "describe", "--replication", "-J", "-b", at).out)
    assert [(row["node_id"], row["status"]) for row in rows[1:]] == [(3 - rows[0]["node_id"], "Follower")]
    lines = command("kafka-metadata-quorum.sh", "--bootstrap-server", at, "describe", "--status").out.splitlines()
    with Admin(bootstrap_servers=at) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    assert lines[0] == f"ClusterId:              {cluster_id}"
    assert lines[1].split() == ["LeaderId:", str(rows[0]["node_id"])]
    assert [line.split(":")[0] for line in lines[2:]] == [
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    assert " ms" in command("quorum", "describe", "--replication", "--human-readable", "-b", at).out


def test_our_voters_stay_and_one_line_says_so(cluster: EmbeddedCluster, tmp_path: Path, command: Command) -> None:
    at = cluster.bootstrap_servers
    answer = command("quorum", "add-controller", "-c", str(written(tmp_path, FILE)), "-b", at)
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (1, "", 1)
    assert answer.err.startswith("odradek quorum: this cluster cannot change the voters of its quorum: ")
    (row,) = json.loads(command("quorum", "describe", "-J", "-b", at).out)
    voter = row["current_voters"][0]
    named = ("-i", str(voter["id"]), "-d", voter.get("directoryId", uuid_to_string(ZERO_UUID)))
    told = command("quorum", "remove-controller", *named, "-b", at)
    assert (told.status, told.out.startswith(f"Would remove controller {voter['id']} with directory id ")) == (0, True)
    assert told.err == "odradek quorum: nothing was changed; add --execute to make the changes\n"
    for typed in (("quorum", "remove-controller", "--execute"), ("quorum", "-b", at, "remove-controller")):
        done = command(*typed, *named, *(("-b", at) if typed[1] != "-b" else ()))
        assert (done.status, done.err.startswith("odradek quorum: this cluster cannot change the voters")) == (1, True)
    # With --dry-run nothing is asked of the quorum, also when the script's word is there.
    assert command("quorum", "-b", at, "remove-controller", *named, "--dry-run").status == 0
    nobody = command("quorum", "remove-controller", "-i", "9", "-d", uuid_to_string(DIRECTORY), "-b", at)
    assert (nobody.status, nobody.err.split(": ")[1]) == (1, "VOTER_NOT_FOUND")


# -- api-versions -------------------------------------------------------------------------------------------------------------------------

BROKER = Broker(1, "h", 9092, None)


def test_versions_that_both_sides_know_are_usable() -> None:
    rows = {row["api_key"]: row for row in version_rows(BROKER, {0: (0, 99), 3: (14, 15), 18: (0, 3), 999: (1, 2)}, "broker")}
    assert [rows[0][name] for name in ("name", "min_version", "max_version", "usable")] == ["Produce", 0, 99, 13]
    assert rows[3]["usable"] is None  # too new
    assert rows[18]["usable"] == 3
    assert [rows[999][name] for name in ("name", "min_version", "max_version", "usable")] == ["UNKNOWN", 1, 2, None]
    assert [rows[1][name] for name in ("name", "min_version", "max_version", "usable")] == ["Fetch", None, None, None]
    assert list(rows) == sorted(rows)
    assert 52 not in rows  # Vote is for controllers
    assert {row["api_key"] for row in version_rows(BROKER, {}, "controller")} >= {52}


def test_each_broker_is_asked(cluster: EmbeddedCluster, command: Command) -> None:
    rows = json.loads(command("api-versions", "-J", "-b", cluster.bootstrap_servers).out)
    served = {(row["broker"], row["name"], row["max_version"]) for row in rows if row["max_version"] is not None}
    for node in cluster.ids:
        expected = {api.api_key: api.max_version for api in APIS if api.is_served_on("broker") and not api.optional}
        expected[ApiKey.INIT_PRODUCER_ID] -= 1  # whose newest version is not stable
        assert {(node, API_INFO[key].name, version) for key, version in expected.items()} == {each for each in served if each[0] == node}
    assert all(row["usable"] is None or row["min_version"] <= row["usable"] <= row["max_version"] for row in rows)
    header, *lines = command("kafka-broker-api-versions", "--bootstrap-server", cluster.bootstrap_servers).out.splitlines()
    assert header.split() == ["BROKER", "API-KEY", "NAME", "MIN-VERSION", "MAX-VERSION", "USABLE"]
    assert len(lines) == len(rows)


def test_a_broker_that_cannot_be_asked_does_not_hide_the_others(
    cluster: EmbeddedCluster, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {broker.node_id: broker for broker in asked(cluster)}
    away = Broker(2, "127.0.0.1", 1)
    monkeypatch.setattr(Admin, "describe_cluster", lambda _: ClusterDescription("c", 1, (there[1], away)))
    answer = command("api-versions", "-J", "-b", cluster.bootstrap_servers)
    assert (answer.status, {row["broker"] for row in json.loads(answer.out)}) == (1, {1})
    assert answer.err.startswith("odradek api-versions: broker 2: ")
    assert len(answer.err.splitlines()) == 1


def asked(cluster: EmbeddedCluster) -> tuple[Broker, ...]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return admin.describe_cluster().brokers
