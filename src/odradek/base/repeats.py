"""Names that a request repeats.

Kafka answers a name as often as it is asked for in most of its APIs. Answers can be a thousand times as long as names, so the first
`MOST_REPEATS` repeats of a request are answered as in Kafka, and further ones are left out (docs/differences.md). Whatever answers names
goes through here, unless what it answers for a name is not longer than the name, or Kafka answers each name once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

N = TypeVar("N", bound=Hashable)

MOST_REPEATS: Final = 8


class Repeats:
    """The names of one request, counted."""

    __slots__ = ("_left", "_seen")

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._left = MOST_REPEATS

    def answered(self, name: Hashable) -> bool:
        """Return whether a name is answered here: where it comes first, and where it is one of the first repeats of the request."""
        if name not in self._seen:
            self._seen.add(name)
            return True
        self._left -= 1
        return self._left >= 0


def answered(names: Iterable[N]) -> list[N]:
    """Return the names in their order, without the repeats that are not answered."""
    repeats = Repeats()
    return [name for name in names if repeats.answered(name)]
