"""Waiting for what another process does: asked again until it holds, with a deadline and what was waited for in the error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_S = 0.02
"""Between two questions."""


def eventually(found: Callable[[], T | None], what: str, timeout: float, *, pause_s: float = _PAUSE_S) -> T:
    """The first answer that is not None; TimeoutError after `timeout` seconds, naming `what`."""
    deadline = time.monotonic() + timeout
    while (answer := found()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(pause_s)
    return answer


def until(holds: Callable[[], object], what: str, timeout: float) -> None:
    """Returns when the condition holds; TimeoutError after `timeout` seconds, naming `what`."""
    eventually(lambda: True if holds() else None, what, timeout)
