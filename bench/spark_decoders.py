"""Avro in a column, a million records: Odradek's from_avro beside Spark's own, which runs in the JVM.

    python -m bench.spark_decoders [--rows 1000000] [--rounds 3]

Three sessions of one core live as long as the benchmark and work in turns: Spark's own and ours on Spark 4.0.0, and ours on the installed
Spark, where it works on Arrow arrays. Figures are medians of rows per second; "as they are" hands the same rows on without a decoder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
CACHE = REPOSITORY / ".cache"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]},
        },
    ],
}
_DISTINCT = 1000


class Session:
    """A process with Spark in it."""

    def __init__(self, python: Path, jar: str, rows: int) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
        environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": f"{REPOSITORY / 'src'}"}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [str(python), "-P", __file__, "--session", jar, "--rows", str(rows)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.do("as they are")

    def do(self, job: str) -> float:
        """How long a job takes, seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(job + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("took "):
                return float(line.split()[1])
        self._log.seek(0)
        raise RuntimeError(f"the Spark session has ended: {self._log.read()[-2000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def session(jar: str, count: int) -> None:
    """What runs in the process of a session."""
    from datetime import UTC, datetime
    from io import BytesIO

    from fastavro import parse_schema, schemaless_writer
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
    spark = (builder.config("spark.jars", jar) if jar else builder).getOrCreate()
    schema: Any = parse_schema(json.loads(json.dumps(SCHEMA)))
    records: list[tuple[bytearray]] = []
    for number in range(_DISTINCT):
        output, at = BytesIO(), datetime(2024, 1, 2, 3, 4, 5, number, UTC)
        value = {
            "id": number << 20,
            "name": f"order {number}",
            "price": number / 3 if number % 3 else None,
            "at": at,
            "tags": ["new", "tea"],
        }
        schemaless_writer(output, schema, {**value, "place": {"x": number, "y": "here"}})
        records.append((bytearray(output.getvalue()),))
    rows = spark.createDataFrame(records, "value binary").crossJoin(spark.range(count // _DISTINCT)).select("value").coalesce(1).cache()
    rows.count()
    for line in sys.stdin:
        job, column = line.strip(), rows["value"]
        if job == "theirs":
            from pyspark.sql.avro.functions import from_avro as theirs

            column = theirs(column, json.dumps(SCHEMA))
        elif job == "ours":
            from odradek.spark.functions import from_avro as ours

            column = ours(column, SCHEMA)
        start = time.perf_counter()
        rows.select(column.alias("v")).write.format("noop").mode("overwrite").save()
        print("took", time.perf_counter() - start, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--session", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session is not None:
        session(given.session, given.rows)
        return
    old, jar = CACHE / "official-connector" / "venv" / "bin" / "python", CACHE / "spark-formats" / "spark-avro_2.13-4.0.0.jar"
    sessions = {"4.0": Session(old, str(jar), given.rows), "4.x": Session(Path(sys.executable), "", given.rows)}
    jobs = [("theirs", "4.0"), ("ours", "4.0"), ("ours", "4.x"), ("as they are", "4.0"), ("as they are", "4.x")]
    taken: dict[tuple[str, str], list[float]] = {job: [] for job in jobs}
    for turn in range(given.rounds + 1):
        for job in jobs:
            seconds = sessions[job[1]].do(job[0])
            if turn:  # The first one warms up.
                taken[job].append(seconds)
    best = statistics.median(taken["theirs", "4.0"])
    for (name, spark), seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"{name:12} Spark {spark}  {given.rows / middle:12,.0f} rows/s  {best / middle:5.2f} of theirs")
    for each in sessions.values():
        each.close()


if __name__ == "__main__":
    main()
