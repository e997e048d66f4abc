"""How a row of plain values stands for a value of a Spark type: structs are taken apart, so that each place of the row is a column."""

from __future__ import annotations

from typing import NamedTuple


class Leaf(NamedTuple):
    """The value at one place. Structs within arrays, maps and unions are dicts there, maps lists of pairs."""

    place: int


class Group(NamedTuple):
    """A struct. What stands at `place` says whether it is there; None: it always is."""

    place: int | None
    fields: tuple[tuple[str, Layout], ...]


Layout = Leaf | Group


def places(layout: Layout) -> list[int]:
    """All places of the row that a layout takes."""
    if isinstance(layout, Leaf):
        return [layout.place]
    own = [] if layout.place is None else [layout.place]
    return own + [place for _, each in layout.fields for place in places(each)]
