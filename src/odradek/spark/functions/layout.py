"""Layout of a Spark value in a row of plain values: structs are taken apart, so that each place of the row is a column."""

from __future__ import annotations

from typing import NamedTuple


class Leaf(NamedTuple):
    """Value at one place. Structs within arrays, maps and unions are dicts, and maps are lists of pairs."""

    place: int


class Group(NamedTuple):
    """Struct. The value at `place` tells whether the struct is present; without a place (None) it always is."""

    place: int | None
    fields: tuple[tuple[str, Layout], ...]


Layout = Leaf | Group


def places(layout: Layout) -> list[int]:
    """Return all places of the row that a layout uses."""
    if isinstance(layout, Leaf):
        return [layout.place]
    own = [] if layout.place is None else [layout.place]
    return own + [place for _, each in layout.fields for place in places(each)]
