"""Spark batch read of one partition: Odradek's source from an Odradek broker, the official connector 4.0.0 from JVM Kafka.

    python -m bench.spark [--records 5000000] [--repeats 3] [--json FILE]

Both read the same number of 100-byte records into Spark's noop sink with one core, each in a Spark session of its own that has
been warmed up by one read. The table shows the medians of records per second.
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

from bench.brokers import create_topic, end_offset, produce_load
from interop.peers import REPOSITORY, BrokerProcess, JvmBroker, OdradekBroker

RECORD_SIZE = 100
OFFICIAL = REPOSITORY / ".cache" / "official-connector"


def fill(broker: BrokerProcess, topic: str, records: int) -> None:
    create_topic(broker, topic)
    produce_load(broker, topic, RECORD_SIZE, 1_000_000, records * RECORD_SIZE)


def read(python: Path, source: str, broker: BrokerProcess, topic: str, repeats: int, jars: list[Path]) -> dict[str, list[float]]:
    command = [str(python), str(REPOSITORY / "bench" / "spark_job.py"), source, broker.bootstrap, topic, str(repeats)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment["PYSPARK_PYTHON"] = str(python)
    done = subprocess.run([*command, ",".join(map(str, jars))], capture_output=True, text=True, env=environment, timeout=900, check=False)
    if done.returncode:
        raise RuntimeError(f"{source}: {done.stderr[-3000:]}")
    answer: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description="Spark batch read, Odradek's source and the official connector")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("bench/results/spark.json"))
    options = parser.parse_args()
    subprocess.run([str(REPOSITORY / "bench" / "official_connector" / "fetch.sh")], check=True)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        for name, broker, source, python, jars in (
            ("odradek", OdradekBroker(Path(folder) / "odradek"), "odradek", Path(sys.executable), []),
            ("official", JvmBroker(Path(folder) / "jvm"), "kafka", OFFICIAL / "venv/bin/python", sorted((OFFICIAL / "jars").glob("*.jar"))),
        ):
            print(name, file=sys.stderr, flush=True)
            with broker:
                fill(broker, "spark", options.records)
                result = read(python, source, broker, "spark", options.repeats, jars)
                assert result["count"] == end_offset(broker, "spark"), "the job did not see every record"
            figures[name] = options.records / statistics.median(result["seconds"])
    ratio = figures["odradek"] / figures["official"]
    table = [
        {
            "row": f"Spark batch read, {options.records} x {RECORD_SIZE} B",
            "figure": "records/s",
            "odradek": figures["odradek"],
            "jvm": figures["official"],
            "ratio": ratio,
            "target": ">= 3x",
            "met": ratio >= 3,
        }
    ]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"table": table}, indent=2) + "\n")
    verdict = "met" if ratio >= 3 else "MISSED"
    ours, theirs = f"{figures['odradek']:,.0f}", f"{figures['official']:,.0f}"
    print(f"{table[0]['row']}: Odradek {ours} records/s, official {theirs}, ratio {ratio:.2f}, target >= 3x {verdict}")


if __name__ == "__main__":
    main()
