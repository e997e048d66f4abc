"""Output of commands: tables for people, JSON for programs.

Clients choose the names of groups, members and transactions, so a name may contain control characters. A table escapes them: a name cannot
begin a line or move the cursor.
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
"""Row of a table: JSON values by column name. The names are in snake_case, in the order of the columns."""

TABLE: Final[Output] = "table"
JSON: Final[Output] = "json"
_GAP: Final = "  "
_UNKNOWN: Final = "-"


def output_option(function: F) -> F:
    """Add `-o table|json`, and `-J` for `-o json`, to a command, as the parameter `output`."""
    chosen = click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice([TABLE, JSON]),
        default=TABLE,
        show_default=True,
        help="A table, or JSON for programs.",
    )
    json_flag = click.option("-J", "--json", "output", flag_value=JSON, help="The same as -o json.")
    return chosen(json_flag(function))


def show(rows: Sequence[Row], output: Output, columns: Sequence[str] | None = None) -> None:
    """Print rows as a table of `columns`, or with all their values as one JSON array. By default the columns are those of the first row.

    Without rows print an empty JSON array, or no table.
    """
    if output == JSON:
        click.echo(json.dumps(list(rows)))
    elif rows:
        click.echo("\n".join(table(rows, list(rows[0]) if columns is None else columns)))


def table(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return the lines of a table: headers in capitals, numbers aligned to the right, `-` for unknown and empty values."""
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
