"""What commands print: tables for people, JSON for programs.

Clients choose the names of groups, members and transactions, and brokers hand them on: no name makes a line or moves the cursor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

import click

from odradek.base.text import printable

F = TypeVar("F", bound=Callable[..., object])

Output: TypeAlias = Literal["table", "json"]
Row: TypeAlias = Mapping[str, object]
"""One line of a table: names in snake_case, in the order of the columns. Values are those of JSON."""

TABLE: Final[Output] = "table"
JSON: Final[Output] = "json"
_GAP: Final = "  "
_UNKNOWN: Final = "-"


def output_option(function: F) -> F:
    """`-o table|json`, and `-J` for `-o json`, as the parameter `output`."""
    chosen = click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice([TABLE, JSON]),
        default=TABLE,
        show_default=True,
        help="Table, or JSON for programs.",
    )
    shortly = click.option("-J", "--json", "output", flag_value=JSON, help="The same as -o json.")
    return chosen(shortly(function))


def show(rows: Sequence[Row], output: Output, columns: Sequence[str] | None = None) -> None:
    """Prints rows: as a table of `columns` (all that the first row has when left out), or everything in them as one JSON array.

    Nothing is printed of no rows as a table; of no rows as JSON, an empty array.
    """
    if output == JSON:
        click.echo(json.dumps(list(rows)))
    elif rows:
        click.echo("\n".join(table(rows, list(rows[0]) if columns is None else columns)))


def table(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """The lines of a table: headers in capitals, numbers to the right, `-` for what is not known."""
    grid = [[column.replace("_", "-").upper() for column in columns], *[[_cell(row[column]) for column in columns] for row in rows]]
    widths = [max(map(len, cells)) for cells in zip(*grid, strict=True)]
    numeric = [all(row[column] is None or type(row[column]) in (int, float) for row in rows) for column in columns]
    lines: list[str] = []
    for cells in grid:
        padded = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(cells, widths, numeric, strict=True)]
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _cell(value: object) -> str:
    match value:
        case None | "" | [] | ():
            return _UNKNOWN
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return printable(",".join(map(str, value)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case dict():
            return printable(",".join(f"{name}={each}" for name, each in value.items()))  # pyright: ignore[reportUnknownVariableType]
        case _:
            return printable(str(value))
