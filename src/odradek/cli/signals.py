"""Signals that ask a command to end: Ctrl-C, SIGTERM (systemd, docker stop, timeout(1)) and SIGHUP (the terminal is gone).

Every command ends at each of them in order: what it holds (a place in a group, a transaction, unsent records) is given back. In a client
command SIGTERM and SIGHUP raise `Terminated`, a KeyboardInterrupt, in the main thread (`as_interrupts`). A loop that must not be
interrupted between taking and handing on takes them by `stoppable`. `odradek start` and `cluster start` have handlers of their event loops.
A command that catches KeyboardInterrupt has to raise it again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """A signal that asks to end, as an exception. `status` is the exit status by which a shell knows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Stop(BaseException):
    """Raised in the main thread where it waits, when a signal asks to stop."""


def _hang_up_no_more() -> None:
    """Ignore SIGHUP: systemd sends it right behind SIGTERM, and shell and terminal send one each."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextmanager
def as_interrupts() -> Generator[None]:
    """Raise Terminated at SIGTERM and SIGHUP for the time of the block. A second SIGTERM interrupts the end, as a second Ctrl-C does.

    Signals that are ignored (nohup) or have a handler stay as they are, and so do those that the block has taken over for the rest of the
    process (`server.ending`); outside of the main thread nothing is done.
    """
    raised = False

    def end(number: int, _: FrameType | None) -> None:
        nonlocal raised
        raised = True
        _hang_up_no_more()
        raise Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            if raised or signal.getsignal(number) is end:
                signal.signal(number, before[number])


class Stopping:
    """Whether a signal that asks to end has come; a second one, but for SIGHUP, ends the process at once."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake()` is called within the signal handler."""
        self.signal = 0
        self._wake = wake
        self._interruptible = False
        self._grace_s = 0.0

    @property
    def status(self) -> int:
        """The exit status: as a shell tells of a process that a signal ended."""
        return 128 + self.signal if self.signal else 0

    @contextmanager
    def interruptible(self, grace_s: float = 0.0) -> Generator[None]:
        """Raise Stop within the block at a signal, also at one that came before.

        With `grace_s` (seconds), only when the block has not ended by then: what it does goes through unless it is stuck.
        """
        self._interruptible = True
        self._grace_s = grace_s
        try:
            if self.signal:
                raise Stop
            yield
        finally:
            self._interruptible = False
            self._grace_s = 0.0
            if grace_s:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self, *_: object) -> None:
        if self._interruptible:
            raise Stop

    def handle(self, number: int, _: FrameType | None) -> None:
        """The signal handler."""
        self.signal = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        _hang_up_no_more()
        self._wake()
        if self._grace_s:
            signal.signal(signal.SIGALRM, self._stop)
            signal.setitimer(signal.ITIMER_REAL, self._grace_s)
        else:
            self._stop()


@contextmanager
def stoppable(wake: Callable[[], None] = lambda: None) -> Generator[Stopping]:
    """Take the signals that ask to end for the time of the block; SIGHUP only where it is not ignored (nohup)."""
    stopping = Stopping(wake)
    numbers = [each for each in ENDING if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, stopping.handle) for each in numbers}
    try:
        yield stopping
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
