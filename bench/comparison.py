"""What every benchmark of brokers shares: rows, warm passes in turns, targets, tables, and results that are kept.

The rules:
- Both brokers are warm before a row counts: passes are run on each until two that follow one another differ by less than 5 % in the
  figure that the row settles by (at most `most_passes` of them; a row that does not settle says so). Rows that measure a start are cold by
  nature, and each of their rounds has processes of its own.
- Then both are measured in turns, and they take turns at going first. The one that is not measured is stopped (SIGSTOP), so that it takes
  nothing from the other; sessions are an hour long, so that it does not notice.
- Every row has a target, also where the JVM is ahead.
- Before each pass of either side the disk has been written and free memory is there (bench/memory.py).
- The broker's CPU and the load generator's are told apart.
- `bench/results/<name>.json` keeps the figures with the machine and the commit; `python -m bench.page` makes docs/performance.md of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from bench.memory import touch_free_memory
from interop.peers import REPOSITORY, BrokerProcess, JvmBroker, OdradekBroker, answers_api_versions

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

MB = 1_000_000
Figures = dict[str, float]
SIDES = ("odradek", "jvm")
RESULTS = REPOSITORY / "bench" / "results"
ALIKE = 0.05
"""Two passes that differ by less than this share are alike."""

OVERRIDES = {
    "log.retention.check.interval.ms": "3600000",
    "log.segment.delete.delay.ms": "1000",
    # The broker that is not measured is stopped, and must not be taken for dead by its own controller.
    "broker.session.timeout.ms": "3600000",
}
"""What both brokers of every benchmark are given."""


class Target(NamedTuple):
    """What a figure is held to: `ratio` (ours/theirs) at least or at most, or on ours alone a `limit` or what it is to be at `least`."""

    text: str
    ratio_min: float | None = None
    ratio_max: float | None = None
    limit: float | None = None
    least: float | None = None

    def met(self, ours: float, ratio: float) -> bool:
        if self.ratio_min is not None:
            return ratio >= self.ratio_min
        if self.ratio_max is not None:
            return ratio <= self.ratio_max
        if self.least is not None:
            return ours >= self.least
        return self.limit is not None and ours <= self.limit


def at_least(ratio: float) -> Target:
    """Ours at least `ratio` times theirs."""
    return Target(f">= {ratio:g}x", ratio_min=ratio)


def at_most(ratio: float) -> Target:
    """Ours at most `ratio` times theirs."""
    return Target(f"<= {ratio:g}x", ratio_max=ratio)


def below(limit: float, unit: str) -> Target:
    """Ours at most `limit`, whatever theirs is."""
    return Target(f"<= {limit:g} {unit}", limit=limit)


class Row(NamedTuple, Generic[S]):
    """Something measured over and over on brokers (or clusters) that go on running.

    `work(broker, label)` is one pass; `label` is new for each, for the names of topics and groups. `prepare(broker)` runs once on each.
    """

    name: str
    work: Callable[[S, str], Figures]
    settles: str
    """The figure by which a broker is known to be warm."""
    targets: Mapping[str, Target]
    prepare: Callable[[S], object] | None = None
    most_passes: int = 8


class ColdRow(NamedTuple, Generic[S]):
    """Something measured on a process of its own each time, such as a start.

    `prepare(folder)` makes once, in the folder, what both then share; `work(broker, folder)` starts the broker itself, which has a home of
    its own and has not been formatted. The JVM's log says what it does where `talking` names a logger.
    """

    name: str
    work: Callable[[S, Path], Figures]
    targets: Mapping[str, Target]
    prepare: Callable[[Path], object] | None = None
    talking: str = ""


AnyRow = Row[BrokerProcess] | ColdRow[BrokerProcess]


class Measured(NamedTuple):
    """The rounds of a row: figures by side. `passes`: how many warmed it up, by side; 0 where it is cold by nature."""

    row: Row[Any] | ColdRow[Any]
    rounds: list[dict[str, Figures]]
    passes: dict[str, int]
    settled: dict[str, bool]


class _TalkingJvmBroker(JvmBroker):
    """JVM Kafka with one of its loggers at level info."""

    logger = ""

    def start_command(self) -> list[str]:
        java, *rest = super().start_command()
        return [java, f"-Dorg.slf4j.simpleLogger.log.{self.logger}=info", *rest]


def make_broker(side: str, home: Path, overrides: Mapping[str, str] | None = None, talking: str = "") -> BrokerProcess:
    settings = {**OVERRIDES, **(overrides or {})}
    if side == "odradek":
        return OdradekBroker(home, settings)
    broker = _TalkingJvmBroker(home, settings, as_shipped=True)
    broker.logger = talking or "none"
    return broker


class Turns(Protocol[S_co]):
    """Both sides, running, of which one is awake at a time."""

    def turn(self, side: str) -> AbstractContextManager[S_co]:
        """The side, awake and answering."""
        ...


class Peers:
    """Both brokers, in turns."""

    def __init__(self, folder: Path, overrides: Mapping[str, str]) -> None:
        self.brokers = {side: make_broker(side, folder / side, overrides) for side in SIDES}

    @contextlib.contextmanager
    def running(self) -> Iterator[Peers]:
        try:
            for broker in self.brokers.values():
                broker.start(180)
                broker.pause()
            yield self
        finally:
            for broker in self.brokers.values():
                broker.kill()

    @contextlib.contextmanager
    def turn(self, side: str) -> Iterator[BrokerProcess]:
        """See `Turns`."""
        broker = self.brokers[side]
        with awake([broker]):
            yield broker


def be_ready() -> None:
    """What an earlier pass has left to the kernel is done, and free memory is there."""
    os.sync()
    touch_free_memory()


@contextlib.contextmanager
def awake(brokers: Sequence[BrokerProcess]) -> Iterator[None]:
    """The stopped brokers go on for as long as this lasts, and answer."""
    be_ready()
    for broker in brokers:
        broker.resume()
    deadline = time.monotonic() + 30
    for broker in brokers:
        while not answers_api_versions(broker.port):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{broker.name} does not answer any more: {broker.log_tail()}")
    # Its timers catch up with the time for which it was stopped.
    time.sleep(0.2)
    try:
        yield
    finally:
        for broker in brokers:
            broker.pause()


def order(number: int) -> Sequence[str]:
    """Who goes first in a round."""
    return SIDES if number % 2 == 0 else SIDES[::-1]


def settle(row: Row[S], peers: Turns[S], side: str) -> tuple[int, bool]:
    """Warms a broker up; returns how many passes it took, and whether the last two were alike."""
    before: float | None = None
    for number in range(row.most_passes):
        with peers.turn(side) as broker:
            now = row.work(broker, f"warm-{number}")[row.settles]
        if before is not None and abs(now - before) <= ALIKE * max(now, before):
            return number + 1, True
        before = now
    return row.most_passes, False


def measure(row: Row[S], peers: Turns[S], rounds: int) -> Measured:
    passes: dict[str, int] = {}
    settled: dict[str, bool] = {}
    for side in SIDES:
        if row.prepare is not None:
            with peers.turn(side) as broker:
                row.prepare(broker)
        passes[side], settled[side] = settle(row, peers, side)
    figures = []
    for number in range(rounds):
        one: dict[str, Figures] = {}
        for side in order(number):
            with peers.turn(side) as broker:
                one[side] = row.work(broker, f"round-{number}")
        figures.append(one)
    return Measured(row, figures, passes, settled)


class Measurable(Protocol):
    """What a cold row is measured on: a broker, or a cluster of them."""

    def kill(self) -> None: ...


M = TypeVar("M", bound=Measurable)


def measure_cold(row: ColdRow[M], folder: Path, make: Callable[[str, Path, str], M], rounds: int) -> Measured:
    """`make(side, home, talking)`: one that has not been started."""
    shared = folder / "shared"
    shared.mkdir(parents=True)
    if row.prepare is not None:
        row.prepare(shared)
    figures = []
    for number in range(rounds):
        one: dict[str, Figures] = {}
        for side in order(number):
            home = folder / f"{side}-{number}"
            subject = make(side, home, row.talking)
            be_ready()
            try:
                one[side] = row.work(subject, shared)
            finally:
                subject.kill()
            shutil.rmtree(home, ignore_errors=True)
        figures.append(one)
    shutil.rmtree(folder)
    return Measured(row, figures, dict.fromkeys(SIDES, 0), dict.fromkeys(SIDES, True))


def summarize(measured: Measured) -> list[dict[str, Any]]:
    """One line a figure: both medians, and the median of the rounds' ratios."""
    lines = []
    for figure in measured.rounds[0]["odradek"]:
        ours = [each["odradek"][figure] for each in measured.rounds]
        theirs = [each["jvm"][figure] for each in measured.rounds]
        compared = compare(ours, theirs, measured.row.targets.get(figure))
        settled = all(measured.settled.values())
        lines.append({"row": measured.row.name, "figure": figure, **compared, "warm": measured.passes, "settled": settled})
    return lines


