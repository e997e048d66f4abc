"""Signals that ask a command to end: Ctrl-C, SIGTERM (systemd, docker stop, timeout(1)) and SIGHUP (the terminal is gone).

At each of these signals a command ends in order: it leaves its group, ends its transaction and handles unsent records. In a client command
SIGTERM and SIGHUP raise `Terminated`, a KeyboardInterrupt, in the main thread (`as_interrupts`). A loop that must not be interrupted
between receiving and handing on records uses `stoppable`. `odradek start` and `cluster start` have handlers on their event loops.
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


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask this process to end, without SIGHUP where it is ignored (nohup)."""
    return [each for each in ENDING if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]


class Terminated(KeyboardInterrupt):
    """Exception for a signal that asks to end. `status` is the exit status that shells use for the signal (128 + number)."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


class Stop(BaseException):
    """Exception that interrupts a wait of the main thread after a signal that asks to end."""


def _ignore_hangup() -> None:
    """Ignore SIGHUP from now on: systemd sends SIGHUP right after SIGTERM, and shell and terminal each send a SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextmanager
def as_interrupts() -> Generator[None]:
    """Raise Terminated at SIGTERM and SIGHUP within the block. A second SIGTERM interrupts the end, as a second Ctrl-C does.

    Signals that are ignored (nohup) or have a handler keep it. A handler that the block installs for the rest of the process
    (`server.start.ending`) stays, too. Outside of the main thread the block runs without any change.
    """
    raised = False

    def end(number: int, _: FrameType | None) -> None:
        nonlocal raised
        raised = True
        _ignore_hangup()
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
    """State of a block of `stoppable`; `signal` is the signal that asked to end, or 0. A second SIGINT or SIGTERM kills the process."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Prepare for signals. The signal handler calls `wake()`."""
        self.signal = 0
        self._wake = wake
        self._interruptible = False
        self._grace_s = 0.0

    @property
    def status(self) -> int:
        """Exit status that shells use for a process that a signal ended (128 + number), 0 without a signal."""
        return 128 + self.signal if self.signal else 0

    @contextmanager
    def interruptible(self, grace_s: float = 0.0) -> Generator[None]:
        """Raise Stop within the block at a signal, or at once if a signal has come before.

        With `grace_s` (seconds), a signal within the block raises Stop only if the block still runs after that time. Work that is not
        stuck is then completed.
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
        """Handle a signal."""
        self.signal = number
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        _ignore_hangup()
        self._wake()
        if self._grace_s:
            signal.signal(signal.SIGALRM, self._stop)
            signal.setitimer(signal.ITIMER_REAL, self._grace_s)
        else:
            self._stop()


@contextmanager
def stoppable(wake: Callable[[], None] = lambda: None) -> Generator[Stopping]:
    """Handle the signals that ask to end within the block. An ignored SIGHUP (nohup) stays ignored."""
    stopping = Stopping(wake)
    before = {each: signal.signal(each, stopping.handle) for each in ending_signals()}
    try:
        yield stopping
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
