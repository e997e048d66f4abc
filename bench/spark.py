"""Spark batch read of one partition into the noop sink with one core, one thing changed at a time.

    python -m bench.spark [--records 5000000] [--rounds 2] [--json FILE]

What can differ is the source (Odradek's or the official connector 4.0.0), the broker (Odradek or JVM Kafka 4.3.1), and Spark (the
release that is installed here, or the 4.0.0 that the official connector was made for; it runs on both). Each row compares two cells that
differ in one of them; the last row compares all of ours with all of theirs.

Every round has a session for each cell, and goes through the cells in the other direction than the one before. A session is warm when
two reads that follow one another differ by less than 5 %; then it counts three. The table shows medians of records per second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.brokers import create_topic, end_offset, produce_load
from bench.comparison import RESULTS, Peers, at_least, keep, print_lines
from interop.peers import REPOSITORY, BrokerProcess

RECORD_SIZE = 100
OFFICIAL = REPOSITORY / ".cache" / "official-connector"
TOPIC = "spark"


class Cell(NamedTuple):
    """A source and the broker it reads from. `own_spark`: with the Spark release that the official connector was made for."""

    source: str
    broker: str
    own_spark: bool = False


OURS, THEIRS = "odradek", "jvm"
ROWS = (
    ("source, both from JVM Kafka", Cell(OURS, THEIRS), Cell(THEIRS, THEIRS), at_least(3)),
    ("source, both from Odradek", Cell(OURS, OURS), Cell(THEIRS, OURS), at_least(3)),
    ("broker, both by our source", Cell(OURS, OURS), Cell(OURS, THEIRS), at_least(1)),
    ("broker, both by the official one", Cell(THEIRS, OURS), Cell(THEIRS, THEIRS), at_least(1)),
    ("all of ours, all of theirs", Cell(OURS, OURS), Cell(THEIRS, THEIRS, own_spark=True), at_least(3)),
)
"""What differs, the two cells, and the target of their ratio."""


def read(cell: Cell, broker: BrokerProcess, repeats: int) -> list[float]:
    """Seconds of each read, by a session of its own."""
    python = OFFICIAL / "venv/bin/python" if cell.own_spark else Path(sys.executable)
    jars = [] if cell.source == OURS else sorted((OFFICIAL / "jars").glob("*.jar"))
    name = "odradek" if cell.source == OURS else "kafka"
    command = [str(python), str(REPOSITORY / "bench" / "spark_job.py"), name, broker.bootstrap, TOPIC, str(repeats)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment["PYSPARK_PYTHON"] = str(python)
    done = subprocess.run([*command, ",".join(map(str, jars))], capture_output=True, text=True, env=environment, timeout=900, check=False)
    if done.returncode:
        raise RuntimeError(f"{cell}: {done.stderr[-3000:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    if answer["count"] != end_offset(broker, TOPIC):
        raise RuntimeError(f"{cell}: the job saw {answer['count']} records only")
    seconds: list[float] = answer["seconds"]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Spark batch read, one thing changed at a time")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS / "spark.json")
    options = parser.parse_args()
    fetch = REPOSITORY / "bench" / "official_connector" / "fetch.sh"
    subprocess.run([str(fetch)], check=True, env={**os.environ, "PYTHON": sys.executable})
    cells = list(dict.fromkeys(cell for _, ours, theirs, _ in ROWS for cell in (ours, theirs)))
    seconds: dict[Cell, list[float]] = {cell: [] for cell in cells}
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder, Peers(Path(folder), {}).running() as peers:
        for side in peers.brokers:
            with peers.turn(side) as broker:
                create_topic(broker, TOPIC)
                produce_load(broker, TOPIC, RECORD_SIZE, 1_000_000, options.records * RECORD_SIZE)
        for number in range(options.rounds):
            for cell in cells if number % 2 == 0 else reversed(cells):
                print(f"round {number + 1} of {options.rounds}: {cell}", file=sys.stderr, flush=True)
                with peers.turn(cell.broker) as broker:
                    seconds[cell] += read(cell, broker, options.repeats)
    rates = {cell: options.records / statistics.median(each) for cell, each in seconds.items()}
    lines = []
    for text, ours, theirs, target in ROWS:
        ratio = rates[ours] / rates[theirs]
        lines.append(
            {
                "row": f"Spark: {text}",
                "figure": "records/s",
                "odradek": rates[ours],
                "jvm": rates[theirs],
                "ratio": ratio,
                "target": target.text,
                "met": target.met(rates[ours], ratio),
                "settled": True,
            }
        )
    print_lines(lines)
    keep(options.json, lines, rounds=options.rounds, records=options.records)


if __name__ == "__main__":
    main()
