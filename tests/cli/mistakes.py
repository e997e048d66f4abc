"""Command lines with a mistake, the exit status, and the line that each prints on standard error.

`tables` has a file for each command. A row has two lines: `$` and the command line without `odradek`; the exit status and the answer.
In both, @ at the beginning of a path stands for a folder of the test, and <*> in an answer for any text. Each command line is in one row.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.cli.conftest import Command

TABLES = Path(__file__).parent / "tables"

NODE = (
    "process.roles=broker,controller\n"
    "node.id=1\n"
    "controller.listener.names=CONTROLLER\n"
    "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
    "log.dirs=@/data\n"
)
"""A server.properties of six lines."""

AWAY = ("-X", "default.api.timeout.ms=100", "-X", "request.timeout.ms=100")
"""Short timeouts for brokers that do not respond."""


class Mistake(NamedTuple):
    """Command line without `odradek`, its exit status, and the line on standard error."""

    typed: str
    status: int
    answer: str


def table(command: str) -> list[Mistake]:
    """Return the rows of the command's table."""
    lines = [line for line in (TABLES / f"{command}.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(line.startswith("$ ") for line in lines[::2])
    answers = (line.split(" ", 1) for line in lines[1::2])
    return [Mistake(typed[2:], int(status), answer) for typed, (status, answer) in zip(lines[::2], answers, strict=True)]


def pattern(answer: str) -> str:
    """Return the regular expression for the whole of standard error."""
    return ".*".join(re.escape(part) for part in answer.split("<*>")) + "\n"


def spelled(text: str, folder: Path) -> str:
    """Return the text with the folder in place of each @ at the beginning of a path."""
    return re.sub(r"(?<![\w}])@(?=[/ :;,]|$)", str(folder), text)


def check(mistake: Mistake, command: Command, folder: Path) -> None:
    """Run the command line, and compare the exit status and the output."""
    answer = command(*shlex.split(spelled(mistake.typed, folder)))
    several = re.DOTALL if mistake.answer.startswith("Usage: ") else 0
    assert re.fullmatch(pattern(spelled(mistake.answer, folder)), answer.err, several), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")
