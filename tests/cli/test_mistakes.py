"""Mistakes in the command lines of commands that ask a broker, and of `odradek pipeline`: the rows of `tables`."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import TABLES, Mistake, check, table

COMMANDS = sorted(path.stem for path in TABLES.glob("*.txt"))
MISTAKES = [mistake for command in COMMANDS if command not in ("pipeline", "start", "storage") for mistake in table(command)]
FILES = {"empty": b"", "latin": b"caf\xe9", "lines": b"k:v\n", "big": b"x" * 2_000_000}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_mistake_is_reported_in_one_line(
    mistake: Mistake, tmp_path: Path, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", bootstrap)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    check(mistake, command, tmp_path)


@pytest.mark.parametrize("mistake", table("pipeline"), ids=lambda mistake: mistake.typed)
def test_a_mistake_about_a_project_is_reported_in_one_line(
    mistake: Mistake, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there", "both", "lake", "torn"):
        Path(name).mkdir()
        Path(name, "job.py").touch()
    Path("both", "spark-pipeline.yaml").touch()
    Path("lake", "spark.conf").write_text("spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension\n")
    Path("torn", "spark.conf").write_text("a \\u12\n")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.2.1")
    check(mistake, command, tmp_path)
    assert not Path("new").exists()


def test_each_command_line_is_listed_once() -> None:
    typed = [mistake.typed for command in COMMANDS for mistake in table(command)]
    assert len(set(typed)) == len(typed) >= 400
