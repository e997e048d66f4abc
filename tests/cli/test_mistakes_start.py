"""Mistakes in the command lines and the files of `odradek start` and `odradek storage`, and unknown commands.

In `FILES` and in the tables, % stands for a port that is in use.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.storage.disk import OsDisk
from tests.cli.conftest import Command
from tests.cli.mistakes import NODE, Mistake, check, pattern, table

FILES: dict[str, str | bytes] = {
    "node.properties": NODE,
    "empty.properties": "# nothing yet\n",
    "latin.properties": NODE.encode() + b"broker.rack=caf\xe9\n",
    "escape.properties": NODE + "\n# a comment\nbroker.rack=\\u12g4\n",
    "typo.properties": NODE + "log.retention.hourz=1\n",
    "text.properties": NODE + "num.partitions=many\n",
    "small.properties": NODE + "num.partitions=0\n",
    "continued.properties": "controller.quorum.voters=\\\n  here\n" + NODE,
    "twice.properties": NODE + "num.partitions=1\nnum.partitions=-2\n",
    "acls.properties": NODE + "authorizer.class.name=com.example.Authorizer\n",
    "provider.properties": NODE + "ssl.provider=BC\n",
    "vault.properties": NODE + "config.providers=vault\nconfig.providers.vault.class=com.example.Vault\n",
    "secret.properties": NODE
    + "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    + "broker.rack=${file:@/nowhere.properties:rack}\n",
    "policy.properties": NODE.replace("@/data", "@/formatted") + "create.topic.policy.class.name=com.example.Policy\n",
    "zookeeper.properties": "zookeeper.connect=localhost:2181\n" + NODE,
    "nameless.properties": NODE.replace("node.id=1\n", ""),
    "roles.properties": NODE.replace("broker,controller", "borker"),
    "broker.properties": NODE.replace("broker,controller", "broker").replace(",CONTROLLER://127.0.0.1:0", ""),
    "controllerless.properties": NODE.replace(",CONTROLLER://127.0.0.1:0", ""),
    "quorumless.properties": NODE.replace("controller.quorum.bootstrap.servers=127.0.0.1:9093\n", ""),
    "twoServers.properties": NODE.replace("servers=127.0.0.1:9093", "servers=127.0.0.1:9093,127.0.0.1:9193"),
    "twoVoters.properties": NODE + "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9193\n",
    "voters.properties": NODE + "controller.quorum.voters=2@127.0.0.1:9093\n",
    "everywhere.properties": NODE.replace("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://0.0.0.0:0"),
    "advertised.properties": NODE + "advertised.listeners=PLAINTEXT://0.0.0.0:9092\n",
    "strange.properties": NODE + "advertised.listeners=OTHER://localhost:9092\n",
    "taken.properties": NODE.replace("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:%").replace("@/data", "@/formatted"),
    "formatted.properties": NODE.replace("@/data", "@/formatted"),
    "half.properties": NODE.replace("@/data", "@/formatted,@/data"),
    "file.properties": NODE.replace("@/data", "@/file"),
    "foreign.properties": NODE.replace("@/data", "@/foreign"),
    "otherNode.properties": NODE.replace("@/data", "@/otherNode"),
    "otherCluster.properties": NODE.replace("@/data", "@/formatted,@/otherCluster"),
    "zookeeperTimes.properties": NODE.replace("@/data", "@/zookeeperTimes"),
    "file": "x",
    "lines": "k:v\n",
    "big": b"x" * 2_000_000,
    "foreign/holiday.jpg": "x",
    "foreign/letters/to-aunt": "x",
    "formatted/meta.properties": "version=1\ncluster.id=theCluster\nnode.id=1\n",
    "otherNode/meta.properties": "version=1\ncluster.id=theCluster\nnode.id=7\n",
    "otherCluster/meta.properties": "version=1\ncluster.id=another\nnode.id=1\n",
    "zookeeperTimes/meta.properties": "version=0\nbroker.id=1\n",
    "unknownVersion/meta.properties": "version=2\ncluster.id=theCluster\nnode.id=1\n",
}

MISTAKES = table("start") + table("storage")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, taken: int) -> Path:
    """Return a folder with `FILES`."""
    here = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.replace("@/", f"{here}/").replace(":%", f":{taken}").encode()
        path.write_bytes(content)
    return here


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """Yield a port of the loopback interface that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def with_port(text: str, port: int) -> str:
    """Return the text with the port in place of each %."""
    return re.sub(r"(?<=:)%|(?<=--port )%", str(port), text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_mistake_is_reported_in_one_line(mistake: Mistake, folder: Path, taken: int, command: Command) -> None:
    check(Mistake(with_port(mistake.typed, taken), mistake.status, with_port(mistake.answer, taken)), command, folder)
    assert not (folder / "data").exists(), "a failed command has created the data directory"


# -- more than a command line -------------------------------------------------------------------------------------------------------------


def test_a_key_that_stands_twice_is_told_and_the_later_one_counts(folder: Path, command: Command) -> None:
    answer = command("start", f"{folder}/twice.properties")
    assert answer.err.splitlines() == [
        f"{folder}/twice.properties:8: num.partitions is already set in line 7; this line replaces that value",
        f"odradek start: {folder}/twice.properties:8: Invalid value -2 for configuration num.partitions: Value must be at least 1",
    ]
    assert answer.status == 1


def test_a_file_that_is_something_else_is_answered_in_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "server.properties").write_text("the quick fox\n" * 1000)
    answer = command("start", f"{tmp_path}/server.properties")
    assert answer == (1, "", f"odradek start: {tmp_path}/server.properties:1000: Unknown configuration key the\n")
    (tmp_path / "server.properties").write_text(NODE + "num.partitions=1\n" * 9 + "log.dir=/a\n" * 2 + "broker.id=9\n")
    first, last = command("start", f"{tmp_path}/server.properties").err.splitlines()
    assert (
        first
        == f"{tmp_path}/server.properties:8: num.partitions is already set in line 7; this line replaces that value (8 more repeated lines)"
    )
    assert last == f"odradek start: {tmp_path}/server.properties:18: broker.id must be the same as node.id where both are set"


