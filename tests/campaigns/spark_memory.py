"""Memory and other resources of the processes of two Spark queries that read a topic for an hour.

    python -m tests.campaigns.spark_memory --minutes 60 --seed 1 [--rate 2000]

A producer writes steadily, with values whose sizes the seed chooses. One query reads the topic and writes it exactly once, the other reads
it into nothing (`spark_query`). Each has one micro-batch of limited size per second. Every few seconds the campaign samples, for each kind
of process, the resident memory, file descriptors, sockets, threads, and number of processes:

- driver: the Python process that started the session;
- jvm: the driver's JVM, which also runs the tasks; and "heap", its heap after a full collection;
- planner: the Python processes of the two `StreamReader`s;
- plans: the Python processes that Spark asks for the sources' abilities;
- commit: the Python processes that decide for the sink;
- tasks: the Python processes that read and write, with the process that makes them;
- broker.

After the warm-up each series must be flat, as `growth_judging` defines it, and both queries must keep up with the producer. Retention
deletes records that were read, so that the broker's logs keep one size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.client import Admin, NewTopic
from tests.campaigns.growth_judging import COUNTS, MEMORY, Bound, Point, judge
from tests.campaigns.spark_kills import Load, below, command_of
from tests.campaigns.spark_query import Options, start_query

FIGURES = ("RSS MB", "descriptors", "sockets", "threads", "processes")
_SOURCE, _SINK, _PARTITIONS = "input", "output", 4
_EVERY_S = 5.0
_START_S = 600.0
_BEHIND_S = 60.0
"""Maximum seconds that a query may be behind the producer at the end."""
_SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
}
_TOPIC = {"retention.bytes": str(8 << 20), "segment.bytes": str(2 << 20), "file.delete.delay.ms": "1000"}

_ROLES = {
    "python_streaming_source_runner": "planner",
    "python_streaming_sink_runner": "commit",
    "pyspark.sql.worker.": "plans",
    "pyspark.worker": "tasks",
}


class Key(NamedTuple):
    """Identity of a series."""

    role: str
    figure: str


class Run(NamedTuple):
    """Results of a campaign."""

    problems: list[str]
    series: dict[Key, list[Point]]
    counts: Counter[str]


class _Query:
    """Process of both queries, and its output."""

    def __init__(self, options: Options, log: Path) -> None:
        with log.open("w") as errors:
            self.process = start_query(options, errors)
        self.counts: Counter[str] = Counter()
        self.heaps: list[int] = []
        self.errors: list[str] = []
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word in ("batch", "beside"):
                self.counts[word] = int(rest) + 1
            elif word == "heap":
                self.heaps.append(int(rest))
            elif word == "error":
                self.errors.append(rest)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def role_of(command: str) -> str:
    """Return the role of a process below the driver, by its command line."""
    if "java" in command.split(" ", 1)[0]:
        return "jvm"
    for module, role in _ROLES.items():
        if module in command:
            return role
    return "other"


def usage(pid: int) -> dict[str, float]:
    """Return the figures of a process. Raises OSError when the process has ended."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    targets = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(each))
    return {
        "RSS MB": int(status["VmRSS"].split()[0]) / 1e3,
        "descriptors": len(targets),
        "sockets": sum(each.startswith("socket:") for each in targets),
        "threads": int(status["Threads"]),
        "processes": 1,
    }


def _sample(driver: int, broker: int) -> dict[Key, float]:
    """Return the sums for each role."""
    pids = [(driver, "driver"), (broker, "broker")] + [(pid, role_of(command_of(pid))) for pid in below(driver)]
    found: dict[Key, float] = defaultdict(float)
    for pid, role in pids:
        with contextlib.suppress(OSError, KeyError):  # The process has ended; a zombie has no VmRSS.
            for figure, value in usage(pid).items():
                found[Key(role, figure)] += value
    return found


