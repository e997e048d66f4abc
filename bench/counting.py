"""What it costs that a broker counts its requests: Odradek as it is, and as if it did not, with the same producer.

    python -m bench.counting [--rounds 400] [--megabytes 50]

One process is measured in turns, as two of the same program differ by some percent by where their memory lies. It is started by this module
(`start`), and SIGUSR1 takes counting out of it or puts it back: no API has a `Measured` then, so that no request is counted, timed, looked
at for the log of slow ones, or searched for errors. What remains are the sums of topics, four additions to integers. Figures are medians of
the broker's CPU, and the cost is the median of the rounds' ratios: rounds are many and short, as what else a machine does lasts longer.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.brokers import create_topic, delete_topic, produce_load
from bench.comparison import MB, OVERRIDES, be_ready
from interop.peers import OdradekBroker
from odradek.cli.main import main as run_command
from odradek.server.requests.dispatch import Route

_MOST = 1.03
_WARM = 20
_OF_TOPIC = 20
"""Rounds that write to one topic."""


class Switched(OdradekBroker):
    """A broker that counts requests or does not."""

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.counting", "start", str(self.properties_path)]

    def switch(self) -> None:
        os.kill(self.pid, signal.SIGUSR1)


def start() -> None:
    """The broker's process."""
    routes: list[Route] = []
    measured: list[Any] = []
    made = Route.__init__

    def remember(self: Route, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        routes.append(self)

    def switch(*_: object) -> None:
        taken: list[Any] = [route.measured for route in routes]
        others: list[Any] = measured or [None] * len(routes)
        for route, other in zip(routes, others, strict=True):
            route.measured = other
        measured[:] = taken

    Route.__init__ = remember  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, switch)
    sys.argv[0] = "odradek"
    run_command()


def cpu_seconds(broker: OdradekBroker) -> float:
    """What all its threads have used, to the nanosecond; /proc/PID/stat has hundredths of a second."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{broker.pid}/task").glob("*/schedstat")) / 1e9


def measure(folder: Path, rounds: int, megabytes: int) -> tuple[list[float], list[float]]:
    """CPU s/GB of each round: counted, uncounted."""
    broker = Switched(folder / "broker", OVERRIDES)
    found: tuple[list[float], list[float]] = ([], [])
    try:
        broker.start(60)
        counts = True
        for number in range(_WARM + rounds):
            topic = f"load-{number // _OF_TOPIC}"
            if number % _OF_TOPIC == 0:
                create_topic(broker, topic)
                be_ready()
            for counted in (True, False) if number % 2 == 0 else (False, True):
                if counted != counts:
                    broker.switch()
                    counts = counted
                before = cpu_seconds(broker)
                produce_load(broker, topic, 1024, 16_384, megabytes * MB)
                if number >= _WARM:
                    found[0 if counted else 1].append((cpu_seconds(broker) - before) * 1000 / megabytes)
            if number % _OF_TOPIC == _OF_TOPIC - 1:
                delete_topic(broker, topic)
    finally:
        broker.kill()
    return found


def main() -> None:
    if sys.argv[1:2] == ["start"]:
        start()
        return
    parser = argparse.ArgumentParser(description="what it costs that a broker counts its requests")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--megabytes", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        counted, uncounted = measure(Path(folder), options.rounds, options.megabytes)
    ratios = [one / other for one, other in zip(counted, uncounted, strict=True)]
    quarter = max(len(ratios) // 4, 1)
    parts = [f"{(statistics.median(ratios[at : at + quarter]) - 1) * 100:.1f}" for at in range(0, len(ratios), quarter)]
    ratio = statistics.median(ratios)
    print(f"produce 1 KB, 16 KB batches: {statistics.median(counted):.3f} CPU s/GB counted, {statistics.median(uncounted):.3f} uncounted")
    print(f"cost in each quarter of the rounds: {', '.join(parts)} %")
    print(f"cost: {(ratio - 1) * 100:.1f} % (target <= {(_MOST - 1) * 100:.0f} %): {'met' if ratio <= _MOST else 'MISSED'}")


if __name__ == "__main__":
    main()
