"""Waiting in a thread, in a way that Ctrl-C works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_MOMENT: Final = 0.5
"""Longest delay in seconds until a signal that did not wake the main thread is handled."""


def wait_in_moments(wait: Callable[[float], bool], timeout: float | None = None) -> bool:
    """Call `wait(seconds)` until it returns True; return False after `timeout` seconds (None: no limit).

    Python runs signal handlers between two instructions of the main thread. A signal that another thread received, or that arrived just
    before the main thread began to wait, does not end the wait. Without pauses, Ctrl-C would have no effect until the wait ends.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        moment = _MOMENT if deadline is None else min(_MOMENT, deadline - time.monotonic())
        if wait(max(moment, 0.0)):
            return True
        if moment < _MOMENT:
            return False
