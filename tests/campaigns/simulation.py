"""Simulated runs of a whole broker on virtual time, network and disk: `python -m tests.campaigns.simulation --seed 1 --count 300`.

One seed is one run (tests/simulation/scenario.py): kills, power cuts, restarts, cuts and slow links under producers, readers and admin
clients. The checkers of `odradek.testing.simulation.simulated_history` judge the run. A failing seed is printed; `--seed N --count 1`
repeats it, and `--trace FILE` writes its events.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.simulation.scenario import FLUSHED, KILLS, UNFLUSHED, play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many seeds")
    parser.add_argument("--mode", choices=(KILLS, FLUSHED, UNFLUSHED), help="instead of the seed's own choice")
    parser.add_argument("--seconds", type=float, default=60.0, help="virtual seconds of faults")
    parser.add_argument("--trace", type=Path, help="where to write the events of the last story")
    options = parser.parse_args()
    failed: list[int] = []
    begin = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        start = time.monotonic()
        outcome = play(seed, mode=options.mode, virtual_s=options.seconds, keep_trace=options.trace is not None)
        print(f"{outcome}, {time.monotonic() - start:.1f} s", flush=True)
        if outcome.problems:
            failed.append(seed)
            for problem in outcome.problems[:20]:
                print(f"  {problem}", flush=True)
        if options.trace is not None:
            options.trace.write_text("\n".join(outcome.trace_lines) + "\n")
    print(f"{options.count} seeds in {time.monotonic() - begin:.0f} s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
