"""Thousands of starts and stops of embedded brokers: python -m tests.campaigns.embedded_starts --count 10000 --seed 1

A seed chooses for each start: in a thread or in a separate process (one in `--processes`), on disk or in memory, alone or with others at
the same time (up to six). It also chooses the events: a client writes a record and reads it; in between the broker may be killed or
restarted, or its clock advanced by a day; at the end the broker is stopped in order or killed. A flake is a failed start, a record that is
not read back, or a port, directory, thread or process that is left at the end. No flake is allowed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client import Consumer, Producer
from odradek.testing.kit.embedded import EmbeddedBroker

_AT_ONCE = 6
_WAIT_MS = 20_000
_EXIT_S = 20.0


class Plan(NamedTuple):
    """One start and the events after it."""

    number: int
    process: bool
    memory: bool
    between: str
    end: str


class Run(NamedTuple):
    """Results of a campaign."""

    problems: list[str]
    started: Counter[str]
    start_ms: list[float]
    """Milliseconds of starts of brokers in threads that were started alone."""


def plans(count: int, seed: int, processes: int) -> Iterator[list[Plan]]:
    """Yield the starts, in groups of starts at the same time."""
    rng = random.Random(seed)
    number = 0
    while number < count:
        together = min(count - number, 1 if rng.random() < 0.5 else rng.randint(2, _AT_ONCE))
        yield [
            Plan(
                number + index,
                rng.randrange(processes) == 0,
                rng.random() < 0.5,
                rng.choice(["nothing", "nothing", "kill", "restart", "advance"]),
                rng.choice(["stop", "stop", "kill"]),
            )
            for index in range(together)
        ]
        number += together


def live(plan: Plan) -> tuple[str | None, float]:
    """Return a problem, or None, and the milliseconds of the start."""
    value = b"%d" % plan.number
    broker = EmbeddedBroker(topics=["t"], process=plan.process, memory=plan.memory)
    try:
        begin = time.perf_counter()
        broker.start()
        took_ms = (time.perf_counter() - begin) * 1000
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            offset = producer.send("t", value, partition=0).result(_WAIT_MS / 1000).offset
        if plan.between == "kill":
            broker.kill()
            broker.start()
        elif plan.between == "restart":
            broker.restart()
        elif plan.between == "advance":
            broker.clock.advance(86_400)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            found = [record.value for record in consumer.poll(_WAIT_MS)]
        if offset != 0 or found != [value]:
            return f"{plan}: wrote offset {offset}, read {found!r}", took_ms
        if plan.end == "kill":
            broker.kill()
        return None, took_ms
    except Exception as error:
        return f"{plan}: {type(error).__name__}: {error}", 0.0
    finally:
        broker.stop()


def left(folder: Callable[[], set[str]], threads: Callable[[], set[threading.Thread]], descriptors: int) -> list[str]:
    """Return the directories, threads and descriptors that are left, as problems. Wait up to 20 s for them to disappear."""
    problems = []
    deadline = time.monotonic() + _EXIT_S
    while time.monotonic() < deadline and (folder() or threads() or _descriptors() > descriptors):
        time.sleep(0.05)
    if folder():
        problems.append(f"directories are left: {sorted(folder())[:5]}")
    if threads():
        problems.append(f"threads are left: {sorted(thread.name for thread in threads())}")
    if _descriptors() > descriptors:
        problems.append(f"{_descriptors() - descriptors} descriptors are left")
    return problems


def _threads() -> set[threading.Thread]:
    """Return the threads of brokers of this process."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("odradek-embedded")}


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _folders() -> set[str]:
    """Return the directories of brokers of this process."""
    from odradek.testing.kit.temporary import roots

    return {str(each) for root in roots() for each in Path(root).glob("broker-*")}


def campaign(count: int, seed: int, *, processes: int = 20, say: Callable[[str], object] = lambda _: None) -> Run:
    """Start `count` brokers, one in `processes` of them in a separate process."""
    live(Plan(-1, process=True, memory=False, between="nothing", end="stop"))  # loads and opens whatever is loaded or opened only once
    live(Plan(-1, process=False, memory=True, between="nothing", end="stop"))
    run = Run([], Counter(), [])
    before, running, descriptors = _folders(), _threads(), _descriptors()  # other brokers of this process may be running
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for group in plans(count, seed, processes):
            for plan, (problem, took_ms) in zip(group, pool.map(live, group), strict=True):
                run.started["process" if plan.process else "thread"] += 1
                run.started[plan.between] += 1
                if problem is not None:
                    run.problems.append(problem)
                    say(problem)
                elif len(group) == 1 and not plan.process:
                    run.start_ms.append(took_ms)
            total = run.started["process"] + run.started["thread"]
            if total // 500 != (total - len(group)) // 500:
                say(f"{total} of {count} started, {len(run.problems)} flakes")
    run.problems.extend(left(lambda: _folders() - before, lambda: _threads() - running, descriptors))
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description="embedded brokers, started and stopped many times")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=20, help="one start in so many is a process of its own")
    options = parser.parse_args()
    begin = time.monotonic()
    run = campaign(options.count, options.seed, processes=options.processes, say=lambda line: print(line, flush=True))
    for problem in run.problems:
        print(problem)
    started = sorted(run.start_ms) or [0.0]
    print(
        f"{options.count} starts ({', '.join(f'{number} {what}' for what, number in sorted(run.started.items()))}) in "
        f"{time.monotonic() - begin:.0f} s: {len(run.problems)} flakes; in a thread, alone: "
        f"{started[len(started) // 2]:.0f} ms in the median, {started[int(len(started) * 0.99)]:.0f} ms at p99"
    )
    sys.exit(1 if run.problems else 0)


if __name__ == "__main__":
    main()
