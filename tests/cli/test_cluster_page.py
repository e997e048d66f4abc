"""docs/cluster.md: its commands do what the page says, on ports and in folders of the test's own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.support import free_base_port
from tests.processes import end

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
ON_ONE, ON_SEVERAL = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(("On one", "On several")))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in which `odradek` is this one."""
    (tmp_path / "odradek").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m odradek.cli.main "$@"\n')
    (tmp_path / "odradek").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def run(lines: list[str], shell: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", "\n".join(lines)], capture_output=True, text=True, timeout=120, check=False, env=shell, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def running(tmp_path: Path, shell: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that go on running; they are ended at the end."""
    processes: list[subprocess.Popen[str]] = []
    statuses: list[int] = []
    yield processes
    for process in processes:
        process.send_signal(signal.SIGTERM)
    with ExitStack() as stack:
        for process in processes:
            stack.callback(lambda process=process: statuses.append(end(process)))  # type: ignore[misc]
    assert statuses == [0] * len(processes)


def launch(line: str, shell: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    """Starts a command that goes on running."""
    return subprocess.Popen(
        ["bash", "-c", f"exec {line}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=shell, cwd=folder
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_on_one_machine(tmp_path: Path, shell: dict[str, str], running: list[subprocess.Popen[str]]) -> None:
    first, second = blocks(ON_ONE, "console")
    (line,) = commands(first)
    base = free_base_port()
    running.append(launch(f"{line} --port {base}", shell, tmp_path))
    assert first_line(running[0]).startswith("A cluster of 3 nodes is ready")
    shell["ODRADEK_BOOTSTRAP_SERVER"] = f"localhost:{base}"
    shown = [line for line in second.splitlines() if not line.startswith("$ ")]
    assert shown == ["hello"]
    said = run(commands(second), shell, tmp_path)
    assert "hello" in said.splitlines()
    assert "ReplicationFactor: 3" in said


def test_on_several_machines(tmp_path: Path, shell: dict[str, str], running: list[subprocess.Popen[str]]) -> None:
    (text,) = blocks(ON_SEVERAL, "properties")
    *ids, form, begin = commands(blocks(ON_SEVERAL, "console")[0])
    base = free_base_port()

    def here(words: str) -> str:
        """Machines become ports of this one."""
        words = words.replace("0.0.0.0:9092", "node-1:9092").replace("0.0.0.0:9093", "node-1:9093")
        words = re.sub(r"node-(\d):9093", lambda found: f"127.0.0.1:{base + 999 + int(found[1])}", words)
        return re.sub(r"node-(\d):9092", lambda found: f"127.0.0.1:{base - 1 + int(found[1])}", words)

    formats: list[str] = []
    for number in (1, 2, 3):
        folder = tmp_path / f"machine-{number}"
        folder.mkdir()
        mine = (
            text.replace("node.id=1", f"node.id={number}").replace("//node-1", f"//node-{number}").replace("//0.0.0.0", f"//node-{number}")
        )
        mine = mine.replace("log.dirs=/var/lib/odradek", f"log.dirs={folder}/data")
        (folder / "server.properties").write_text(here(mine))
        formats.append(form.replace("server.properties", f"{folder}/server.properties"))
    run([*(here(line) for line in ids), *formats], shell, tmp_path)
    running += [launch(begin, shell, tmp_path / f"machine-{number}") for number in (1, 2, 3)]
    for process in running:
        assert first_line(process).startswith("Odradek is ready")
    shell["ODRADEK_BOOTSTRAP_SERVER"] = f"127.0.0.1:{base + 1}"
    said = run(commands(blocks(ON_ONE, "console")[1]), shell, tmp_path)
    assert "ReplicationFactor: 3" in said