def test_a_directory_in_use_is_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    lock = OsDisk().lock(f"{tmp_path}/.lock")
    try:
        answer = command("start", "--data-dir", str(tmp_path), "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    finally:
        lock.release()
    assert answer == (
        1,
        "",
        f"odradek start: Failed to acquire lock on file .lock in {tmp_path}: another broker is using this directory; "
        "choose another directory with --data-dir DIRECTORY\n",
    )


def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: OsDisk, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(OsDisk, "makedirs", refuse)
    answer = command("start", "--data-dir", f"{tmp_path}/data")
    assert answer == (1, "", f"odradek start: {tmp_path}/data: Permission denied; choose another directory with --data-dir DIRECTORY\n")
    (tmp_path / "node.properties").write_text(NODE.replace("@", str(tmp_path)))
    answer = command("storage", "format", "-c", f"{tmp_path}/node.properties", "-t", "x", "-s")
    assert answer == (1, "", f"odradek storage: {tmp_path}/data: Permission denied\n")


def test_a_port_for_root_only_is_named(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    monkeypatch.setattr("odradek.server.start.process.new_event_loop", asyncio.new_event_loop)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    answer = command("start", "--data-dir", str(tmp_path), "--override", "listeners=PLAINTEXT://127.0.0.1:80")
    assert answer == (
        1,
        "",
        "odradek start: listener PLAINTEXT: cannot listen on 127.0.0.1:80: Permission denied; ports below 1024 are reserved for root; "
        "choose a higher one with --override listeners=PLAINTEXT://localhost:PORT\n",
    )


def test_what_a_log_directory_may_hold_before_it_is_formatted(tmp_path: Path, command: Command) -> None:
    """What a broken format, or an operator who removed meta.properties to begin anew, leaves; and what file systems put there."""
    (tmp_path / "node.properties").write_text(NODE.replace("@", str(tmp_path)))
    data = tmp_path / "data"
    for name in ("lost+found", "__cluster_metadata-0", "flights-12", "flights-0.0123456789abcdef0123456789abcdef-delete"):
        (data / name).mkdir(parents=True)
    for name in (".DS_Store", ".lock", "bootstrap.checkpoint", "meta.properties.tmp", "recovery-point-offset-checkpoint"):
        (data / name).touch()
    format_it = ("storage", "format", "-c", f"{tmp_path}/node.properties", "-t", "theCluster", "--standalone")
    (data / "diary").touch()
    refused = command(*format_it)
    assert (refused.status, "it contains diary;" in refused.err) == (1, True)
    assert not (data / "meta.properties").exists()
    (data / "diary").unlink()
    done = command(*format_it)
    assert (done.status, done.err) == (0, "")
    assert (
        done.out.splitlines()[0]
        == "Bootstrap metadata: metadata.version=30, eligible.leader.replicas.version=1, group.version=1, transaction.version=2."
    )


def test_storage_info_tells_of_problems_with_status_1(folder: Path, command: Command) -> None:
    answer = command("storage", "info", "-c", f"{folder}/zookeeperTimes.properties")
    assert (answer.status, answer.err) == (1, "")
    assert answer.out.splitlines()[-3:] == [
        "Found problem:",
        f"  {folder}/zookeeperTimes/meta.properties: cluster.id is missing",
        "",
    ]
    answer = command("storage", "info", "-c", f"{folder}/formatted.properties")
    assert (answer.status, answer.err) == (0, "")


REFUSED = 1
"""A port of the loopback interface on which nothing listens."""


@pytest.mark.parametrize(
    ("quorum", "options", "said"),
    [
        (
            f"controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:{REFUSED}",
            (),
            f"a leader of the metadata quorum (voters: 1, 2); node 2 at 127.0.0.1:{REFUSED}: Connection refused",
        ),
        (
            f"controller.quorum.bootstrap.servers=127.0.0.1:{REFUSED}",
            ("--no-initial-controllers",),
            f"a leader of the metadata quorum (voters: unknown); 127.0.0.1:{REFUSED}: Connection refused",
        ),
        (
            f"controller.quorum.bootstrap.servers=127.0.0.1:{REFUSED}",
            ("-I", "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:2:MvDxzVmcRsaTz33bUuRU6A"),
            "a leader of the metadata quorum (voters: 1, 2)<*>; node 2 at 127.0.0.1:2: Connection refused<*>",
        ),
    ],
)
def test_a_quorum_that_is_not_there_is_named(quorum: str, options: tuple[str, ...], said: str, tmp_path: Path, command: Command) -> None:
    file = tmp_path / "server.properties"
    file.write_text(NODE.replace("@", str(tmp_path)).replace("controller.quorum.bootstrap.servers=127.0.0.1:9093", quorum))
    assert command("storage", "format", "-c", str(file), "-t", "x", *options).status == 0
    hurry = ("--override", "server.max.startup.time.ms=2000", "--override", "controller.quorum.election.timeout.ms=20")
    answer = command("start", str(file), *hurry)
    assert (answer.status, answer.out) == (1, "")
    assert "Traceback" not in answer.err
    expected = pattern(f"odradek start: not started within server.max.startup.time.ms=2000: waiting for {said}")
    assert re.fullmatch(expected, answer.err.splitlines()[-1] + "\n"), answer.err
