"""Signals that ask a process with an event loop to end: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is gone)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def take(loop: asyncio.AbstractEventLoop, handle: Callable[[str], object]) -> None:
    """Call `handle(name of the signal)` on the loop at each of them. SIGHUP stays ignored where it is (nohup)."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handle, number.name)


def ignore(loop: asyncio.AbstractEventLoop) -> None:
    """Ignore them until the process ends, as it is ending in order.

    A loop that closes gives signals their default action back: another SIGTERM, a supervisor's or that of somebody who is impatient, would
    then end the process with the exit status of one that was killed.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
