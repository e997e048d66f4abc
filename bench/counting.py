"""What it costs that a broker counts its requests: Odradek as it is, and as if it did not, with the same producer.

    python -m bench.counting [--rounds 15] [--megabytes 300]

Both brokers run side by side and take turns, as in bench/comparison.py; figures are medians of the broker's CPU, and the cost is the median
of the rounds' ratios. The second is started by this module (`start`): no API has a `Measured` there, so that no request is counted, timed,
looked at for the log of slow ones, or searched for errors. What remains in it are the sums of topics, four additions to integers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.brokers import create_topic, delete_topic, produce_load
from bench.comparison import MB, OVERRIDES, awake
from interop.peers import OdradekBroker
from odradek.cli.main import main as run_command
from odradek.metrics.requests import Requests

_MOST = 1.03
_WARM = 3


class Uncounted(OdradekBroker):
    """A broker that counts no requests."""

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.counting", "start", str(self.properties_path)]


def no_measured(self: Requests, name: str) -> Any:
    """Instead of `Requests.of`: where an API has no `Measured`, the dispatcher leaves counting out."""
    return None


def measure(folder: Path, rounds: int, megabytes: int) -> tuple[list[float], list[float]]:
    """CPU s/GB of each round: counted, uncounted."""
    brokers = (OdradekBroker(folder / "counted", OVERRIDES), Uncounted(folder / "uncounted", OVERRIDES))
    found: tuple[list[float], list[float]] = ([], [])
    try:
        for broker in brokers:
            broker.start(60)
            broker.pause()
        for number in range(_WARM + rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                with awake([brokers[side]]):
                    topic = f"load-{number}"
                    create_topic(brokers[side], topic)
                    figures = produce_load(brokers[side], topic, 1024, 16_384, megabytes * MB)
                    delete_topic(brokers[side], topic)
                if number >= _WARM:
                    found[side].append(figures["CPU s/GB"])
    finally:
        for broker in brokers:
            broker.kill()
    return found


def main() -> None:
    if sys.argv[1:2] == ["start"]:
        Requests.of = no_measured  # type: ignore[method-assign]
        sys.argv[0] = "odradek"
        run_command()
        return
    parser = argparse.ArgumentParser(description="what it costs that a broker counts its requests")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
        counted, uncounted = measure(Path(folder), options.rounds, options.megabytes)
    ratio = statistics.median(one / other for one, other in zip(counted, uncounted, strict=True))
    print(f"produce 1 KB, 16 KB batches: {statistics.median(counted):.3f} CPU s/GB counted, {statistics.median(uncounted):.3f} uncounted")
    print(f"cost: {(ratio - 1) * 100:.1f} % (target <= {(_MOST - 1) * 100:.0f} %): {'met' if ratio <= _MOST else 'MISSED'}")


if __name__ == "__main__":
    main()
