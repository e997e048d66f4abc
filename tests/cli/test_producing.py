"""`odradek produce`: at a rate, in transactions, and what somebody at a terminal sees of it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.shared.progress import Meter
from odradek.cli.shared.send_rate import Pace
from tests.cli.conftest import Command
from tests.cli.support import running


def committed(command: Command, topic: str, bootstrap: str) -> list[str]:
    return command("consume", "-t", topic, "-e", "--isolation-level", "read_committed", "-b", bootstrap).out.split()


# -- a rate -------------------------------------------------------------------------------------------------------------------------------


def paced(rate: float) -> Pace:
    return Pace(rate, catch_up_s=0.05)


def sent_at(pace: Pace, count: int, slow_by: Iterator[float]) -> list[float]:
    """When records go out whose sleeps each last some time too long."""
    now, times = 100.0, []
    for number in range(count):
        pause = pace.wait_s(number, now)
        now += pause + next(slow_by) if pause else 0.0
        times.append(now)
    return times


def test_records_go_out_evenly() -> None:
    times = sent_at(paced(4), 9, iter([0.0] * 9))
    assert times == pytest.approx([100 + number / 4 for number in range(9)])


def test_sleeps_that_last_too_long_do_not_make_it_slower() -> None:
    times = sent_at(paced(1000), 10_001, iter([0.004] * 10_001))
    assert times[-1] - times[0] == pytest.approx(10.0, abs=0.02)


def test_a_stall_is_not_followed_by_a_burst() -> None:
    pace = paced(10)
    assert [pace.wait_s(0, 0.0), pace.wait_s(1, 0.0)] == pytest.approx([0.0, 0.1])
    stalled = 60.0
    assert pace.wait_s(2, stalled) == 0.0
    assert pace.wait_s(3, stalled) == pytest.approx(0.05), "a twentieth of a second is made up for, and no more"
    assert pace.wait_s(4, stalled) == pytest.approx(0.15)


@given(st.floats(0.1, 10_000), st.lists(st.floats(0, 2), min_size=2, max_size=200))
def test_no_stretch_of_time_has_more_than_its_share(rate: float, delays: list[float]) -> None:
    times = sent_at(paced(rate), len(delays), iter(delays))
    for first in range(len(times)):
        for last in range(first + 1, len(times)):
            # One more: that which has slept through the stall itself.
            assert last - first <= (times[last] - times[first] + 0.05) * rate + 1 + 1e-3


def test_a_rate_holds_for_every_form_of_input(bootstrap: str, topic: str, command: Command) -> None:
    for options, stdin in (((), b"a\n" * 6), (("-J",), b'{"payload": "a"}\n' * 6), (("--console",), b"a\n" * 6)):
        start = time.monotonic()
        assert command("produce", "-t", topic, "--rate", "20", *options, "-b", bootstrap, stdin=stdin) == (0, "", "")
        assert time.monotonic() - start >= 5 / 20 - 0.05
    assert len(command("consume", "-t", topic, "-e", "-b", bootstrap).out.split()) == 18


def test_lines_of_a_slow_writer_are_written_as_they_come(bootstrap: str, topic: str) -> None:
    with (
        running("produce", "-t", topic, "-b", bootstrap) as process,
        running("consume", "-t", topic, "-c", "1", "-b", bootstrap) as reader,
    ):
        assert process.stdin is not None
        process.stdin.write(b"a line\nand half of one")
        process.stdin.flush()
        assert reader.communicate(timeout=30) == (b"a line\n", b"")
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")


# -- transactions -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("-k", "key"), ("-J",), ("--sync",)])
def test_a_transaction_ends_after_so_many_records(options: tuple[str, ...], bootstrap: str, topic: str, command: Command) -> None:
    lines = [b'{"payload": "%d"}' % number if "-J" in options else b"%d" % number for number in range(7)]
    lines.append(b"x" * 2_000_000 if "-J" not in options else b'{"payload": "%s"}' % (b"x" * 2_000_000))
    typed = ("produce", "-t", topic, "--transactional-id", topic, "--transaction-size", "3", *options, "-b", bootstrap)
    answer = command(*typed, stdin=b"\n".join(lines))
    assert answer.status == 1
    assert answer.err.splitlines()[0] == (
        "odradek produce: committed 2 transactions with the first 6 records; the later records were aborted"
    )
    assert answer.err.splitlines()[1].startswith("odradek produce: MESSAGE_TOO_LARGE")
    assert committed(command, topic, bootstrap) == ["0", "1", "2", "3", "4", "5"]
    assert command(*typed, stdin=b"\n".join(lines[:6])) == (0, "", "")
    assert len(committed(command, topic, bootstrap)) == 12


def test_transactions_do_not_end_with_files(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 5)):
        (tmp_path / name).write_text("".join(f"{name}{number}\n" for number in range(count)))
    (tmp_path / "big").write_bytes(b"x" * 2_000_000)
    files = [word for name in ("a", "b", "big") for word in ("-l", f"{tmp_path}/{name}")]
    typed = ("produce", "-t", topic, "--transactional-id", topic, "--transaction-size", "3", *files, "-b", bootstrap)
    assert command(*typed).status == 1
    assert committed(command, topic, bootstrap) == ["a0", "a1", "b0", "b1", "b2", "b3"]


def test_without_a_size_all_records_are_one_transaction(bootstrap: str, topic: str, command: Command) -> None:
    typed = ("produce", "-t", topic, "--transactional-id", topic, "-J", "-b", bootstrap)
    answer = command(*typed, stdin=b'{"payload": "a"}\nnonsense\n')
    assert (answer.status, len(answer.err.splitlines())) == (1, 1)
    assert committed(command, topic, bootstrap) == []
    assert command(*typed, stdin=b'{"payload": "a"}\n') == (0, "", "")
    assert committed(command, topic, bootstrap) == ["a"]


def test_ctrl_c_aborts_a_transaction(bootstrap: str, topic: str, command: Command) -> None:
    """At once: whoever reads committed records does not have to wait until the transaction times out."""
    typed = ("produce", "-t", topic, "--transactional-id", topic, "--transaction-size", "2", "-b", bootstrap)
    with (
        running(*typed) as process,
        running("consume", "-t", topic, "-c", "3", "-X", "isolation.level=read_uncommitted", "-b", bootstrap) as reader,
    ):
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()
        assert reader.communicate(timeout=30) == (b"a\nb\nc\n", b"")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == b"odradek produce: committed 1 transaction with the first 2 records; the later records were aborted"
    assert command("produce", "-t", topic, "-b", bootstrap, stdin=b"d\n").status == 0
    assert committed(command, topic, bootstrap) == ["a", "b", "d"], "the end that is stable lies behind the aborted one"


# -- somebody at a terminal ---------------------------------------------------------------------------------------------------------------


@contextmanager
def at_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose standard error is a terminal, and that terminal."""
    terminal, stderr = pty.openpty()
    words = [sys.executable, "-m", "odradek.cli.main", *arguments]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, "TERM": "xterm"})
    os.close(stderr)
    try:
        yield process, terminal
    finally:
        process.kill()
        process.communicate()
        os.close(terminal)


