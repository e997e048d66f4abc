"""Waits for other processes: a condition is polled until it holds or a deadline passes. The error names the condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.02
"""Seconds between two polls."""


def eventually(found: Callable[[], T | None], what: str, timeout: float, *, pause_s: float = _PAUSE_S) -> T:
    """Poll until `found` returns a value other than None, and return that value. Raises TimeoutError, which names `what`, after `timeout`
    seconds.
    """
    deadline = time.monotonic() + timeout
    while (answer := found()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(pause_s)
    return answer


def until(holds: Callable[[], object], what: str = "a condition", timeout: float = 30, *, pause_s: float = _PAUSE_S) -> None:
    """Poll until the condition holds. Raises TimeoutError, which names `what`, after `timeout` seconds."""
    eventually(lambda: True if holds() else None, what, timeout, pause_s=pause_s)


def becomes(ask: Callable[[], object], expected: object = True, timeout: float = 60) -> None:
    """Poll until `ask` returns the expected value. Raises AssertionError, which names the last answer, after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"{answer!r}, not {expected!r}"
        time.sleep(_PAUSE_S)
