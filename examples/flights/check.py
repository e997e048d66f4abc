"""Compares what the pipeline made with the same figures straight from the data set, and prints the table.

    python examples/flights/check.py WAREHOUSE

Ends with status 1 when one figure differs.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pandas
from dataset import flights
from rich.console import Console
from rich.table import Table


def check(warehouse: Path, console: Console) -> list[str]:
    """Prints the materialized view and returns what differs from the data set."""
    source = flights()
    differences: list[str] = []
    table = pandas.read_parquet(warehouse / "flights", columns=["carrier", "origin"])
    for origin, expected in source.groupby("origin").size().items():
        found = int((table["origin"] == origin).sum())
        if found != expected:
            differences.append(f"table flights: {found:,} rows from {origin}, the data set has {expected:,}")
    if len(table) != len(source):
        differences.append(f"table flights: {len(table):,} rows, the data set has {len(source):,}")
    made = pandas.read_parquet(warehouse / "arrival_delay_by_carrier").set_index("carrier").sort_index()
    wanted = source.groupby("carrier").agg(flights=("flight", "size"), mean_arrival_delay=("arr_delay", "mean")).sort_index()
    if list(made.index) != list(wanted.index):
        differences.append(f"view arrival_delay_by_carrier: carriers {list(made.index)}, the data set has {list(wanted.index)}")
    view = Table(title="Mean arrival delay by carrier, New York 2013 (from the pipeline)")
    for heading in ("carrier", "flights", "mean arrival delay (min)", "the same from the CSV"):
        view.add_column(heading, justify="left" if heading == "carrier" else "right")
    for carrier in made.sort_values("mean_arrival_delay", ascending=False).index:
        row, expected_row = made.loc[carrier], wanted.loc[carrier] if carrier in wanted.index else None
        mean, expected_mean = (
            float(row["mean_arrival_delay"]),
            float(expected_row["mean_arrival_delay"]) if expected_row is not None else math.nan,
        )
        same = (
            expected_row is not None
            and int(row["flights"]) == int(expected_row["flights"])
            and math.isclose(mean, expected_mean, rel_tol=1e-12)
        )
        if not same:
            differences.append(f"view arrival_delay_by_carrier: {carrier} has {row.to_dict()}, the data set says {expected_row}")
        view.add_row(str(carrier), f"{int(row['flights']):,}", f"{mean:.4f}", f"{expected_mean:.4f} {'=' if same else '≠'}")
    console.print(view)
    return differences


def main() -> None:
    """The command line."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    differences = check(Path(sys.argv[1]), Console())
    for difference in differences:
        print(f"DIFFERENT  {difference}", file=sys.stderr)
    raise SystemExit(1 if differences else 0)


if __name__ == "__main__":
    main()
