"""`odradek cluster start`: what it lays out, what it refuses, and a cluster that it runs."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.cli.node.cluster import ClusterError, existing_members, planned_members, prepare, properties_of
from odradek.cli.node.server_properties import load_server_properties
from odradek.client import Admin, Consumer, Producer
from odradek.config.broker import BROKER_CONFIG
from odradek.storage.disk import OsDisk
from odradek.storage.meta_properties import read_meta_properties
from tests.cli.conftest import Command
from tests.cli.support import free_base_port
from tests.processes import end


def test_a_new_cluster_is_formatted_once_and_found_again(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    members = prepare(directory, None, 19_000, random.Random(1))
    assert [(each.node_id, each.port, each.controller_port) for each in members] == [
        (1, 19000, 20000),
        (2, 19001, 20001),
        (3, 19002, 20002),
    ]
    identities = [read_meta_properties(OsDisk(), str(each.folder / "data")) for each in members]
    assert len({each.cluster_id for each in identities if each is not None}) == 1
    assert [each.node_id for each in identities if each is not None] == [1, 2, 3]
    assert existing_members(directory) == members
    assert prepare(directory, None, None, random.Random(2)) == members
    assert [read_meta_properties(OsDisk(), str(each.folder / "data")) for each in members] == identities


@pytest.mark.parametrize(("nodes", "copies", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_copies_are_as_many_as_the_nodes_bear(tmp_path: Path, nodes: int, copies: int, in_sync: int) -> None:
    members = planned_members(tmp_path, nodes, 9092)
    path = tmp_path / "server.properties"
    path.write_text(properties_of(members[-1], members))
    config = load_server_properties(str(path))
    for key in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        assert config[BROKER_CONFIG[key]] == copies
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        assert config[BROKER_CONFIG[key]] == in_sync


def test_a_cluster_of_another_size_or_port_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    prepare(directory, 3, 19_000, random.Random(1))
    with pytest.raises(ClusterError, match="contains a cluster of 3 nodes, not of 5"):
        prepare(directory, 5, None, random.Random(1))
    with pytest.raises(ClusterError, match="whose first port is 19000, not 9092"):
        prepare(directory, None, 9092, random.Random(1))


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ClusterError, match="is not empty and contains no cluster"):
        prepare(tmp_path, None, None, random.Random(1))
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("lost", "problem"), [("server.properties", "has no server.properties"), ("data/meta.properties", "has no formatted data directory")]
)
def test_a_cluster_of_which_a_part_is_missing_is_not_started_without_it(tmp_path: Path, lost: str, problem: str) -> None:
    prepare(tmp_path / "cluster", 3, 19_000, random.Random(1))
    (tmp_path / "cluster" / "node-2" / lost).unlink()
    with pytest.raises(ClusterError, match=f"node-2 {problem}"):
        prepare(tmp_path / "cluster", None, None, random.Random(1))


@pytest.mark.parametrize("words", [("-i", "77"), ("-i77",), ("--id", "77"), ("--id=77",)])
def test_unregistering_by_kafkas_option_is_done_at_once(words: tuple[str, ...], bootstrap: str, command: Command) -> None:
    answer = command("cluster", "unregister", *words, "-b", bootstrap)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith("odradek cluster: BROKER_ID_NOT_REGISTERED: "), answer.err
    assert "shows all" not in answer.err, "that is what --dry-run says"


def test_a_node_that_cannot_start_is_named_with_its_reason(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    [member] = prepare(directory, 1, free_base_port(), random.Random(1))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", member.port))
        taken.listen()
        command = [sys.executable, "-m", "odradek.cli.main", "cluster", "start", str(directory)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("odradek cluster: node-1 ended with status 1: odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:")
    assert "Traceback" not in member.log.read_text()


def test_a_cluster_serves_and_comes_back_with_its_records(tmp_path: Path) -> None:
    base = free_base_port()
    directory = tmp_path / "cluster"
    command = [sys.executable, "-m", "odradek.cli.main", "cluster", "start", str(directory)]
    servers = ",".join(f"127.0.0.1:{base + number}" for number in range(3))
    for life in range(2):
        options = ["--port", str(base)] if life == 0 else []
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                first = process.stdout.readline()
                assert first.startswith("A cluster of 3 nodes is ready"), process.stderr and process.stderr.read()
                if life == 0:
                    with Admin(bootstrap_servers=servers) as admin:
                        # Each node is ready when it knows itself; it hears of the others a moment later.
                        deadline = time.monotonic() + 30
                        while len(admin.describe_cluster().brokers) < 3:
                            assert time.monotonic() < deadline
                    with Producer(bootstrap_servers=servers, acks="all") as producer:
                        assert producer.send("greetings", b"hello").result(60).offset == 0
                else:
                    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
                        consumer.assign([("greetings", 0)])
                        assert next(iter(consumer)).value == b"hello"
            finally:
                status = end(process)
            assert status == 0
    for member in existing_members(directory):
        assert "leaving without its consent" not in member.log.read_text(), "it waited a session for a controller that had ended"
