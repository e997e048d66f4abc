"""Spark between topics and tables: Odradek's source and sink beside the official connector 4.0.0, in sessions of two cores.

    python -m bench.spark [--rounds 3] [--only WORD ...] [--scale FACTOR] [--json FILE]

One thing is changed at a time. "Spark 4.0" rows compare source with source on Spark 4.0.0, which the connector was made for, and on the
same broker, Odradek. "Spark 4.x" rows are ours on the newest release beside the connector on 4.0.0. Our streaming queries need
4.2, and the connector's run on 4.0 only. "Broker" rows compare Odradek with JVM Kafka 4.3.1 below the same source.

All sessions live as long as the benchmark. Each job is repeated in each of them until two passes that follow one another differ by less
than 5 %, four times at most; then the rounds go through the sessions in turns. Figures are medians: rows per second, CPU of Spark with its
Python workers for a million rows, and the broker's CPU; then, in one more pass, the largest sum of their memory. What a job saw is
counted outside of the clock.
"rows that are there already" is the ceiling: a source in Python that hands out one Arrow batch over and over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer

from bench.brokers import create_topic, delete_topic, end_offset
from bench.comparison import ALIKE, RESULTS, Figures, Peers, Target, at_least, at_most, compare, keep, print_lines
from bench.process_group import Watch
from interop.peers import REPOSITORY, BrokerProcess

OFFICIAL = REPOSITORY / ".cache" / "official-connector"
CORES = 2
_MOST_WARM_PASSES = 4
_VALUES = 5_000
_STREAM_LIMIT = 1_000_000
"""Rows of a micro-batch of 100 B; a tenth of the bytes' worth of larger ones."""


class Cell(NamedTuple):
    """Whose source, on which Spark ("4.0" or the installed one, "4.x"), over whose broker."""

    source: str
    spark: str
    broker: str = "odradek"


OURS, THEIRS = "odradek", "kafka"
OURS_40, THEIRS_40, OURS_NEW = Cell(OURS, "4.0"), Cell(THEIRS, "4.0"), Cell(OURS, "4.x")


class Load(NamedTuple):
    """A topic's records."""

    rows: int
    size: int
    partitions: int
    codec: str

    @property
    def topic(self) -> str:
        return f"r{self.size}-{self.partitions}-{self.codec}"

    @property
    def text(self) -> str:
        count = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        return f"{self.size} B, {count}{'' if self.codec == 'none' else ', ' + self.codec}"


class Work(NamedTuple):
    """A job and the pairs of cells that it is compared in: (how the row is called, ours, theirs, target of rows/s)."""

    name: str
    job: str
    load: Load
    pairs: Sequence[tuple[str, Cell, Cell, Target | None]]


def works(scale: float) -> list[Work]:
    def load(size: int, partitions: int, codec: str = "none") -> Load:
        return Load(int((5_000_000 if size == 100 else 1_000_000) * scale), size, partitions, codec)

    reading = (("Spark 4.0", OURS_40, THEIRS_40, at_least(3)), ("ours on Spark 4.x", OURS_NEW, THEIRS_40, at_least(3)))
    streaming = (("ours on Spark 4.x", OURS_NEW, THEIRS_40, at_least(3)),)
    writing = (("Spark 4.0", OURS_40, THEIRS_40, at_least(2)), ("ours on Spark 4.x", OURS_NEW, THEIRS_40, at_least(2)))
    listed = [
        Work(f"read {each.text}", "read", each, reading)
        for size in (100, 1000)
        for partitions in (1, 4)
        for codec in ("none", "zstd")
        for each in [load(size, partitions, codec)]
    ]
    listed += [Work(f"to Parquet, {each.text}", "parquet", each, reading) for size in (100, 1000) for each in [load(size, 4)]]
    listed += [Work(f"stream {each.text}", "stream", each, streaming) for size in (100, 1000) for each in [load(size, 4)]]
    listed += [Work(f"write {each.text}", "write", each, writing) for size in (100, 1000) for each in [load(size, 4)]]
    below = tuple((f"broker below {cell.source}", cell, cell._replace(broker="jvm"), at_least(1)) for cell in (OURS_NEW, THEIRS_40))
    listed += [Work(f"read {each.text}", "read", each, below) for each in [load(100, 1)]]
    return listed


