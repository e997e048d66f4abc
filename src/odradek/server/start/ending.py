"""Signals that ask a process with an event loop to end: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is gone)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def take(loop: asyncio.AbstractEventLoop, handle: Callable[[str], object]) -> None:
    """Call `handle(name of the signal)` on the loop for each signal. SIGHUP (or another signal) that the process ignores already, as under
    nohup, stays ignored.
    """
    for number in _SIGNALS:
        # SIGINT is taken even where it is ignored: a shell ignores it for every command that it starts in the background.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handle, number.name)


def ignore(loop: asyncio.AbstractEventLoop) -> None:
    """Ignore the signals until the process ends, because an orderly end is under way.

    A loop that closes restores the default action of signals. Another SIGTERM, sent by a supervisor or an impatient user, would then end
    the process with the exit status of a killed process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
