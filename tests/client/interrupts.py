"""Ctrl-C at a chosen line of the clients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType
from typing import Any, TypeVar

from odradek.client.consumer import blocking, engine, hand_out

T = TypeVar("T")
READING = (blocking, engine, hand_out)


class CtrlC:
    """Raises KeyboardInterrupt before the n-th line that this thread runs in the modules, those through which records come by default."""

    def __init__(self, at: int, modules: Iterable[ModuleType] = READING) -> None:
        self.left = at
        self._files = frozenset(module.__file__ for module in modules)

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def during(self, action: Callable[[], T]) -> T:
        """Return the result of the action; KeyboardInterrupt when it came to the n-th line."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return action()
        finally:
            sys.settrace(before)
