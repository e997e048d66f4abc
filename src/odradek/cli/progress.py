"""How far something is that takes long, for a person who waits at a terminal."""

from __future__ import annotations

import sys
from typing import Protocol


class Progress(Protocol):
    """Told how many bytes have been read."""

    def advance(self, size: int) -> None: ...


class _Bar:
    """A progress bar on standard error where that is a terminal, else nothing."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, size: int) -> None:
        self._bar.advance(self._task, size)


class _Silence:
    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def advance(self, size: int) -> None:
        return


def progress(total: int) -> _Bar | _Silence:
    return _Bar(total) if sys.stderr.isatty() else _Silence()
