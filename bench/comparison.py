"""What every benchmark of brokers shares: rounds on one broker and then on the other, targets, the table of medians and ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MB = 1_000_000
Figures = dict[str, float]
Rows = dict[str, Figures]
Measure = Callable[[str, Path, Callable[[str], bool], float], Rows]
"""(broker's name, its empty folder, which rows are wanted, scale of the volumes) -> the rows of one round."""

SIDES = ("odradek", "jvm")


class Target:
    """What a figure is held to: ours against theirs, `ratio` (ours/theirs) at least or at most, or `limit` on ours."""

    def __init__(self, text: str, *, ratio_min: float | None = None, ratio_max: float | None = None, limit: float | None = None) -> None:
        self.text, self.ratio_min, self.ratio_max, self.limit = text, ratio_min, ratio_max, limit

    def met(self, ours: float, ratio: float) -> bool:
        if self.ratio_min is not None:
            return ratio >= self.ratio_min
        if self.ratio_max is not None:
            return ratio <= self.ratio_max
        return self.limit is not None and ours <= self.limit


def compare(measure: Measure, rounds: int, wanted: Callable[[str], bool], scale: float, folder: Path) -> list[dict[str, Rows]]:
    """Each side once a round, in a fresh folder, removed afterwards; one broker lives at a time, and they take turns at being first."""
    results = []
    for number in range(rounds):
        result = {}
        for name in SIDES if number % 2 == 0 else reversed(SIDES):
            home = folder / f"{name}-{number}"
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            result[name] = measure(name, home, wanted, scale)
            shutil.rmtree(home, ignore_errors=True)
        results.append(result)
    return results


def summarize(results: list[dict[str, Rows]], targets: Mapping[tuple[str, str], Target]) -> list[dict[str, Any]]:
    """One line a figure: both medians, and the median of the rounds' ratios."""
    table = []
    for row, figures in results[0]["odradek"].items():
        for figure in figures:
            ours = [result["odradek"][row][figure] for result in results]
            theirs = [result["jvm"][row][figure] for result in results]
            ratio = statistics.median(mine / other if other else 0.0 for mine, other in zip(ours, theirs, strict=True))
            target = targets.get((row, figure))
            median = statistics.median(ours)
            table.append(
                {
                    "row": row,
                    "figure": figure,
                    "odradek": median,
                    "jvm": statistics.median(theirs),
                    "ratio": ratio,
                    "target": target.text if target else "",
                    "met": target.met(median, ratio) if target else None,
                }
            )
    return table


def print_table(table: list[dict[str, Any]]) -> None:
    print(f"{'':36} {'figure':22} {'Odradek':>10} {'JVM':>10} {'ratio':>7}  target")
    for line in table:
        verdict = {True: "met", False: "MISSED", None: ""}[line["met"]]
        figures = f"{line['odradek']:10.2f} {line['jvm']:10.2f} {line['ratio']:7.2f}"
        print(f"{line['row']:36} {line['figure']:22} {figures}  {line['target']:9} {verdict}")


def run(description: str | None, measure: Measure, targets: Mapping[tuple[str, str], Target], name: str, *, rounds: int = 3) -> None:
    """The command line of a benchmark: measures, prints the table, leaves `bench/results/<name>.json`."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose name contains one of these words")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the volume of every row")
    parser.add_argument("--json", type=Path, default=Path(f"bench/results/{name}.json"))
    parser.add_argument("--folder", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    options = parser.parse_args()

    def wanted(row: str) -> bool:
        return not options.only or any(word in row for word in options.only)

    with tempfile.TemporaryDirectory(dir=options.folder, prefix="odradek-bench-") as folder:
        results = compare(measure, options.rounds, wanted, options.scale, Path(folder))
    table = summarize(results, targets)
    print_table(table)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
    options.json.write_text(json.dumps({"machine": machine, "rounds": results, "table": table}, indent=2) + "\n")
