"""A topic into a table, by a project of `odradek pipeline`, through all that docs/lake-tables.md says of one format.

What asks Spark runs in processes of the Python that has the right Spark: the project's runs, and `lake_check.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.peers import REPOSITORY
from odradek.client import Admin, NewTopic, Producer

PAGE = REPOSITORY / "docs" / "lake-tables.md"
SCHEMA = "id BIGINT, ordered TIMESTAMP"
CACHE = REPOSITORY / ".cache"


def code_of_page() -> str:
    """The page's Python."""
    return "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


def environment() -> dict[str, str]:
    """That of a user, without what this process says of Spark."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_", "ODRADEK_"))}
    return kept | {"PYTHONPATH": str(REPOSITORY / "src"), "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class Project:
    """A project of one format, and the Python that runs it."""

    to: str
    python: Path
    bootstrap: str
    folder: Path
    jars: Path | None = None

    @property
    def home(self) -> Path:
        return self.folder / "orders"

    @property
    def job(self) -> Path:
        return self.home / "job.py"

    def command(self, *words: str) -> list[str]:
        return [str(self.python), "-m", "odradek.cli.main", "pipeline", *words]

    def write(self, *words: str) -> None:
        kind = ["orders", "--to", self.to, "--decode", "json", "--schema", SCHEMA, "-b", self.bootstrap, *words]
        subprocess.run(self.command("init", *kind), cwd=self.folder, env=environment(), check=True, timeout=60)

    def run_command(self, *more: str) -> list[str]:
        jars = ["--jars", str(self.jars)] if self.jars is not None else []
        return self.command("run", "orders", *jars, "--", *more)

    def run(self, *more: str) -> None:
        words = self.run_command(*more)
        done = subprocess.run(words, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-6000:]

    def check(self, what: str) -> dict[str, Any]:
        script = [str(self.python), "-P", str(Path(__file__).with_name("lake_check.py")), what, str(self.home), str(self.jars or "")]
        done = subprocess.run(script, cwd=self.home, env=environment(), capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-6000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def numbers(self, what: str, query: str = "orders") -> list[int]:
        """The numbers of batches in a checkpoint's `offsets` or `commits`."""
        folder = self.home / "checkpoints" / query / what
        return sorted(int(each.name) for each in folder.glob("[0-9]*")) if folder.is_dir() else []

    def forget_last_commits(self) -> None:
        """As if the driver had ended after the tables were written, and before Spark noted it."""
        for query in ("orders", "orders_dead_letters"):
            last = self.numbers("commits", query)[-1]
            for name in (f"{last}", f".{last}.crc"):
                (self.home / "checkpoints" / query / "commits" / name).unlink(missing_ok=True)


def produce(bootstrap: str, values: Iterable[bytes | None]) -> None:
    """Into both partitions of the topic, in turns."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send("orders", value, key=b"k", partition=number % 2)


def order(number: int, **more: str) -> bytes:
    """A record of the topic."""
    return json.dumps({"id": number, "ordered": "2025-11-01T12:00:00Z", **more}).encode()


def through_a_restart(project: Project) -> dict[str, Any]:
    """Two runs, the end of the first forgotten, with records that cannot be read, and a column that only the second knows."""
    with Admin(bootstrap_servers=project.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2, 1)])
    project.write("--kind", "job")
    # Iceberg alone would gather the rows of a batch in one file.
    text = project.job.read_text()
    project.job.write_text(text.replace(").create()", ').tableProperty("write.distribution-mode", "none").create()'))
    produce(project.bootstrap, [*map(order, range(40)), b"no JSON", None, b'{"id": "seven"}'])
    # The first run's day is over in the second, whenever they run.
    project.run("--conf", "spark.sql.session.timeZone=Etc/GMT+12")
    if project.to != "iceberg":
        project.forget_last_commits()
    project.job.write_text(project.job.read_text().replace(SCHEMA, f"{SCHEMA}, note STRING"))
    produce(project.bootstrap, [order(number, note="new") for number in range(40, 60)])
    project.run("--conf", "spark.sql.session.timeZone=Etc/GMT-14")
    return project.check("restart")


def assert_exactly_once(found: dict[str, Any]) -> None:
    """What is the same for all formats."""
    assert found["differences"] == []
    assert found["ids"] == list(range(60))
    assert found["notes"] == 20
    assert found["errors"] == {"no value": 1, "value: not one JSON value": 1, "no JSON of this schema": 1}
    assert found["days"] == 2
    assert found["differences after compaction"] == []
    assert found["ids after compaction"] == list(range(60))
    assert found["files after compaction"] < found["files"]
