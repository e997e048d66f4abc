"""Coordinators and leaders that move between three brokers: `python -m tests.campaigns.coordinator_moves --seed 1 --seeds 500`.

One seed is one run (tests/simulation/moves.py): producers with transactions over a network that loses, repeats and delays, while the
leaders of `__transaction_state`, `__consumer_offsets` and of the producers' partitions move in the middle of requests. A failing seed is
printed; `--seed N --seeds 1` repeats it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.moves import play


def campaign(seed: int, seeds: int) -> tuple[list[str], int]:
    """Play the seeds. Return the problems, and the number of transactions that ended as their producers were told."""
    problems: list[str] = []
    told = 0
    logging.disable(logging.CRITICAL)
    try:
        for number in range(seed, seed + seeds):
            found, story = play(number)
            told += len(story.told)
            problems += [f"seed {number}: {problem}" for problem in found]
    finally:
        logging.disable(logging.NOTSET)
    return problems, told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    options = parser.parse_args()
    begin = time.process_time()
    failed = told = 0
    for number in range(options.seed, options.seed + options.seeds):
        problems, ended = campaign(number, 1)
        told += ended
        failed += bool(problems)
        for problem in problems[:10]:
            print(problem, flush=True)
        done = number - options.seed + 1
        if done % 50 == 0 or done == options.seeds:
            print(f"{done} seeds in {time.process_time() - begin:.0f} s of CPU, {told} transactions, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
