"""Command lines with a mistake, the exit status, and the line that each prints on standard error.

In a table, @ at the beginning of a path stands for a folder of the test, and <*> in an answer for any text.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.cli.conftest import Command

NODE = (
    "process.roles=broker,controller\n"
    "node.id=1\n"
    "controller.listener.names=CONTROLLER\n"
    "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
    "log.dirs=@/data\n"
)
"""A server.properties of six lines."""

SEE = "see `odradek {} --help`"
AWAY = ("-X", "default.api.timeout.ms=100", "-X", "request.timeout.ms=100")
"""Short timeouts for brokers that do not respond."""


class Mistake(NamedTuple):
    """Command line without `odradek`, its exit status, and the line on standard error."""

    typed: str
    status: int
    answer: str


def pattern(answer: str) -> str:
    """Return the regular expression for the whole of standard error."""
    return ".*".join(re.escape(part) for part in answer.split("<*>")) + "\n"


def spelled(text: str, folder: Path) -> str:
    """Return the text with the folder in place of each @ at the beginning of a path."""
    return re.sub(r"(?<![\w}])@(?=[/ :;,]|$)", str(folder), text)


def check(mistake: Mistake, command: Command, folder: Path) -> None:
    """Run the command line, and compare the exit status and the output."""
    answer = command(*shlex.split(spelled(mistake.typed, folder)))
    assert re.fullmatch(pattern(spelled(mistake.answer, folder)), answer.err), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")
