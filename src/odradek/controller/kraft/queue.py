"""Work queue of a node: one work item after the other, on one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class WorkQueue:
    """Queue of work items. Each item is finished before the next begins; items that it adds come after those that wait already.

    An item that waits for the disk suspends the queue. The thread then does other things, but no work of this node until the item is
    resumed.
    """

    __slots__ = ("_at_work", "_closed", "_on_error", "_on_idle", "_suspended", "_waiting")

    def __init__(self, on_idle: Work, on_error: Callable[[Exception], None]) -> None:
        """Create an empty queue. `on_idle` runs whenever no item waits.

        `on_error` gets the exception that an item raised; it should close the queue.
        """
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
        """Run `work` at once, or after the items that are being run or wait. Do nothing when the queue is closed."""
        if self._closed:
            return
        self._waiting.append(work)
        self._go_on()

    def suspend(self) -> None:
        """Start no further item after the current one has returned."""
        assert self._at_work
        assert not self._suspended
        self._suspended = True

    def resume(self, rest: Work) -> None:
        """Run the rest of the item that suspended the queue, then the waiting items. Do nothing when the queue is closed."""
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
        """Stop accepting work and drop the waiting items."""
        self._closed = True
        self._waiting.clear()
