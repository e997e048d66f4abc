"""How commands end when somebody ends them: Ctrl-C, and a reader that has seen enough. Processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from odradek.client import Admin, Producer
from tests.cli.conftest import Command
from tests.cli.support import running


@pytest.fixture(scope="module")
def endless(bootstrap: str) -> str:
    """A topic with more bytes than a pipe holds."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many("endless", [b"x" * 1000] * 2000)
    return "endless"


def test_ctrl_c_ends_a_consumer_with_130_and_without_a_word(bootstrap: str, endless: str) -> None:
    with running("consume", "-t", endless, "-o", "-1", "-b", bootstrap) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x" * 1000 + b"\n"  # and now it waits for more
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err.strip()) == (130, b"")  # click ends the line that has the ^C


def test_ctrl_c_ends_a_producer_after_what_it_was_given_is_written(bootstrap: str) -> None:
    with (
        running("produce", "-t", "given", "-k", "key", "-b", bootstrap) as process,
        running("consume", "-t", "given", "-c", "1", "-b", bootstrap) as reader,
    ):
        assert process.stdin is not None
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        assert reader.communicate(timeout=30) == (b"a line\n", b"")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err.strip()) == (130, b"")


def test_a_consumer_that_begins_beyond_the_end_waits_for_what_comes(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("there", b"old", partition=1).result(30)
        with running("consume", "-t", "there", "-p", "1", "-o", "99", "-c", "1", "-b", bootstrap) as process:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"odradek consume: there-1 has offsets 0 to ")
            producer.send("there", b"new", partition=1).result(30)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"new\n", b"")


def test_a_reader_that_has_seen_enough_ends_a_consumer_without_a_word(bootstrap: str, endless: str) -> None:
    with running("consume", "-t", endless, "-b", bootstrap) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (1, b"")


def test_a_failure_within_a_start_is_one_line_and_its_status_that_of_the_process(tmp_path: os.PathLike[str]) -> None:
    with running("start", "--data-dir", f"{tmp_path}/data", "--override", "listeners=PLAINTEXT://192.0.2.1:0") as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, b"")
    assert re.fullmatch(rb"odradek start: listener PLAINTEXT: cannot listen on 192\.0\.2\.1:0: [^\n]*\n", err)


def test_a_quiet_start_says_nothing(tmp_path: os.PathLike[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with running("start", "--quiet", "--data-dir", f"{tmp_path}/data", "--override", f"listeners=PLAINTEXT://{address}") as process:
        with Admin(bootstrap_servers=address, default_api_timeout_ms=30_000) as admin:
            admin.list_topics()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")


ENDINGS = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))


@pytest.mark.parametrize(("number", "status"), ENDINGS, ids=lambda each: getattr(each, "name", ""))
def test_a_member_that_is_told_to_end_commits_and_leaves(bootstrap: str, command: Command, number: int, status: int) -> None:
    name = f"told-{number}"
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(name, [b"%d" % each for each in range(10)])
    with running("consume", "-t", name, "-G", name, "-q", "-b", bootstrap) as process:
        assert process.stdout is not None
        assert sorted(int(process.stdout.readline()) for _ in range(10)) == [*range(10)]
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (status, b"")
    assert name not in command("groups", "describe", name, "--members", "-b", bootstrap).out
    assert command("consume", "-t", name, "-G", name, "-q", "-e", "-b", bootstrap) == (0, "", "")


@pytest.mark.parametrize(("number", "status"), ENDINGS, ids=lambda each: getattr(each, "name", ""))
def test_a_producer_that_is_told_to_end_leaves_no_open_transaction(bootstrap: str, command: Command, number: int, status: int) -> None:
    name = f"transaction-{number}"

    def state() -> str:
        found = [line for line in command("transactions", "list", "-b", bootstrap).out.splitlines() if name in line]
        return found[0] if found else ""

    with running("produce", "-t", "given", "--transactional-id", name, "-k", "key", "-q", "-b", bootstrap) as process:
        assert process.stdin is not None
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while "Ongoing" not in state():
            assert time.monotonic() < deadline
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (status, b"")
    assert "Ongoing" not in state()


def test_records_that_standard_output_has_not_taken_are_read_again(bootstrap: str, command: Command) -> None:
    name = "not-taken"
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(name, [b"a", b"b"], partition=0)
    line = f"{sys.executable} -m odradek.cli.main consume -t {name} -G {name} -q -e -b {bootstrap}"
    for redirection, why in ((">&-", "standard output: closed"), ("> /dev/full", "No space left on device")):
        done = subprocess.run(["bash", "-c", f"{line} {redirection}"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert re.fullmatch(f"odradek consume: {why}[^\n]*\n", done.stderr), done.stderr
    assert command("consume", "-t", name, "-G", name, "-q", "-e", "-b", bootstrap) == (0, "a\nb\n", "")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("produce -t given <&-", 0),
        ("topics list >&-", 1),
        ("topics list 2>&-", 0),
        ("topics list <&- >&- 2>&-", 1),
        ("produce -t standing 2>&- <<< one", 0),
        ("produce -t standing 2> /dev/full <<< two", 0),
        ("frob >&- 2>&-", 2),
        ("--help >&-", 1),
    ],
)
def test_closed_standard_streams_are_no_traceback(bootstrap: str, line: str, status: int) -> None:
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": bootstrap}
    words = f"{sys.executable} -m odradek.cli.main {line}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def test_what_was_written_without_a_standard_error_is_there(bootstrap: str, command: Command) -> None:
    environment = {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": bootstrap}
    line = f"{sys.executable} -m odradek.cli.main produce -t without-error 2>&- <<< one"
    subprocess.run(["bash", "-c", line], timeout=60, check=True, env=environment)
    assert command("consume", "-t", "without-error", "-e", "-q", "-b", bootstrap).out == "one\n"
