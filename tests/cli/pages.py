"""Pages that show a console: what they show is what the commands print.

A page's ```console blocks are one session, from top to bottom, against one fresh broker: lines that begin with `$ ` are typed, the others
are printed, errors included. `python -m tests.cli.pages docs/cli/NAME.md...` writes what is printed today into pages.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from odradek.testing.kit.embedded import EmbeddedBroker
from tests.forking import Forks, own_process

FOLDER = Path(__file__).parents[2] / "docs" / "cli"
BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)
_MARK = "--- end of a command ---"
_SAME = (
    # First, as a part of one may look like an id.
    (re.compile(r"[\w+/]{86}=="), "(hmac)"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "(id)"),
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{22}(?![\w-])"), "(id)"),
    (re.compile(r"\b1\d{12}\b"), "(ms)"),
    (re.compile(r"(?<=Ongoing) +(\d+) +\(ms\) +\d+"), r" \1 (ms) (since)"),
    (re.compile(r"\b(localhost|127\.0\.0\.1):\d+"), "(broker)"),
    (re.compile(r"(?<=127\.0\.0\.1) +\d+"), " (port)"),
    (re.compile(r"(?<=records sent, )\d.*|(?<=^Avg latency: ).*|(?<=^Percentiles: ).*|(?<=^0\t)[\d.]+$", re.MULTILINE), "(figures)"),
    (re.compile(r'(?<="avg_throughput":)[\d.]+'), "(figures)"),
    (re.compile(r"^\d{4}(-\d\d){2} \d\d(:\d\d){2}:\d{3}[, ].*", re.MULTILINE), "(figures)"),
    (re.compile(r"^((?:all|steady)? +\d+)(?: +\d+\.\d+){4,}$", re.MULTILINE), r"\1 (figures)"),
    (re.compile(r"(?<=[\w\]})])  +|^ +"), " "),
)
"""What is another each time."""


def settings_of(name: str) -> dict[str, str]:
    """Of the broker that a page is about."""
    return {**BROKER, **GUARDED} if name == "acls" else BROKER


def commands(text: str) -> list[str]:
    """What a page types."""
    return [line.removeprefix("$ ") for block in _BLOCK.finditer(text) for line in block[2].splitlines() if line.startswith("$ ")]


def played(text: str, bootstrap: str, folder: Path, forks: Forks | None = None) -> str:
    """Return the page with what its commands print now; `folder` is where they run.

    Each is a process of its own, or, with `forks`, only the first one, and the others are forked.
    """
    (folder / "bin").mkdir(exist_ok=True)
    lines = own_process()
    if forks is not None:
        begun = shlex.quote(f"{folder}/bin/begun")
        lines = f"if [ -e {begun} ]; then {forks.line()}; else : > {begun}; {lines}; fi"
    for name, run in (("odradek", lines), ("python", f'exec {shlex.quote(sys.executable)} "$@"')):
        script = folder / "bin" / name
        script.write_text(f"#!/bin/sh\n{run}\n")
        script.chmod(0o755)
    typed = commands(text)
    lines = "\n".join(f"{{ {each}\n}} 2>&1\necho '{_MARK}'" for each in typed)
    done = subprocess.run(
        ["bash", "-uc", lines],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "ODRADEK_BOOTSTRAP_SERVER": bootstrap,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": f"{folder}/config",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "120",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout, done.stdout
    printed = iter(done.stdout.split(f"{_MARK}\n"))
    return _BLOCK.sub(
        lambda block: block[1] + "".join(f"{line}\n{next(printed)}" for line in block[2].splitlines() if line.startswith("$ ")) + block[3],
        text,
    )


def normal(text: str) -> str:
    """A page without what is another each time, and without the widths of columns."""
    for pattern, word in _SAME:
        text = pattern.sub(word, text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def main(pages: list[str]) -> None:
    """Rewrites pages."""
    for page in map(Path, pages):
        with EmbeddedBroker(settings_of(page.stem)) as broker, tempfile.TemporaryDirectory() as folder:
            text = played(page.read_text(), broker.bootstrap_servers, Path(folder))
            page.write_text(re.sub(r"\b(localhost|127\.0\.0\.1):\d+", "localhost:9092", text))


if __name__ == "__main__":
    main(sys.argv[1:])
