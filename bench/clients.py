"""Python clients side by side on the same broker: Odradek's, confluent-kafka, aiokafka and kafka-python, on Odradek and on JVM Kafka 4.3.1.

    python -m bench.clients [--rounds N] [--only WORD ...] [--scale FACTOR]

Every pass is a process of its own (`bench.client_work`) with 100 B records and acks=all, idempotent where it produces; the clients take
turns, and each round begins with another of them. What is kept is the median of the rounds and, for Odradek's clients, the median of the
rounds' ratios to confluent-kafka's figure. CPU is the client's own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.client_work import Figures
from bench.comparison import OVERRIDES, RESULTS, SIDES, Peers, Target, at_least, at_most, keep
from interop.peers import REPOSITORY, BrokerProcess

_TIMEOUT_S = 600


class Work(NamedTuple):
    """What each client does: so many records, and what Odradek's figures are held to, as ratios to another client's."""

    name: str
    work: str
    clients: Sequence[str]
    count: int
    targets: Mapping[str, Sequence[tuple[str, Target]]]

    @property
    def reads(self) -> bool:
        """Whether there have to be records first."""
        return self.work.endswith("consume")


_CLIENTS = ("odradek", "odradek-async", "confluent", "aiokafka", "kafka-python")
_COLUMNAR = ("odradek", "odradek-async", "confluent")
"""confluent-kafka has no columns: it goes record by record in these rows, too."""
OURS = ("odradek", "odradek-async")


def works(scale: float) -> Sequence[Work]:
    """The rows, with their volumes multiplied by `scale`."""
    rate = {"records/s": (("confluent", at_least(1)), ("aiokafka", at_least(4)))}
    reading = {"records/s": (("confluent", at_least(1)),)}
    columns = {"records/s": (("confluent", at_least(5)),)}
    latency = {"p50 us": (("confluent", at_most(1)),), "p99 us": (("confluent", at_most(1)),)}
    return (
        Work("produce, record by record", "produce", _CLIENTS, int(500_000 * scale), rate),
        Work("consume, record by record", "consume", _CLIENTS, int(1_000_000 * scale), reading),
        Work("produce, Arrow batches", "arrow-produce", _COLUMNAR, int(1_000_000 * scale), columns),
        Work("consume, Arrow batches", "arrow-consume", _COLUMNAR, int(2_000_000 * scale), columns),
        Work("one record acknowledged", "latency", _CLIENTS, int(2_000 * scale), latency),
    )


def once(client: str, work: str, broker: BrokerProcess, topic: str, count: int) -> Figures:
    """One pass in a process of its own."""
    command = [sys.executable, "-m", "bench.client_work", client, work, str(broker.port), topic, str(count)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{client} {work}: {done.stderr.strip().splitlines()[-1:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(work: Work, peers: Peers, side: str, rounds: int) -> dict[str, list[Figures]]:
    """The rounds' figures of each client. The first pass of each warms the broker up and is not counted."""
    found: dict[str, list[Figures]] = {client: [] for client in work.clients}
    for number in range(rounds + 1):
        shift = number % len(work.clients)
        for client in [*work.clients[shift:], *work.clients[:shift]]:
            with peers.turn(side) as broker:
                topic = "read" if work.reads else f"{work.work}-{client}-{number}"
                figures = once(client, work.work, broker, topic, work.count)
            if number:
                found[client].append(figures)
    return found


def fill(peers: Peers, side: str, count: int) -> None:
    """The topic that is read."""
    with peers.turn(side) as broker:
        once("confluent", "produce", broker, "read", count)


def summarize(work: Work, side: str, found: dict[str, list[Figures]]) -> list[dict[str, Any]]:
    """One line a figure: every client's median; for each of ours the ratios that are held to a target."""
    lines = []
    for figure in found[work.clients[0]][0]:
        line: dict[str, Any] = {"row": work.name, "broker": side, "figure": figure}
        for client, rounds in found.items():
            line[client] = statistics.median(each[figure] for each in rounds)
        held = []
        for ours in OURS:
            for other, target in work.targets.get(figure, ()):
                ratio = statistics.median(a[figure] / b[figure] for a, b in zip(found[ours], found[other], strict=True))
                held.append({"client": ours, "beside": other, "ratio": ratio, "target": target.text, "met": target.met(line[ours], ratio)})
        line["held"] = held
        lines.append(line)
    return lines


def show(line: dict[str, Any]) -> None:
    figures = "  ".join(f"{client} {line[client]:,.1f}" for client in _CLIENTS if client in line)
    print(f"{line['row']} ({line['broker']}), {line['figure']}: {figures}")
    for held in line["held"]:
        print(
            f"    {held['client']} / {held['beside']}: {held['ratio']:.2f} ({held['target']}) {'met' if held['met'] else 'MISSED'}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose name contains one of these words")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the volume of every row")
    options = parser.parse_args()
    everything = works(options.scale)
    wanted = [work for work in everything if not options.only or any(word in work.name for word in options.only)]
    if not wanted:
        parser.error("no such row")
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder, Peers(Path(folder), OVERRIDES).running() as peers:
        for work in wanted:
            for side in SIDES:
                if work.reads:
                    fill(peers, side, work.count)
                found = summarize(work, side, measure(work, peers, side, options.rounds))
                for line in found:
                    show(line)
                lines += found
    if wanted == list(everything) and options.scale == 1.0:
        keep(RESULTS / "clients.json", lines, rounds=options.rounds)


if __name__ == "__main__":
    main()
