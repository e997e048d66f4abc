"""Tests that a forked command behaves like a command in a separate process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing.kit.embedded import EmbeddedBroker
from tests.forking import Forks, own_process


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["forked", "own process"])
def odradek(request: pytest.FixtureRequest, forks: Forks, tmp_path: Path) -> Path:
    """Return a script that runs `odradek`, forked or in a separate process."""
    script = tmp_path / "odradek"
    script.write_text(f"#!/bin/sh\n{forks.line() if request.param == 'forked' else own_process()}\n")
    script.chmod(0o755)
    return script


def run(odradek: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", line.replace("odradek", str(odradek))]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=odradek.parent, env={**os.environ, **environment, "COLUMNS": "80"}
    )


def test_it_prints_and_ends_as_it_does(odradek: Path, bootstrap: str) -> None:
    topic = odradek.parent.name
    done = run(
        odradek,
        f"printf 'one\\ntwo\\n' | odradek produce -q -t {topic}; odradek consume -q -e -t {topic} | sort",
        ODRADEK_BOOTSTRAP_SERVER=bootstrap,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo\n", "")
    done = run(odradek, "odradek topics list -b 127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("odradek topics: BROKER_NOT_AVAILABLE: ")
    assert run(odradek, "odradek frob 2>&1").returncode == 2


def test_it_runs_in_the_folder_with_the_environment_and_the_mask(odradek: Path, bootstrap: str) -> None:
    (odradek.parent / "here.properties").write_text(f"bootstrap.servers={bootstrap}\n")
    line = "umask 027; odradek topics list -F here.properties > /dev/null && odradek profile create there -X bootstrap.servers=there:1"
    done = run(odradek, line, XDG_CONFIG_HOME=f"{odradek.parent}/config")
    assert (done.returncode, done.stderr) == (0, "")
    made = odradek.parent / "config" / "odradek" / "profiles"
    assert (made / "there.properties").read_text() == "bootstrap.servers=there:1\n"
    assert made.stat().st_mode & 0o027 == 0


def test_signals_reach_it(odradek: Path, bootstrap: str) -> None:
    words = [str(odradek), "consume", "-t", "waited-for", "-b", bootstrap]
    for number, status in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        with subprocess.Popen([str(odradek), "produce", "-t", "waited-for", "-b", bootstrap], stdin=subprocess.PIPE) as producer:
            producer.communicate(b"a\n")
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"a\n"
            process.send_signal(number)
            assert process.wait() == status
            assert process.stdout.read().strip(b"a\n") == b""


def test_a_pipe_that_is_closed_ends_it(odradek: Path, bootstrap: str) -> None:
    run(odradek, "yes | head -30000 | odradek produce -q -t many", ODRADEK_BOOTSTRAP_SERVER=bootstrap)
    done = run(odradek, "odradek consume -t many -q | head -1; echo ${PIPESTATUS[0]}", ODRADEK_BOOTSTRAP_SERVER=bootstrap)
    assert (done.stdout, done.stderr) == ("y\n1\n", "")


def test_a_fork_has_random_numbers_of_its_own(odradek: Path, forks: Forks) -> None:
    made = {run(odradek, "odradek storage random-uuid").stdout for _ in range(3)}
    assert len(made) == 3
    assert all(re.fullmatch(r"[\w-]{22}\n", each) for each in made)


@pytest.mark.parametrize("told", [b"", (1 << 22).to_bytes(4, "big")], ids=["before the pid", "before the status"])
def test_a_client_whose_server_dies_fails(told: bytes, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "server"))
        server.listen()
        words = [sys.executable, "-I", "-S", str(Path(__file__).parent / "client.py"), str(tmp_path / "server"), "topics"]
        with subprocess.Popen(words, start_new_session=True) as client:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as request:
                request.read(int.from_bytes(request.read(4), "big"))
                connection.sendall(told)
            assert client.wait() == 70
