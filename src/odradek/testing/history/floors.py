"""Lower bound of a number that may only rise, such as an offset, with the operations that reported the number."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class Floor:
    """Highest number reported up to each moment. Numbers are added in order of time."""

    def __init__(self) -> None:
        self._times = array("d")
        self._values = array("q")
        self._witnesses = array("i")

    def before(self, time: float) -> tuple[int, int]:
        """Return the highest number reported before a time, and the operation that reported it; (-1, -1) without a report."""
        place = bisect_left(self._times, time) - 1
        return (self._values[place], self._witnesses[place]) if place >= 0 else (-1, -1)

    def raise_to(self, time: float, value: int, witness: int) -> None:
        """Add a number reported by an operation. A number that is not above the highest changes nothing."""
        if not self._values or value > self._values[-1]:
            self._times.append(time)
            self._values.append(value)
            self._witnesses.append(witness)

    def forget(self) -> None:
        """Remove all numbers: after an unclean election, which may lose records, lower numbers may follow."""
        del self._times[:], self._values[:], self._witnesses[:]
