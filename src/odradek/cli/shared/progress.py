"""Progress of long work on a terminal. Without a terminal nothing is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SHOW_AFTER_S: Final = 1.0
"""Seconds until progress is shown; shorter work needs none."""


class Meter:
    """Count of records, shown on standard error after a second. With `size`, the bytes of the whole input, a bar shows the rest.

    Nothing is shown with `quiet`, which callers set when the terminal shows the records, and when standard error is not a terminal. The
    meter is a context manager, which removes the line from the terminal at its end.
    """

    def __init__(self, *, size: int | None = None, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.records = 0
        self._size = size
        self._bytes = 0
        self._clock = clock
        self._start = clock()
        self._due = float("inf") if quiet or not sys.stderr.isatty() else self._start + _SHOW_AFTER_S
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def count(self, records: int, size: int = 0) -> None:
        """Add `records` records and `size` bytes of input."""
        self.records += records
        self._bytes += size
        if (now := self._clock()) >= self._due:
            self._due = now + 0.1
            self.show()

    def summary(self) -> str:
        """Return a sentence with the number of records and the rate."""
        seconds = self._clock() - self._start
        return f"{self.records:,} record{'' if self.records == 1 else 's'} in {seconds:.1f} s ({self._per_second(seconds):,.0f} a second)"

    def _per_second(self, seconds: float) -> float:
        return self.records / seconds if seconds > 0 else 0.0

    def show(self) -> None:
        if self._shown is None:
            self._shown = _line(self._size)
        progress, task = self._shown
        text = f"{self.records:,} records, {self._per_second(self._clock() - self._start):,.0f} a second"
        progress.update(task, description=text, completed=self._bytes if self._size is not None else None)


def _line(size: int | None) -> tuple[Progress, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [TextColumn("{task.description}")]
    if size is not None:
        columns += [BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn()]
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.start()
    return progress, progress.add_task("", total=size)
