"""Interleavings of requests, faults and timers against the pure coordinators, in virtual time.

    python -m tests.campaigns.coordinator_interleavings --core classic|consumer|transaction|all --count 200000 --seed 1

One interleaving is a random script of 20 to 60 steps. Members or producers send requests that are lost, repeated, delayed and reordered.
Timers fire, appends fail or commit late, and the partition's leader changes in the middle, with a compacted log or not. The invariants are
named where they are checked (`tests/campaigns/interleavings/`). A failure prints its core, seed and number; `--core C --seed S --only N`
repeats it. Rates are per CPU second.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tests.campaigns.interleavings import classic, consumer, transactions
from tests.campaigns.interleavings.world import ViolationError


class Story(Protocol):
    replays: int
    reverted: int

    def run(self, steps: int) -> None: ...

    def end(self) -> None: ...


CORES: dict[str, Callable[[random.Random], Story]] = {
    "classic": classic.Story,
    "consumer": consumer.Story,
    "transaction": transactions.Story,
}


class Failure(NamedTuple):
    core: str
    seed: int
    number: int
    what: str

    def __str__(self) -> str:
        return f"--core {self.core} --seed {self.seed} --only {self.number}: {self.what}"


class Run:
    """Results of some interleavings."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.counts: Counter[str] = Counter()

    def play(self, core: str, seed: int, number: int, *, verbose: bool = False) -> None:
        rng = random.Random(seed * 1_000_000_007 + number)
        try:
            story = CORES[core](rng)
            story.run(rng.randint(20, 60))
            story.end()
        except Exception as error:
            named = str(error) if isinstance(error, ViolationError) else f"{type(error).__name__}: {error}"
            self.failures.append(Failure(core, seed, number, named))
            if verbose:
                traceback.print_exc()
            return
        finally:
            self.counts["interleavings"] += 1
        self.counts["replays"] += story.replays
        self.counts["reverts"] += story.reverted


_PROGRESS = 5_000
_ENOUGH = 20
"""Number of failures after which a core is not tried further."""


def campaign(
    cores: list[str], seed: int, numbers: range, *, verbose: bool = False, progress: Callable[[str], object] = lambda line: None
) -> Run:
    """Play all interleavings, core by core."""
    run = Run()
    logging.disable(logging.CRITICAL)
    try:
        for core in cores:
            begin = time.process_time()
            before, failed = len(run.failures), 0
            for number in numbers:
                run.play(core, seed, number, verbose=verbose)
                if len(run.failures) - before > failed:
                    failed += 1
                    progress(str(run.failures[-1]))
                done = number - numbers.start + 1
                if failed == _ENOUGH or done % _PROGRESS == 0 or number == numbers[-1]:
                    took = time.process_time() - begin
                    progress(f"{core}: {done} interleavings in {took:.1f} s of CPU ({done / took:.0f}/s), {failed} failed")
                if failed == _ENOUGH:
                    break
    finally:
        logging.disable(logging.NOTSET)
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", choices=[*CORES, "all"], default="all")
    parser.add_argument("--count", type=int, default=10_000, help="interleavings of all cores together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one interleaving")
    options = parser.parse_args()
    cores = list(CORES) if options.core == "all" else [options.core]
    numbers = range(options.only, options.only + 1) if options.only is not None else range(options.count // len(cores))
    run = campaign(cores, options.seed, numbers, verbose=options.only is not None, progress=lambda line: print(line, flush=True))
    print(f"{dict(run.counts)}, {len(run.failures)} failed")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