def compare(ours: Sequence[float], theirs: Sequence[float], target: Target | None) -> dict[str, Any]:
    """Both medians of a figure, the median of the rounds' ratios, and whether the target is met."""
    ratio = statistics.median(mine / other if other else 0.0 for mine, other in zip(ours, theirs, strict=True))
    median = statistics.median(ours)
    return {
        "odradek": median,
        "jvm": statistics.median(theirs),
        "ratio": ratio,
        "target": target.text if target else "",
        "met": target.met(median, ratio) if target else None,
    }


def print_lines(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        verdict = {True: "met", False: "MISSED", None: ""}[line["met"]]
        figures = f"{line['odradek']:10.2f} {line['jvm']:10.2f} {line['ratio']:7.2f}"
        unsettled = "" if line["settled"] else "  (did not settle)"
        print(f"{line['row']:38} {line['figure']:22} {figures}  {line['target']:11} {verdict}{unsettled}", flush=True)


def machine() -> dict[str, Any]:
    """What the figures were measured on, without names of the machine."""
    model = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.partition("\n")[0]
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "memory GiB": round(memory / (1 << 20)),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "java": java,
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="replace").splitlines()


def commit() -> str:
    """The commit that is checked out, with "+" when the tree has changes; "unknown" outside of a clone."""
    git = ["git", "-C", str(REPOSITORY)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown"
    changes = subprocess.run([*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True, check=False).stdout
    return head.stdout.strip() + ("+" if changes.strip() else "")


def keep(path: Path, lines: list[dict[str, Any]], **more: object) -> None:
    """Writes the results over those of an earlier run: rows that were not measured now are lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rounded = [{key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in line.items()} for line in lines]
    path.write_text(json.dumps({"machine": machine(), "commit": commit(), **more, "table": rounded}, indent=1) + "\n")


def run(
    description: str | None,
    name: str,
    rows: Callable[[float], Sequence[AnyRow]],
    *,
    overrides: Mapping[str, str] | None = None,
    arguments: Sequence[str] | None = None,
) -> None:
    """The command line of a benchmark of brokers, see `run_on`."""
    settings = overrides or {}
    run_on(
        description,
        name,
        rows,
        make=lambda side, home, talking: make_broker(side, home, settings, talking),
        running=lambda folder: Peers(folder, settings).running(),
        arguments=arguments,
    )


def run_on(
    description: str | None,
    name: str,
    rows: Callable[[float], Sequence[Row[M] | ColdRow[M]]],
    *,
    make: Callable[[str, Path, str], M],
    running: Callable[[Path], AbstractContextManager[Turns[M]]],
    arguments: Sequence[str] | None = None,
) -> None:
    """The command line of a benchmark: measures, prints the table, leaves `bench/results/<name>.json`.

    `rows(scale)` are the rows with their volumes multiplied by `scale`. `make` is for cold rows (see `measure_cold`); `running(folder)`
    runs both sides for the others.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose name contains one of these words")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the volume of every row")
    parser.add_argument("--json", type=Path, help=f"where to keep the results (default with all rows: bench/results/{name}.json)")
    parser.add_argument("--folder", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    options = parser.parse_args(arguments)
    everything = rows(options.scale)
    wanted = [row for row in everything if not options.only or any(word in row.name for word in options.only)]
    if not wanted:
        parser.error("no such row")
    print(f"{'':38} {'figure':22} {'Odradek':>10} {'JVM':>10} {'ratio':>7}  target")
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="odradek-bench-") as folder:
        for number, row in enumerate(row for row in wanted if isinstance(row, ColdRow)):
            lines += _shown(summarize(measure_cold(row, Path(folder) / f"cold-{number}", make, options.rounds)))
        warm = [row for row in wanted if isinstance(row, Row)]
        if warm:
            with running(Path(folder)) as turns:
                for row in warm:
                    lines += _shown(summarize(measure(row, turns, options.rounds)))
    target = options.json or (RESULTS / f"{name}.json" if wanted == list(everything) and options.scale == 1.0 else None)
    if target is not None:
        keep(target, lines, rounds=options.rounds, scale=options.scale)
        print(f"kept in {target}", file=sys.stderr)


def _shown(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    print_lines(lines)
    return lines