def shown(terminal: int) -> str:
    text = b""
    while True:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            return text.decode()
        if not block:
            return text.decode()
        text += block


def test_a_person_sees_how_far_it_is_and_what_it_came_to(bootstrap: str, topic: str) -> None:
    with at_a_terminal("produce", "-t", topic, "--rate", "10", "-b", bootstrap) as (process, terminal):
        assert process.stdin is not None
        process.stdin.write(b"a\n" * 16)
        process.stdin.close()
        process.stdin = None
        text = shown(terminal)
        process.wait(timeout=30)
    assert "records, " in text
    assert text.splitlines()[-1].lstrip("\x1b[2K\r").endswith("a second)")
    assert "% 16 records in " in text


@pytest.mark.parametrize("options", [("-q",), ()])
def test_what_is_quick_or_quiet_has_no_progress(options: tuple[str, ...], bootstrap: str, topic: str) -> None:
    with at_a_terminal("produce", "-t", topic, *options, "-b", bootstrap) as (process, terminal):
        process.communicate(b"a\n", timeout=30)
        text = shown(terminal)
    assert text == "" if options else text.startswith("% 1 record in ")


def test_a_person_who_writes_records_to_a_file_sees_how_far_it_is(bootstrap: str, topic: str, command: Command) -> None:
    with at_a_terminal("consume", "-t", topic, "-c", "16", "-b", bootstrap) as (process, terminal):
        assert process.stdout is not None
        assert command("produce", "-t", topic, "-b", bootstrap, stdin=b"a\n").status == 0
        assert process.stdout.readline() == b"a\n"
        assert command("produce", "-t", topic, "--rate", "10", "-b", bootstrap, stdin=b"a\n" * 15).status == 0
        text = shown(terminal)
        out, _ = process.communicate(timeout=30)
    assert out == b"a\n" * 15
    assert " records, " in text


class Terminal:
    def isatty(self) -> bool:
        return True


def test_progress_waits_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    now, lines = [5.0], []
    meter = Meter(clock=lambda: now[0])
    monkeypatch.setattr(meter, "show", lambda: lines.append(meter.summary()))
    for moment in (5.9, 6.0, 6.05, 6.09, 6.11, 7.0):
        now[0] = moment
        meter.count(10)
    assert lines == ["20 records in 1.0 s (20 a second)", "50 records in 1.1 s (45 a second)", "60 records in 2.0 s (30 a second)"]


def test_lines_with_and_without_keys(bootstrap: str, command: Command) -> None:
    at = ("-b", bootstrap)
    assert command("produce", "-t", "keyed", "-p", "0", "-K", ":", "-Z", *at, stdin=b"k:v:w\nno key\n:empty key\ngone:\n").status == 0
    shown = command("consume", "-t", "keyed", "-e", "-f", "%K %k|%S %s\\n", *at)
    assert shown == (0, "1 k|3 v:w\n-1 |6 no key\n-1 |9 empty key\n4 gone|-1 \n", "")
