"""Fixtures for tests of commands: a broker, and the command line as a function."""

from __future__ import annotations

import gc
import io
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.cli.main import main
from odradek.cli.node import start
from odradek.client import Admin, NewTopic
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.forking import Forks


class Answer(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Yield the bootstrap servers of a broker with topics `there` (2 partitions), `only`, `given` and `dotted.name` (1 partition each).

    New topics have two partitions by default. No test writes to `dotted.name`. The broker keeps records whatever their timestamps: it lives
    long enough for a retention check.
    """
    soon = {"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "100"}
    with EmbeddedBroker({"num.partitions": "2", "group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1", **soon}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("there", 2, 1), *[NewTopic(name, 1, 1) for name in ("only", "given", "dotted.name")]])
        yield broker.bootstrap_servers


@pytest.fixture
def topic(bootstrap: str, own_name: str) -> str:
    """Return the name of a new topic with one partition."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(own_name, 1, 1)])
    return own_name


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Yield a server of forked commands, which behave like commands in separate processes except for their start."""
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def levels_of_loggers() -> Iterator[None]:
    """Restore the levels of loggers after each test: a command sets levels for an embedded broker, and they hold for the whole process."""
    before = {name: logging.getLogger(name).level for name in ("odradek", *_loggers())}
    yield
    for name in ("odradek", *_loggers()):
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _loggers() -> list[str]:
    return [name for name in logging.root.manager.loggerDict if name.startswith("odradek.")]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """Return a function that runs `odradek` in this process with a given standard input, without the profiles of the user who runs the
    tests.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/config")
    for name in ("ODRADEK_PROFILE", "ODRADEK_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)

    def started(_: object) -> None:
        raise AssertionError("a broker has been started that should have refused; it would run until a signal")

    monkeypatch.setattr(start, "announce", started)

    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def run(*arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = main(list(arguments))
        return Answer(status, *capsys.readouterr())

    yield run
    assert not [number for number, before in signals.items() if signal.getsignal(number) is signal.SIG_IGN is not before], (
        "signals are ignored"
    )
    for number, before in signals.items():
        signal.signal(number, before)
    gc.enable()  # `odradek start` turns it off
