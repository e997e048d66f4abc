"""A broker for the commands that talk to one, and the command line as a function."""

from __future__ import annotations

import gc
import io
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.cli import start
from odradek.cli.main import main
from odradek.client import Admin, NewTopic
from odradek.testing.embedded import EmbeddedBroker
from tests.forking import Forks


class Answer(NamedTuple):
    """What a command line came to."""

    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A broker whose topics have two partitions by default, with `there` (two), `only`, `given` and `dotted.name` (one).

    Nobody writes to `dotted.name`. Records are kept whatever their timestamps are: the broker lives long enough to look.
    """
    soon = {"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "100"}
    with EmbeddedBroker({"num.partitions": "2", "group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1", **soon}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("there", 2, 1), *[NewTopic(name, 1, 1) for name in ("only", "given", "dotted.name")]])
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Commands that are forked: like those of processes of their own, but for how they start."""
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(autouse=True)
def levels_of_loggers() -> Iterator[None]:
    """Levels that a command gives to the loggers of an embedded broker are those of the whole process."""
    before = {name: logging.getLogger(name).level for name in ("odradek", *_loggers())}
    yield
    for name in ("odradek", *_loggers()):
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _loggers() -> list[str]:
    return [name for name in logging.root.manager.loggerDict if name.startswith("odradek.")]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Command]:
    """Runs `odradek` in this process with some standard input, and without the profiles of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/config")
    for name in ("ODRADEK_PROFILE", "ODRADEK_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)

    def started(_: object) -> None:
        raise AssertionError("a broker has been started that should have refused; it would run until a signal")

    monkeypatch.setattr(start, "announce", started)

    def run(*arguments: str, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = main(list(arguments))
        return Answer(status, *capsys.readouterr())

    yield run
    gc.enable()  # `odradek start` turns it off
