"""Topics of awkward shapes as Spark reads them: many partitions of little, and one that has nearly everything.

    python -m bench.spark_shapes [--rounds 5] [--only WORD ...] [--scale FACTOR] [--json FILE]

Odradek's source beside the official connector 4.0.0, over the same broker (Odradek), as in `bench.spark`: sessions live as long as the
benchmark, and are measured in turns once they are warm.

- micro-batches: a streaming query without a sink, whose micro-batches take 25 records of each partition that has any; figures are the
  medians of what Spark says of each ("triggerExecution" of durationMs) without the first of a pass. Ours needs Spark 4.2 or newer; the
  connector's streaming queries run on 4.0 only.
- one more task: what a micro-batch of 200 partitions takes beyond one of a single partition, for each of the 199.
- skew: a batch into nothing of eight partitions of which one has 90 % of the records, as it is and with minPartitions=16 or
  maxRecordsPerPartition; then how much faster the options make it.
All on two cores.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bench.brokers import create_topic
from bench.comparison import SIDES, Figures, Peers, Target, at_least, at_most, below, compare
from bench.spark import OURS_40, OURS_NEW, THEIRS_40, Cell, Session, fill_partitions, run, settle

MANY = 200
_OF_EACH = 25
_MICRO_BATCHES = 12
_FIRST = 2
"""Micro-batches of a pass that do not count: the query starts, and its code is compiled."""
_PIECES = 16
_MOST_WARM_PASSES = 6


class Shape(NamedTuple):
    """A topic: records of each partition."""

    topic: str
    counts: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.counts)


class Work(NamedTuple):
    """A job on a shape, with options; `pairs` as in `bench.spark`: (how the row is called, ours, theirs, target)."""

    name: str
    job: str
    shape: Shape
    options: Mapping[str, str]
    figure: str
    pairs: Sequence[tuple[str, Cell, Cell, Target | None]]


def works(scale: float) -> list[Work]:
    streaming = (("ours on Spark 4.x", OURS_NEW, THEIRS_40),)
    reading = (("Spark 4.0", OURS_40, THEIRS_40), ("ours on Spark 4.x", OURS_NEW, THEIRS_40))
    each = _OF_EACH * _MICRO_BATCHES
    full = Shape("full", (each,) * MANY)
    sparse = Shape("sparse", (each, *[0] * (MANY - 1)))
    single = Shape("single", (each,))
    cold = int(100_000 * scale)
    skewed = Shape("skewed", (cold * 63, *[cold] * 7))
    listed = []
    for shape, text, limit in (
        (full, f"{MANY} partitions", below(2000, "ms")),
        (sparse, f"{MANY} partitions, {MANY - 1} empty", at_most(1)),
        (single, "1 partition", at_most(1)),
    ):
        limits = {"maxOffsetsPerTrigger": str(_OF_EACH * sum(count > 0 for count in shape.counts))}
        pairs = [(name, ours, theirs, limit) for name, ours, theirs in streaming]
        listed.append(Work(f"micro-batches, {text}", "batches", shape, limits, "ms", pairs))
    divisions: dict[str, dict[str, str]] = {
        "as it is": {},
        f"minPartitions={_PIECES}": {"minPartitions": str(_PIECES)},
        "maxRecordsPerPartition": {"maxRecordsPerPartition": str(-(-skewed.rows // _PIECES))},
    }
    for text, options in divisions.items():
        held = [(name, ours, theirs, at_least(2)) for name, ours, theirs in reading]
        listed.append(Work(f"skew, {text}", "read", skewed, options, "rows/s", held))
    return listed


class Bench:
    """The broker, the sessions, and the topics that are filled already."""

    def __init__(self, peers: Peers, stack: contextlib.ExitStack) -> None:
        self._peers = peers
        self._stack = stack
        self._sessions: dict[tuple[str, str], Session] = {}
        self._filled: set[Shape] = set()

    def session(self, cell: Cell) -> Session:
        key = (cell.source, cell.spark)
        if key not in self._sessions:
            self._sessions[key] = Session(*key)
            self._stack.callback(self._sessions[key].close)
        return self._sessions[key]

    def releases(self) -> list[str]:
        """Of Spark, that were measured."""
        return sorted({session.spark for session in self._sessions.values()})

    def once(self, work: Work, cell: Cell) -> Figures:
        """One pass; RuntimeError when not every row was seen."""
        session, shape = self.session(cell), work.shape
        with self._peers.turn(cell.broker) as broker:
            if shape not in self._filled:
                create_topic(broker, shape.topic, partitions=len(shape.counts))
                fill_partitions(broker, shape.topic, shape.counts, 100)
                self._filled.add(shape)
            options = {
                "kafka.bootstrap.servers": broker.bootstrap,
                "subscribe": shape.topic,
                "startingOffsets": "earliest",
                **work.options,
            }
            answer, used = session.do({"job": work.job, "source": cell.source, "options": options})
        if answer.get("rows", shape.rows) != shape.rows:
            raise RuntimeError(f"{work.name}, {cell}: {answer['rows']} rows instead of {shape.rows}")
        if work.job == "read":
            return {"rows/s": shape.rows / answer["seconds"], "CPU s/M rows": used["cpu"] / shape.rows * 1e6}
        counted = answer["ms of each"][_FIRST:]
        return {
            "ms": statistics.median(each["triggerExecution"] for each in counted),
            "planning ms": statistics.median(each["triggerExecution"] - each["addBatch"] for each in counted),
            "CPU ms": used["cpu"] * 1e3 / len(answer["ms of each"]),
        }

    def check(self, work: Work, cell: Cell) -> None:
        """RuntimeError when a batch into nothing would not give all rows."""
        with self._peers.turn(cell.broker) as broker:
            options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": work.shape.topic, **work.options}
            found = self.session(cell).do({"job": "count", "source": cell.source, "options": options})[0]["rows"]
        if found != work.shape.rows:
            raise RuntimeError(f"{work.name}, {cell}: {found} rows instead of {work.shape.rows}")


def measure(bench: Bench, work: Work, rounds: int) -> list[dict[str, Any]]:
    """One line a figure and pair."""
    cells = list(dict.fromkeys(cell for _, ours, theirs, _ in work.pairs for cell in (ours, theirs)))
    warm = {cell: settle(lambda cell=cell: bench.once(work, cell)[work.figure], _MOST_WARM_PASSES) for cell in cells}  # type: ignore[misc]
    found: dict[Cell, list[Figures]] = {cell: [] for cell in cells}
    for number in range(rounds):
        for cell in cells if number % 2 == 0 else reversed(cells):
            found[cell].append(bench.once(work, cell))
    if work.job == "read":
        for cell in cells:
            bench.check(work, cell)
    lines = []
    for text, ours, theirs, target in work.pairs:
        for figure in found[ours][0]:
            compared = compare(
                [each[figure] for each in found[ours]], [each[figure] for each in found[theirs]], target if figure == work.figure else None
            )
            lines.append({"row": f"{work.name}: {text}", "figure": figure, **compared, "settled": warm[ours] and warm[theirs]})
    return lines


def derived(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a task costs, and what the options are worth."""
    figures = {(line["row"], line["figure"]): line for line in lines}
    for (row, figure), line in figures.items():
        single = figures.get((row.replace(f"{MANY} partitions:", "1 partition:"), figure))
        if single is not None and single is not line and figure in ("ms", "CPU ms"):
            cost = {side: (line[side] - single[side]) / (MANY - 1) for side in SIDES}
            yield _line(row.replace("micro-batches", "one more task").replace(f", {MANY} partitions", ""), figure, cost)
        base = figures.get((_as_it_is(row), figure))
        if figure == "rows/s" and base is not None and base is not line:
            yield _line(f"{row}, against as it is", "times the rows/s", {side: line[side] / base[side] for side in SIDES})


def _line(row: str, figure: str, values: Mapping[str, float]) -> dict[str, Any]:
    ratio = values["odradek"] / values["jvm"] if values["jvm"] else 0.0
    return {"row": row, "figure": figure, **values, "ratio": ratio}


def _as_it_is(row: str) -> str:
    """The row of the same shape without options."""
    head, _, rest = row.partition(", ")
    return f"{head}, as it is:{rest.partition(':')[2]}"


def main() -> None:
    run(
        "topics of awkward shapes as Spark reads them, beside the official connector",
        "spark_shapes",
        rounds=5,
        scaled="the skewed topic",
        works=works,
        make=Bench,
        measure=measure,
        derive=lambda _bench, lines, _wanted, _rounds: derived(lines),
    )


if __name__ == "__main__":
    main()
