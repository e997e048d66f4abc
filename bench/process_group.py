"""CPU and memory of a process with all that it has started: those of its session."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_INTERVAL_S = 0.1


class Used(NamedTuple):
    """What was used between two moments."""

    cpu_s: float
    peak_mb: float
    """Largest sum of the proportional set sizes: memory that processes share counts once."""


class Watch:
    """Watches the processes of a session while the `with` lasts; then `used` says what they took.

    With `memory` their maps are read ten times a second, which costs the machine a tenth of what is measured, and more where more memory is
    used: rates and CPU are for passes without. Their `peak_mb` is 0.
    """

    def __init__(self, session: int, *, memory: bool) -> None:
        self._session = session
        self._memory = memory
        self._done = threading.Event()
        self._peak = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._before = 0.0
        self.used = Used(0.0, 0.0)

    def __enter__(self) -> Watch:
        self._before = _cpu_seconds(self._session)
        if self._memory:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        cpu = _cpu_seconds(self._session) - self._before
        if self._memory:
            self._done.set()
            self._thread.join()
        self.used = Used(cpu, self._peak / 1e3)

    def _look(self) -> None:
        while True:
            self._peak = max(self._peak, sum(_pss_kb(pid) for pid in _members(self._session)))
            if self._done.wait(_INTERVAL_S):
                return


def _stat(pid: str) -> list[str]:
    """The fields of /proc/PID/stat behind the name; none when the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _members(session: int) -> Iterator[str]:
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            fields = _stat(pid)
            if fields and int(fields[3]) == session:
                yield pid


def _cpu_seconds(session: int) -> float:
    """Of those that run, and of those that ended and were waited for."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in _members(session)) / _TICK


def _pss_kb(pid: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
