"""Repeated names in a request.

In most of its APIs Kafka answers a name each time that a request contains it. An answer can be a thousand times as long as its name.
Therefore the first `MOST_REPEATS` repeats of a request are answered as in Kafka, and further ones are left out (docs/differences.md). All
code that answers names uses this module, unless the answer is not longer than the name, or Kafka answers each name once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

N = TypeVar("N", bound=Hashable)

MOST_REPEATS: Final = 8


class Repeats:
    """Names of one request that have been answered."""

    __slots__ = ("_left", "_seen")

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._left = MOST_REPEATS

    def answered(self, name: Hashable) -> bool:
        """Return whether to answer a name: always at its first occurrence, and for at most `MOST_REPEATS` repeats in the whole request."""
        if name not in self._seen:
            self._seen.add(name)
            return True
        self._left -= 1
        return self._left >= 0


def answered(names: Iterable[N]) -> list[N]:
    """Return the names in their order, without the repeats that are not answered."""
    repeats = Repeats()
    return [name for name in names if repeats.answered(name)]
