"""Gives freed memory back to the system (ADR 7).

glibc keeps what was freed in the middle of its heaps. `malloc_trim` gives the whole pages among it back: in some tens of milliseconds for
100 MB, and in a tenth of a millisecond where there is nothing to give. Where the C library has no such function nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.base.clock import Clock, TimerHandle

INTERVAL_S = 10.0


def find_trim() -> Callable[[], object] | None:
    """What gives the freed pages back; None where the C library has no malloc_trim."""
    import ctypes

    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    malloc_trim.argtypes = (ctypes.c_size_t,)
    malloc_trim.restype = ctypes.c_int
    # A call by ctypes does not hold the interpreter's lock.
    return lambda: malloc_trim(0)


class MemoryKeeper:
    """Trims every `INTERVAL_S` in the loop's executor, from `start` to `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, trim: Callable[[], object] | None) -> None:
        self._loop = loop
        self._clock = clock
        self._trim = trim
        self._timer: TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        if self._trim is not None:
            self._timer = self._clock.call_later(INTERVAL_S, self._run, self._trim)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _run(self, trim: Callable[[], object]) -> None:
        self._loop.run_in_executor(None, trim).add_done_callback(self._ran)

    def _ran(self, _: asyncio.Future[object]) -> None:
        if not self._stopped:
            self.start()
