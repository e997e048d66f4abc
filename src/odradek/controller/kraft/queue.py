"""The order of a node's work: one piece after the other, on one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class WorkQueue:
    """A piece of work is done wholly before the next one begins; what it adds comes after what waits already.

    A piece that has to wait for the disk suspends the queue: the thread goes on with other things, and nothing else of this node is done
    until the piece is resumed.
    """

    __slots__ = ("_at_work", "_closed", "_on_error", "_on_idle", "_suspended", "_waiting")

    def __init__(self, on_idle: Work, on_error: Callable[[Exception], None]) -> None:
        """`on_idle` runs whenever nothing waits any more. `on_error` is told what a piece of work raised; it should close the queue."""
        self._on_idle = on_idle
        self._on_error = on_error
        self._waiting: deque[Work] = deque()
        self._at_work = False
        self._suspended = False
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def suspended(self) -> bool:
        return self._suspended

    def put(self, work: Work) -> None:
        """Does `work`: at once, unless other work is being done, then after that. Nothing happens when the queue is closed."""
        if self._closed:
            return
        self._waiting.append(work)
        self._go_on()

    def suspend(self) -> None:
        """Begins nothing more once the present piece of work has returned."""
        assert self._at_work
        assert not self._suspended
        self._suspended = True

    def resume(self, rest: Work) -> None:
        """Does the rest of the piece of work that suspended the queue, then what waits. Nothing happens when the queue is closed."""
        if self._closed:
            return
        assert self._suspended
        assert not self._at_work
        self._suspended = False
        self._waiting.appendleft(rest)
        self._go_on()

    def _go_on(self) -> None:
        if self._at_work:
            return
        self._at_work = True
        try:
            while self._waiting and not self._closed and not self._suspended:
                self._waiting.popleft()()
        except Exception as error:
            self._on_error(error)
        finally:
            self._at_work = False
        if not self._closed and not self._suspended:
            self._on_idle()

    def close(self) -> None:
        """Takes nothing more; what waits is dropped."""
        self._closed = True
        self._waiting.clear()
