"""Waiting in a thread so that Ctrl-C works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_MOMENT: Final = 0.5
"""Seconds until a signal that did not wake the main thread is handled."""


def wait_in_moments(wait: Callable[[float], bool], timeout: float | None = None) -> bool:
    """Calls `wait(seconds)` until it returns True; False when `timeout` seconds passed without (None: no limit).

    Python runs its signal handlers between two instructions of the main thread. A signal that another thread received, or that came just
    before this one began to wait, does not end the wait: without pauses Ctrl-C would do nothing until what is waited for has happened.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        moment = _MOMENT if deadline is None else min(_MOMENT, deadline - time.monotonic())
        if wait(max(moment, 0.0)):
            return True
        if moment < _MOMENT:
            return False
