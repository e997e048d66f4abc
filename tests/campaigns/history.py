"""Tests of the history checker: each anomaly is put into clean histories and must be found; in clean histories nothing may be found.

    python -m tests.campaigns.history --histories 1000 --seed 1

Each history gets, one at a time, every anomaly that it has a place for (without the restart of a static member it has none for
"static-rebalance"). Missed and false anomalies are printed with their seed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field

from odradek.testing.history import Copy, Event, Report, examine
from tests.campaigns.history_seeds import SEEDS, Editor
from tests.campaigns.history_world import OPTIONS, clean_history, copied


@dataclass
class Run:
    """Results of a campaign."""

    histories: int = 0
    false: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    seeded: Counter[str] = field(default_factory=Counter)
    """Seeding function -> number of histories with its anomaly."""


def judge(events: list[Event]) -> Report:
    """Check a history with the options of these tests."""
    return examine(events, copies=[Copy("in", "out", copied)], unavailable_after=50, **OPTIONS)


def campaign(histories: int, seed: int, *, verbose: bool = False) -> Run:
    """Check `histories` histories, clean and with each anomaly."""
    run = Run()
    for number in range(seed, seed + histories):
        events = clean_history(number)
        run.histories += 1
        report = judge(events)
        run.false += [f"seed {number}: {anomaly}" for anomaly in report.anomalies]
        for function, (name, seeding) in SEEDS.items():
            editor = Editor(events, number)
            if not seeding(editor):
                continue
            run.seeded[function] += 1
            if name not in judge(editor.events).counts:
                run.missed.append(f"seed {number}: {name} by {function}")
        if verbose and run.histories % 100 == 0:
            print(
                f"{run.histories} histories, {run.seeded.total()} anomalies, {len(run.missed)} missed, {len(run.false)} false", flush=True
            )
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    run = campaign(options.histories, options.seed, verbose=True)
    for each in (*run.false, *run.missed):
        print(each, file=sys.stderr)
    for function, count in run.seeded.items():
        print(f"{count:7} {SEEDS[function][0]} ({function})")
    total = run.seeded.total()
    print(f"{run.histories} clean histories, {len(run.false)} false anomalies")
    print(f"{total} anomalies seeded, {total - len(run.missed)} caught, {len(run.missed)} missed")
    return 1 if run.false or run.missed or any(not run.seeded[function] for function in SEEDS) else 0


if __name__ == "__main__":
    sys.exit(main())