class Session:
    """A Spark session in a process of its own (see bench/spark_session.py)."""

    def __init__(self, source: str, spark: str) -> None:
        python = OFFICIAL / "venv/bin/python" if spark == "4.0" else Path(sys.executable)
        jars = [] if source == OURS else sorted((OFFICIAL / "jars").glob("*.jar"))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
        environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(REPOSITORY / "src")}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            # -P: modules of this folder have names of the standard library's.
            [str(python), "-P", str(REPOSITORY / "bench" / "spark_session.py"), str(CORES), ",".join(map(str, jars))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.spark: str = self._answer()["spark"]

    def do(self, job: Mapping[str, object], *, memory: bool = False) -> tuple[dict[str, Any], Figures]:
        """The job's answer, and what it took, its memory where that is asked for; RuntimeError when it failed."""
        assert self._process.stdin is not None
        with Watch(self._process.pid, memory=memory) as watch:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
        if "error" in answer:
            raise RuntimeError(f"{job}: {answer['error']}")
        return answer, {"cpu": watch.used.cpu_s, "peak MB": watch.used.peak_mb}

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        self._log.seek(0)
        raise RuntimeError(f"the Spark session has ended: {self._log.read()[-3000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


class Bench:
    """The brokers, the sessions, and the topics that are filled already."""

    def __init__(self, peers: Peers, stack: contextlib.ExitStack) -> None:
        self._peers = peers
        self._stack = stack
        self._sessions: dict[tuple[str, str], Session] = {}
        self._filled: set[tuple[str, str]] = set()

    def session(self, cell: Cell) -> Session:
        key = (cell.source, cell.spark)
        if key not in self._sessions:
            self._sessions[key] = Session(*key)
            self._stack.callback(self._sessions[key].close)
        return self._sessions[key]

    def releases(self) -> list[str]:
        """Of Spark, that were measured."""
        return sorted({session.spark for session in self._sessions.values()})

    def once(self, work: Work, cell: Cell, *, memory: bool = False) -> Figures:
        """One pass, of which memory is the only figure where it is asked for; RuntimeError when not every row was seen."""
        session, load = self.session(cell), work.load
        with self._peers.turn(cell.broker) as broker:
            options = {"kafka.bootstrap.servers": broker.bootstrap}
            if work.job == "write":
                create_topic(broker, "written", partitions=load.partitions)
                options["topic"] = "written"
            else:
                self._fill(broker, cell.broker, load)
                options |= {"subscribe": load.topic, "startingOffsets": "earliest"}
                if work.job == "stream":
                    options["maxOffsetsPerTrigger"] = str(_STREAM_LIMIT * 100 // load.size)
            job = {"job": work.job, "source": cell.source, "options": options, "rows": load.rows, "size": load.size}
            broker_cpu = broker.cpu_seconds()
            answer, used = session.do(job, memory=memory)
            broker_cpu = broker.cpu_seconds() - broker_cpu
            if work.job == "write":
                seen = sum(end_offset(broker, "written", partition) for partition in range(load.partitions))
                delete_topic(broker, "written")
            else:
                seen = answer.get("rows", load.rows)
        if seen != load.rows:
            raise RuntimeError(f"{work.name}, {cell}: {seen} rows instead of {load.rows}")
        if memory:
            return {"peak MB": used["peak MB"]}
        return {
            "rows/s": load.rows / answer["seconds"],
            "CPU s/M rows": used["cpu"] / load.rows * 1e6,
            "broker CPU s/M rows": broker_cpu / load.rows * 1e6,
        }

    def check(self, work: Work, cell: Cell) -> None:
        """RuntimeError when a source does not give all rows of a topic that is read into nothing."""
        with self._peers.turn(cell.broker) as broker:
            options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": work.load.topic}
            found = self.session(cell).do({"job": "count", "source": cell.source, "options": options})[0]["rows"]
        if found != work.load.rows:
            raise RuntimeError(f"{work.name}, {cell}: {found} rows instead of {work.load.rows}")

    def ceiling(self, rows: int, size: int, rounds: int) -> float:
        """Rows per second of a source in Python whose rows are there already."""
        session = self.session(OURS_NEW)
        seconds = [session.do({"job": "ready", "rows": rows, "size": size})[0]["seconds"] for _ in range(2 + rounds)]
        return rows / statistics.median(seconds[2:])

    def _fill(self, broker: BrokerProcess, side: str, load: Load) -> None:
        if (side, load.topic) not in self._filled:
            create_topic(broker, load.topic, partitions=load.partitions)
            fill(broker, load)
            self._filled.add((side, load.topic))


def fill(broker: BrokerProcess, load: Load) -> None:
    """Writes a topic's records, as many to each partition, see `fill_partitions`."""
    share = load.rows // load.partitions
    counts = [load.rows - share * (load.partitions - 1), *[share] * (load.partitions - 1)]
    fill_partitions(broker, load.topic, counts, load.size, load.codec)


def fill_partitions(broker: BrokerProcess, topic: str, counts: Sequence[int], size: int, codec: str = "none") -> None:
    """Writes so many records to each partition, in batches of a MB: lines of JSON, which compress as such lines do."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "batch.size": 1_000_000,
            "batch.num.messages": 1_000_000 // size + 10,
            "linger.ms": 50,
            "queue.buffering.max.messages": 400_000,
            "queue.buffering.max.kbytes": 512 * 1024,
        }
    )
    generator = random.Random(size)
    values: list[dict[str, Any]] = [{"value": line_of_json(generator, size)} for _ in range(_VALUES)]
    for partition, wanted in enumerate(counts):
        sent = 0
        deadline = time.monotonic() + 60
        while sent < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partition {partition} of {topic} takes no records: {values[sent % _VALUES].get('_error')}")
            start = sent % _VALUES
            accepted = producer.produce_batch(topic, values[start : start + min(2_000, wanted - sent)], partition=partition)
            sent += accepted
            producer.poll(0 if accepted else 0.002)
    if producer.flush(300):
        raise RuntimeError("records left unsent")


def line_of_json(generator: random.Random, size: int) -> bytes:
    """So many bytes: an object with numbers, a name of few, and text of a small vocabulary."""
    start = f'{{"id": {generator.randrange(10**9)}, "carrier": "{generator.choice(("UA", "B6", "EV", "DL"))}", "text": "'
    words: list[str] = []
    length = len(start) + 2
    while length < size:
        word = generator.choice(("delay", "gate", "departed", "arrived", "weather", "crew", "taxi", "runway", str(generator.random())[2:8]))
        words.append(word)
        length += len(word) + 1
    return (start + " ".join(words))[: size - 2].encode() + b'"}'


def settle(once: Callable[[], float], most: int = _MOST_WARM_PASSES) -> bool:
    """Warms a session up by passes with that figure, `most` of them; returns whether the last two were alike."""
    before: float | None = None
    for _ in range(most):
        now = once()
        if before is not None and abs(now - before) <= ALIKE * max(now, before):
            return True
        before = now
    return False


def measure(bench: Bench, work: Work, rounds: int) -> list[dict[str, Any]]:
    """One line a figure and pair."""
    cells = list(dict.fromkeys(cell for _, ours, theirs, _ in work.pairs for cell in (ours, theirs)))
    warm = {cell: settle(lambda cell=cell: bench.once(work, cell)["rows/s"]) for cell in cells}  # type: ignore[misc]
    found: dict[Cell, list[Figures]] = {cell: [] for cell in cells}
    for number in range(rounds):
        for cell in cells if number % 2 == 0 else reversed(cells):
            found[cell].append(bench.once(work, cell))
    for cell in cells:
        weighed = bench.once(work, cell, memory=True)
        for figures in found[cell]:
            figures |= weighed
    if work.job == "read":
        for cell in cells:
            bench.check(work, cell)
    lines = []
    for text, ours, theirs, target in work.pairs:
        for figure in found[ours][0]:
            held = target if figure == "rows/s" else None
            if ours.source != theirs.source and figure in ("CPU s/M rows", "peak MB"):
                held = at_most(1)
            compared = compare([each[figure] for each in found[ours]], [each[figure] for each in found[theirs]], held)
            settled = warm[ours] and warm[theirs]
            lines.append({"row": f"{work.name}: {text}", "figure": figure, **compared, "settled": settled})
    return lines


def shares(bench: Bench, lines: Sequence[dict[str, Any]], loads: Sequence[Load], rounds: int) -> Iterator[dict[str, Any]]:
    """What our reading has of the rate of rows that are there already; "jvm" is what the official connector has of it."""
    rates = {line["row"]: line for line in lines if line["figure"] == "rows/s"}
    for load in loads:
        line = rates.get(f"read {load.text}: ours on Spark 4.x")
        if line is not None:
            ceiling = bench.ceiling(load.rows, load.size, rounds)
            share = {"odradek": line["odradek"] / ceiling, "jvm": line["jvm"] / ceiling}
            yield {"row": f"rows that are there already, {load.size} B", "figure": "share of their rate", **share, "ratio": line["ratio"]}


def scaling(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How much faster four partitions are read than one, on two cores that the broker shares."""
    rates = {line["row"]: line for line in lines if line["figure"] == "rows/s"}
    for row, one in rates.items():
        four = rates.get(row.replace("1 partition", "4 partitions"))
        if "1 partition" in row and four is not None:
            more = {side: four[side] / one[side] for side in ("odradek", "jvm")}
            name = row.replace("1 partition", "4 partitions instead of 1")
            yield {"row": name, "figure": "times the rows/s", **more, "ratio": more["odradek"] / more["jvm"]}


def run(
    description: str,
    name: str,
    *,
    rounds: int,
    scaled: str,
    works: Callable[[float], Sequence[Any]],
    make: Callable[[Peers, contextlib.ExitStack], Any],
    measure: Callable[[Any, Any, int], list[dict[str, Any]]],
    derive: Callable[[Any, list[dict[str, Any]], Sequence[Any], int], Iterable[dict[str, Any]]],
) -> None:
    """The command line of a benchmark of Spark. `works(scale)` are its jobs, each with a name; `make` brings the brokers and sessions, by
    which `measure` makes the lines of one job; `derive` says what follows from all of them.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="*", default=[], help="jobs whose name contains one of these words")
    parser.add_argument("--scale", type=float, default=1.0, help=f"multiplies the rows of {scaled}")
    parser.add_argument("--json", type=Path, help=f"where to keep the results (default with all jobs: bench/results/{name}.json)")
    options = parser.parse_args()
    fetch = REPOSITORY / "interop" / "official_connector" / "fetch.sh"
    subprocess.run([str(fetch)], check=True, env={**os.environ, "PYTHON": sys.executable})
    everything = works(options.scale)
    wanted = [work for work in everything if not options.only or any(word in work.name for word in options.only)]
    if not wanted:
        parser.error("no such job")
    lines: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder,
        Peers(Path(folder), {}).running() as peers,
        contextlib.ExitStack() as stack,
    ):
        bench = make(peers, stack)
        for work in wanted:
            found = measure(bench, work, options.rounds)
            print_lines(found)
            lines += found
        more = [{"target": "", "met": None, "settled": True, **line} for line in derive(bench, lines, wanted, options.rounds)]
        print_lines(more)
        lines += more
        releases = bench.releases()
    target = options.json or (RESULTS / f"{name}.json" if wanted == everything and options.scale == 1.0 else None)
    if target is not None:
        keep(target, lines, rounds=options.rounds, scale=options.scale, spark=releases)


def derived(bench: Bench, lines: Sequence[dict[str, Any]], wanted: Sequence[Work], rounds: int) -> Iterator[dict[str, Any]]:
    """How reading scales, and what it has of the rate of rows that are there already."""
    yield from scaling(lines)
    plain = dict.fromkeys(work.load for work in wanted if work.load.codec == "none" and work.load.partitions == 1)
    yield from shares(bench, lines, list(plain), rounds)


def main() -> None:
    run(
        "Spark between topics and tables, beside the official connector",
        "spark",
        rounds=3,
        scaled="every topic",
        works=works,
        make=Bench,
        measure=measure,
        derive=derived,
    )


if __name__ == "__main__":
    main()
