"""Simulated runs of whole clusters on virtual time, network and disks: `python -m tests.campaigns.cluster --seed 1 --count 5000`.

One seed is one run (tests/simulation/whole/): three to eight nodes with clients of all kinds. Its faults are kills, power cuts, pauses,
cuts and slow links, wrong clocks, and slow and failing disks. All faults end before the end of the run. Six families of promises are
checked: raft, controller, replication, coordinators, liveness, traffic. A failing seed prints the violations and the command that repeats
the run. `--trace FILE` writes all events of the last run. `--mode` overrides the seed's choice of how nodes end. `--jobs` processes share
the seeds.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.simulation.whole.plan import FLUSHED, KILLS, UNFLUSHED, Plan
from tests.simulation.whole.story import play

_SHOWN = 20


class Played(NamedTuple):
    """Result of one seed."""

    seed: int
    summary: str
    problems: list[str]
    cpu_s: float
    virtual_s: float


def play_seed(seed: int, seconds: float, mode: str | None, trace: Path | None) -> Played:
    """Play one seed and return the result."""
    begin = time.process_time()
    outcome = play(seed, virtual_s=seconds, plan=Plan(seed, mode=mode), keep_trace=trace is not None)
    gc.collect()  # a run's objects form one big reference cycle
    if trace is not None:
        trace.write_text("\n".join(outcome.trace_lines) + "\n")
    return Played(seed, str(outcome), outcome.problems, time.process_time() - begin, outcome.virtual_s)


def campaign(seeds: range, *, seconds: float = 60.0, mode: str | None = None, trace: Path | None = None, jobs: int = 1) -> Iterator[Played]:
    """Play all seeds, and yield the results in order."""
    if jobs == 1:
        for seed in seeds:
            yield play_seed(seed, seconds, mode, trace)
        return
    with ProcessPoolExecutor(jobs) as pool:
        count = len(seeds)
        yield from pool.map(play_seed, seeds, [seconds] * count, [mode] * count, [trace] * count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many seeds")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds of faults")
    parser.add_argument("--mode", choices=(KILLS, FLUSHED, UNFLUSHED), help="instead of the seed's own choice")
    parser.add_argument("--trace", type=Path, help="where to write the events of the last story")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--quiet", action="store_true", help="say only what is wrong")
    options = parser.parse_args()
    failed: list[int] = []
    cpu_s = virtual_s = 0.0
    seeds = range(options.seed, options.seed + options.count)
    for played in campaign(seeds, seconds=options.seconds, mode=options.mode, trace=options.trace, jobs=options.jobs):
        cpu_s += played.cpu_s
        virtual_s += played.virtual_s
        if played.problems or not options.quiet:
            print(f"{played.summary}, {played.cpu_s:.1f} s of CPU", flush=True)
        if played.problems:
            failed.append(played.seed)
            for problem in played.problems[:_SHOWN]:
                print(f"  {problem}", flush=True)
            mode = f" --mode {options.mode}" if options.mode else ""
            print(
                f"  again: python -m tests.campaigns.cluster --seed {played.seed} --count 1 --seconds {options.seconds:g}{mode} --trace F"
            )
    print(
        f"{options.count} seeds, {virtual_s:.0f} virtual s in {cpu_s:.0f} s of CPU ({cpu_s / max(virtual_s, 1) * 1000:.0f} ms a second), "
        f"{len(failed)} failed: {failed}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
