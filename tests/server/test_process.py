"""The command, as a process: what it prints, how signals end it, what it says when it cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.base.ids import TopicPartition
from odradek.cli.main import COMMANDS, usage
from odradek.cli.node.start import UsageError, default_data_dir, load, parse
from odradek.client import Consumer, Producer
from tests.cli.support import free_base_port

LISTENERS = "listeners=PLAINTEXT://localhost:0"


def odradek(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


ODRADEK = ("-m", "odradek.cli.main")
IMPATIENT = """
import os, signal, sys
from odradek.cli.main import main
status = main(sys.argv[1:])
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    os.kill(os.getpid(), number)
sys.exit(status)
"""
"""`odradek`, which gets every signal that asks it to end once more when it has ended in order and its process has not."""


@contextmanager
def started(*arguments: str, program: Sequence[str] = ODRADEK, **environment: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A broker, or a cluster, that has said it is ready, and the lines it said."""
    command = arguments if arguments[:1] == ("cluster",) else ("start", *arguments)
    process = subprocess.Popen(
        [sys.executable, *program, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not lines or "try" not in lines[-1]:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            lines.append(line.rstrip())
        yield process, lines
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_a_start_without_arguments_formats_and_names_what_it_did(tmp_path: Path) -> None:
    data = tmp_path / "odradek"
    with started("--override", LISTENERS, XDG_DATA_HOME=str(tmp_path)) as (process, lines):
        assert lines[0].startswith("Odradek is ready (node 1")
        port = lines[1].rpartition(":")[2]
        assert lines[1].strip() == f"listener  PLAINTEXT://localhost:{port}"
        assert f"data      {data}" in lines[3]
        assert f"localhost:{port} " in lines[4]
        assert (data / "meta.properties").exists()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert (data / ".kafka_cleanshutdown").exists()


def test_sigint_ends_a_broker_that_a_shell_started_in_the_background_and_sighup_one_that_nohup_started_does_not(tmp_path: Path) -> None:
    ignoring = "import signal, sys; [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGHUP)]\n" + IMPATIENT
    with started("--data-dir", f"{tmp_path}/data", "--override", LISTENERS, program=("-c", ignoring)) as (process, lines):
        process.send_signal(signal.SIGHUP)
        with Producer(bootstrap_servers=lines[1].rpartition("//")[2]) as producer:
            assert producer.send("orders", b"kept").result(30).offset == 0
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


@pytest.mark.parametrize("what", ["broker", "cluster"])
def test_signals_that_come_when_all_has_ended_in_order_do_not_change_the_exit_status(what: str, tmp_path: Path) -> None:
    cluster = ("cluster", "start", f"{tmp_path}/cluster", "--nodes", "1", "--port", str(free_base_port()))
    arguments = cluster if what == "cluster" else ("--data-dir", f"{tmp_path}/data", "--override", LISTENERS)
    with started(*arguments, program=("-c", IMPATIENT)) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_it_comes_back_after_kill_with_what_was_acknowledged(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path / "data"), "--override", LISTENERS)
    with started(*arguments) as (process, lines):
        with Producer(bootstrap_servers=lines[1].rpartition("//")[2]) as producer:
            assert producer.send("orders", b"kept").result(30).offset == 0
        process.kill()
        process.wait()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with started(*arguments) as (process, lines):
        bootstrap = lines[1].rpartition("//")[2]
        with Producer(bootstrap_servers=bootstrap) as producer:
            assert producer.send("orders", b"next").result(30).offset == 1
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            values: list[bytes | None] = []
            while len(values) < 2:
                values += [record.value for record in consumer.poll(30)]
        assert values == [b"kept", b"next"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_a_second_broker_on_the_same_directory_refuses(tmp_path: Path) -> None:
    arguments = ("--data-dir", str(tmp_path), "--override", LISTENERS)
    with started(*arguments):
        second = odradek("start", *arguments)
        assert second.returncode == 1
        assert ".lock" in second.stderr
        assert len(second.stderr.splitlines()) == 1


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with started("--data-dir", str(tmp_path / "one"), "--override", LISTENERS) as (_, lines):
        port = lines[1].rpartition(":")[2]
        second = odradek("start", "--data-dir", str(tmp_path / "two"), "--override", f"listeners=PLAINTEXT://localhost:{port}")
        assert second.returncode == 1
        assert f"cannot listen on localhost:{port}" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--override", "num.partitions=many"], 1, "num.partitions"),
        (["--frobnicate"], 2, "--frobnicate"),
        (["/nowhere/server.properties"], 1, "/nowhere/server.properties"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(arguments: list[str], status: int, said: str, tmp_path: Path) -> None:
    """tests/cli/test_mistakes_start.py has the rest, within one process."""
    done = odradek("start", *arguments, XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == status
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_an_unformatted_directory_of_a_properties_file_is_not_formatted(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\n"
    )
    done = odradek("start", str(file))
    assert done.returncode == 1
    assert "odradek storage format" in done.stderr


def test_storage_commands(tmp_path: Path) -> None:
    cluster = odradek("storage", "random-uuid").stdout.strip()
    assert len(cluster) == 22
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    assert odradek("storage", "info", "-c", str(file)).returncode == 1
    refused = odradek("storage", "format", "-c", str(file), "-t", cluster)
    assert refused.returncode == 1
    assert "--standalone" in refused.stderr
    assert odradek("storage", "format", "-c", str(file), "-t", cluster, "--standalone").returncode == 0
    again = odradek("storage", "format", "-c", str(file), "-t", cluster, "--standalone")
    assert again.returncode == 1
    assert "already formatted" in again.stderr
    info = odradek("storage", "info", "-c", str(file))
    assert info.returncode == 0
    assert f"cluster.id={cluster}" in info.stdout
    assert odradek("storage", "format", "-c", str(tmp_path / "missing"), "-t", cluster).returncode == 1


def test_help_and_version() -> None:
    assert odradek("--version").stdout.startswith("odradek ")
    assert odradek("--help").stdout.strip() == usage()
    assert all(name in usage() for name in COMMANDS)
    assert "--override" in odradek("start", "--help").stdout
    assert odradek("nonsense").returncode == 2
    assert odradek().returncode == 2


def test_the_command_line_of_start() -> None:
    options = parse(["server.properties", "--override", "a=b=c", "--override=d = e"])
    assert options == ("server.properties", {"a": "b=c", "d": "e"}, None, False, None, None)
    assert parse(["--data-dir=/x", "--quiet"]) == (None, {}, "/x", True, None, None)
    assert parse(["--port", "1", "--host=[::1]"]) == (None, {}, None, False, "::1", 1)
    for wrong in (["a", "b"], ["--override"], ["--override", "=x"], ["file", "--data-dir", "/x"]):
        with pytest.raises(UsageError):
            parse(wrong)


def test_the_default_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert default_data_dir() == "/somewhere/odradek"
    config = load(parse([]))
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"]
    assert config.log_dirs == ["/somewhere/odradek"]
    alone = load(parse(["--override", "listeners=PLAINTEXT://:9092"]))
    assert [endpoint.listener for endpoint in alone.listeners] == ["PLAINTEXT", "CONTROLLER"]


def test_starting_loads_no_library_of_the_command_line() -> None:
    code = (
        "import sys, odradek.cli.node.start, odradek.server.start.process, odradek.server.start.broker\n"
        "print([name for name in ('click', 'rich', 'argparse', 'pyarrow', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