def campaign(
    minutes: float,
    seed: int,
    folder: Path,
    *,
    rate: int = 2_000,
    broker_kind: type[BrokerProcess] = OdradekBroker,
    say: Callable[[str], object] = lambda _: None,
) -> Run:
    """Let the queries run for `minutes` minutes, and return the results."""
    run = Run([], defaultdict(list), Counter())
    broker = broker_kind(folder / "broker", _SETTINGS)
    broker.start()
    query, load = None, None
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(name, _PARTITIONS, 1, configs=_TOPIC) for name in (_SOURCE, _SINK)])
        load = Load(broker.bootstrap, rate, random.Random(seed))
        load.start()
        options = Options(
            broker.bootstrap, _SOURCE, _SINK, str(folder / "checkpoint"), "local[2]", rows=rate * 4, watched=True, interval_s=1.0
        )
        query = _Query(options, folder / "query.log")
        _watch(run, query, load, broker, minutes * 60, say)
        run.counts.update({"written": load.acked, **query.counts})
        run.problems.extend(f"a query failed: {each}" for each in query.errors)
        if load.error is not None:
            run.problems.append(f"the producer failed: {load.error!r}")
        run.problems.extend(_behind(Path(options.checkpoint), load.acked, rate))
    finally:
        if load is not None:
            load.end()
        if query is not None:
            query.end()
        broker.stop()
    return run


def _watch(run: Run, query: _Query, load: Load, broker: BrokerProcess, seconds: float, say: Callable[[str], object]) -> None:
    deadline = time.monotonic() + _START_S
    while min(query.counts["batch"], query.counts["beside"]) < 2:
        if time.monotonic() > deadline or query.process.poll() is not None:
            run.problems.append("the queries do not start")
            return
        time.sleep(0.2)
    begin, heaps = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds and query.process.poll() is None:
        for key, value in _sample(query.process.pid, broker.pid).items():
            run.series[key].append(Point(now, value))
        if len(query.heaps) > heaps:
            heaps = len(query.heaps)
            run.series[Key("heap", "RSS MB")].append(Point(now, query.heaps[-1] / 1e6))
        if int(now / 60) > int((now - _EVERY_S) / 60):
            figures = ", ".join(f"{key.role} {each[-1].value:.0f}" for key, each in sorted(run.series.items()) if key.figure == "RSS MB")
            say(f"{now:.0f} s, {dict(query.counts)}, {load.acked} written; MB: {figures}")
        time.sleep(max(0.0, _EVERY_S - (time.monotonic() - begin - now)))


def _behind(checkpoint: Path, written: int, rate: int) -> list[str]:
    """Return the queries that do not keep up, according to the plans in their checkpoints."""
    problems = []
    for each in (checkpoint, Path(f"{checkpoint}-beside")):
        newest = max((path for path in (each / "offsets").iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
        offsets = json.loads(newest.read_text().splitlines()[-1])[_SOURCE]
        behind = written - sum(offsets.values())
        if behind > rate * _BEHIND_S:
            problems.append(f"{each.name} is {behind} records behind the producer")
    return problems


def verdicts(series: dict[Key, list[Point]]) -> tuple[list[str], list[str]]:
    """Return a table with a line for each series, and the problems of growing series."""
    table = [f"{'':8} {'':12} {'level':>9} {'growth':>8} {'an hour':>8}"]
    problems = []
    for key, points in sorted(series.items()):
        bound: Bound = MEMORY if key.figure == "RSS MB" else COUNTS
        try:
            verdict = judge(points, bound)
        except ValueError as error:
            table.append(f"{key.role:8} {key.figure:12} {error}")
            continue
        mark = " GROWS" if verdict.grows else ""
        table.append(f"{key.role:8} {key.figure:12} {verdict.level:9.1f} {verdict.growth:+8.2f} {verdict.an_hour:+8.2f}{mark}")
        if verdict.grows:
            problems.append(f"{key.role}: {key.figure} grows by {verdict.an_hour:.1f} an hour, from {verdict.level:.1f}")
    return table, problems


def main() -> None:
    parser = argparse.ArgumentParser(description="watches what the processes of Spark queries keep")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--jvm", action="store_true", help="with JVM Kafka as the broker")
    parser.add_argument("--json", type=Path, help="where to keep the series")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="odradek-spark-memory-"))
    kind = JvmBroker if arguments.jvm else OdradekBroker
    run = campaign(
        arguments.minutes, arguments.seed, folder, rate=arguments.rate, broker_kind=kind, say=lambda line: print(line, flush=True)
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([[*key, points] for key, points in run.series.items()]))
    table, grown = verdicts(run.series)
    print("\n".join(table))
    problems = run.problems + grown
    for problem in problems:
        print(problem)
    print(f"{arguments.minutes:.0f} minutes, seed {arguments.seed}: {dict(run.counts)}, {len(problems)} problems")
    if problems:
        print(f"the data are kept in {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
