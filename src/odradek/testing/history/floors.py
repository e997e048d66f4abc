"""A value that may only rise and that several operations report: what was known of it at a given time, and from which operation."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class Floor:
    """The highest value told up to each moment. Values come in order of time."""

    def __init__(self) -> None:
        self._times = array("d")
        self._values = array("q")
        self._witnesses = array("i")

    def before(self, time: float) -> tuple[int, int]:
        """The highest value that had been told before a time, and the number of the operation that told it; (-1, -1): none."""
        place = bisect_left(self._times, time) - 1
        return (self._values[place], self._witnesses[place]) if place >= 0 else (-1, -1)

    def raise_to(self, time: float, value: int, witness: int) -> None:
        """Notes a value that an operation told; one that is no larger than what is known changes nothing."""
        if not self._values or value > self._values[-1]:
            self._times.append(time)
            self._values.append(value)
            self._witnesses.append(witness)

    def forget(self) -> None:
        """Forgets all values: an unclean election was allowed to lose records, so that lower ones may follow."""
        del self._times[:], self._values[:], self._witnesses[:]
