"""Spark sessions in processes of their own, one with Spark's Kafka connector and one with ours, and what they answer in one vocabulary."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.peers import REPOSITORY

_HOME = REPOSITORY / ".cache" / "official-connector"
_FOUR = _HOME / "venv" / "bin" / "python"

Job = dict[str, Any]
Answer = dict[str, Any]


class Session:
    """`spark_jobs` in a process. `format`: kafka, or odradek, then of Spark 4.0, or of the installed Spark for streams."""

    def __init__(self, folder: Path, kind: str, *, installed: bool = False) -> None:
        self.kind = kind
        folder.mkdir(parents=True)
        python = Path(sys.executable) if installed else _FOUR
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
        environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": f"{python.parent}:{os.environ['PATH']}"}
        jars = "" if kind == "odradek" else ",".join(str(jar) for jar in sorted((_HOME / "jars").glob("*.jar")))
        environment["PYTHONPATH"] = "" if jars else str(REPOSITORY / "src")
        script = [str(python), str(Path(__file__).with_name("spark_jobs.py")), kind, jars, str(folder)]
        self._errors = (folder / "errors").open("w+b")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(script, env=environment, stdin=pipe, stdout=pipe, stderr=self._errors, text=True)

    def ready(self) -> None:
        """Waits until Spark is up."""
        self._answer()

    def ask(self, jobs: Sequence[Job]) -> None:
        """Sends jobs, which are done in no special order, two at a time; `answers` has to follow."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(jobs)) + "\n")
        self._process.stdin.flush()

    def answers(self, many: int) -> list[Answer]:
        return [self._answer() for _ in range(many)]

    def run(self, job: str, **more: Any) -> Answer:
        """One job."""
        self.ask([{"job": job, **more}])
        return self._answer()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the session of {self.kind} ended:\n{self._errors.read()[-4000:].decode(errors='replace')}")
        answer: Answer = json.loads(line)
        return answer


_KINDS = (
    (
        "refused",
        r"\bConfigError\b|Cannot add partition \S+ to transaction|Failed to (construct|create)( new)? [Kk]afka"
        r"|option bootstrap.servers is not set",
    ),
    ("too large", r"RecordTooLarge|MESSAGE_TOO_LARGE"),
    (
        "data loss",
        r"KAFKA_DATA_LOSS|Some data may (have been|be) (lost|missed)|some data may have been missed|[Cc]annot fetch offset|\bDataLoss\b"
        r"|Some of partitions in Kafka topic\(s\) (have been lost|report available offset)",
    ),
    ("unknown topic", r"UnknownTopicOrPartition|does not host this topic-partition|UNKNOWN_TOPIC_OR_PARTITION"),
    (
        "not let in",
        r"SaslAuthenticationException|UnsupportedSaslMechanism|SslAuthenticationException|AuthenticationFailed|SASL_AUTHENTICATION_FAILED|UNSUPPORTED_SASL",
    ),
    ("timeout", r"TimeoutException|REQUEST_TIMED_OUT|NoBrokersAvailable"),
    (
        "refused",
        r"IllegalArgument|AssertionError|assertion failed|ConfigException|NumberFormatException|NoSuchElementException|PatternSyntax"
        r"|For input string|No offset\s+matched|Time must be specified as"
        r"|ValueError|AnalysisException|NullPointerException|IllegalStateException|UnsupportedOperation|JsonParseException"
        r"|InvalidTopicException|INVALID_TOPIC|KAFKA_START_OFFSET_DOES_NOT_MATCH|KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH|OdradekError",
    ),
)
"""In the order in which they are looked for: an error has the text of those that caused it."""


def kind_of(error: str) -> str:
    """What sort of error it is, in one word for both; the text where it is none of them."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, error)), error[:500])


def by_partition(rows: Sequence[Sequence[Any]]) -> dict[str, list[list[Any]]]:
    """What was read of each partition, in the order in which it came, without the task."""
    output: dict[str, list[list[Any]]] = {}
    for row in rows:
        output.setdefault(f"{row[1]}-{row[2]}", []).append(list(row[3:]))
    return output


def tasks(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The first and the last offset that each task read: what the ranges were."""
    ranges: dict[int, list[Any]] = {}
    for row in rows:
        ranges.setdefault(row[0], [row[1], row[2], row[3], row[3]])[3] = row[3]
    return sorted(ranges.values())
