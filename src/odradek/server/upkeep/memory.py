"""Return of freed memory to the operating system (ADR 7).

glibc keeps freed memory in the middle of its heaps. `malloc_trim` returns the whole pages in it. The call takes some tens of milliseconds
for 100 MB, and a tenth of a millisecond when no page can be returned. Without such a function in the C library, this module does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.timing import Alarm

if TYPE_CHECKING:
    from odradek.base.clock import Clock

INTERVAL_S = 10.0


def find_trim() -> Callable[[], object] | None:
    """Return a function that returns freed pages to the system; None where the C library has no malloc_trim."""
    import ctypes

    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    malloc_trim.argtypes = (ctypes.c_size_t,)
    malloc_trim.restype = ctypes.c_int
    # ctypes releases the interpreter's lock during the call.
    return lambda: malloc_trim(0)


class MemoryKeeper:
    """Timer that trims the heap every `INTERVAL_S` seconds in the loop's executor, from `start` to `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, trim: Callable[[], object] | None) -> None:
        self._loop = loop
        self._trim = trim
        self._alarm = Alarm(clock, self._run)

    def start(self) -> None:
        if self._trim is not None:
            self._alarm.set(INTERVAL_S)

    def stop(self) -> None:
        self._alarm.close()

    def _run(self) -> None:
        assert self._trim is not None
        self._loop.run_in_executor(None, self._trim).add_done_callback(self._ran)

    def _ran(self, _: asyncio.Future[object]) -> None:
        self.start()
