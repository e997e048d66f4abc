"""What a command says of addresses that it cannot reach, and when it says nothing."""

from __future__ import annotations

import threading

import pytest

from odradek.cli.shared.unreachable import Reporter


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> list[threading.Timer]:
    """The timers that run, which the test fires."""
    running: list[threading.Timer] = []
    monkeypatch.setattr(threading.Timer, "start", lambda timer: running.append(timer))  # noqa: PLW0108 - a method needs a function
    monkeypatch.setattr(threading.Timer, "cancel", lambda timer: running.remove(timer) if timer in running else None)
    return running


def fire(running: list[threading.Timer]) -> None:
    for timer in list(running):
        running.remove(timer)
        timer.function(*timer.args)


def test_an_address_is_named_once_with_the_reason_and_where_it_comes_from(
    fired: list[threading.Timer], capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = Reporter("odradek produce")
    for _ in range(3):
        reporter.dialling(1, "[::1]:9")
        reporter.failed(1, "[::1]:9", "cannot connect to [::1]:9: Connection refused")
        assert len(fired) == 1
    fire(fired)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("odradek produce: cannot connect to [::1]:9: Connection refused; broker 1 advertises this address")
    reporter.dialling(1, "[::1]:9")
    fire(fired)
    assert capsys.readouterr().err == ""


def test_what_does_not_answer_is_named_too(fired: list[threading.Timer], capsys: pytest.CaptureFixture[str]) -> None:
    Reporter("odradek consume").dialling(-1, "a:9")
    fire(fired)
    assert "a:9 has not responded for 7 s; retrying" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["connected", "given_up", "close"])
def test_nothing_is_said_of_what_is_reached_or_not_needed(
    end: str, fired: list[threading.Timer], capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = Reporter("odradek topics")
    reporter.dialling(1, "a:9")
    reporter.failed(1, "a:9", "refused")
    reporter.close() if end == "close" else getattr(reporter, end)(1)
    assert fired == []
    assert capsys.readouterr().err == ""
