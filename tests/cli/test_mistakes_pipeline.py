"""As test_mistakes.py, for projects of Spark."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.mistakes import SEE, Mistake, pattern

INIT, RUN = SEE.format("pipeline init"), SEE.format("pipeline run")
TOPIC = "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
MISTAKES = (
    Mistake("pipeline", 2, "Usage: odradek pipeline [OPTIONS] COMMAND [ARGS]...<*>"),
    Mistake("pipeline start", 2, f"odradek pipeline: No such command 'start'; {SEE.format('pipeline')}"),
    # -- init -------------------------------------------------------------------------------------------------------------------------
    Mistake("pipeline init", 2, f"odradek pipeline: Missing argument 'NAME'; {INIT}"),
    Mistake("pipeline init a/b", 1, "odradek pipeline: 'a/b' cannot be the name of a project: <*>"),
    Mistake("pipeline init new --from a/b", 1, f"odradek pipeline: --from a/b: {TOPIC}"),
    Mistake("pipeline init new --into 1st", 1, "odradek pipeline: --into 1st: a table's name has <*>"),
    Mistake("pipeline init new --to topic --into a/b", 1, f"odradek pipeline: --into a/b: {TOPIC}"),
    Mistake("pipeline init new --to topic", 1, "odradek pipeline: --into new: this is the source topic; name another one with --into NAME"),
    Mistake("pipeline init new --to hudi", 2, f"odradek pipeline: Invalid value for '--to': 'hudi' is not one of <*>; {INIT}"),
    Mistake("pipeline init new --kind script", 2, f"odradek pipeline: Invalid value for '--kind': 'script' is not one of <*>; {INIT}"),
    Mistake("pipeline init new --decode xml", 2, f"odradek pipeline: Invalid value for '--decode': 'xml' is <*>; {INIT}"),
    Mistake("pipeline init new --decode json", 1, "odradek pipeline: --decode json needs --schema with <*>"),
    Mistake("pipeline init new --schema 'id INT'", 1, "odradek pipeline: --schema has no effect without --decode"),
    Mistake(
        "pipeline init new --to iceberg --kind declarative", 1, "odradek pipeline: --kind declarative: Iceberg has <*>; use --kind job"
    ),
    Mistake("pipeline init new -b nowhere", 2, f"odradek pipeline: Invalid value for <*>'nowhere' is not HOST:PORT[,...]; {INIT}"),
    Mistake("pipeline init new -X acks", 2, f"odradek pipeline: -X acks: expected KEY=VALUE; {INIT}"),
    Mistake("pipeline init new -X group.idd=x", 1, "odradek pipeline: Unknown configuration key group.idd<*>"),
    Mistake("pipeline init there", 1, "odradek pipeline: there already exists; nothing was written"),
    # -- run --------------------------------------------------------------------------------------------------------------------------
    Mistake(
        "pipeline run nowhere",
        1,
        "odradek pipeline: nowhere: neither job.py nor spark-pipeline.yml exists; `odradek pipeline init NAME` writes a project",
    ),
    Mistake("pipeline run both", 1, "odradek pipeline: both: both job.py and a pipeline specification exist; <*>"),
    Mistake(
        "pipeline run there --full-refresh-all",
        2,
        "odradek pipeline: --full-refresh-all: only for declarative pipelines; to read a topic again, remove the checkpoints and tables "
        f"of the job; {RUN}",
    ),
    Mistake("pipeline run lake --jars none", 1, "odradek pipeline: --jars none: no such jar, or no jar in this folder"),
    Mistake("pipeline run there -b nowhere", 1, "odradek pipeline: <*>nowhere<*>it must be host:port"),
    Mistake(
        "pipeline run there",
        1,
        "odradek pipeline: spark.conf has no spark.odradek.kafka.bootstrap.servers; name the brokers with -b HOST:PORT",
    ),
    Mistake("pipeline run torn", 1, "odradek pipeline: torn/spark.conf: <*>"),
)


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there", "both", "lake", "torn"):
        Path(name).mkdir()
        Path(name, "job.py").touch()
    Path("both", "spark-pipeline.yaml").touch()
    Path("lake", "spark.conf").write_text("spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension\n")
    Path("torn", "spark.conf").write_text("a \\u12\n")


@pytest.mark.usefixtures("projects")
@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.typed for mistake in MISTAKES])
def test_a_mistake_is_told(mistake: Mistake, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.cli.pipelines import pipeline_run

    monkeypatch.setattr(pipeline_run.importlib.metadata, "version", lambda name: "4.2.1")
    answer = command(*shlex.split(mistake.typed))
    assert re.fullmatch(pattern(mistake.answer), answer.err, re.DOTALL), answer.err
    assert (answer.status, answer.out) == (mistake.status, "")
    assert not Path("new").exists()


def test_each_stands_there_once() -> None:
    assert len({mistake.typed for mistake in MISTAKES}) == len(MISTAKES)
