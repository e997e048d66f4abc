"""Standard streams of a command, which may be closed or fail: cron, supervisors and shells (`>&-`) start processes without them.

- Without a standard input there is nothing to read.
- What is said on standard error is lost when it cannot be written; it never changes what a command does.
- A command that prints ends at its first output when there is no standard output, with one line that says so. Records that could not be
  printed count as not read.

The numbers of closed streams are taken by /dev/null, so that no socket and no file gets one of them.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

_CLOSED: Final = "closed; `> FILE` or `> /dev/null` takes what is printed"


class ClosedOutput(io.RawIOBase):
    """Standard output that is closed; each write raises OSError."""

    name = "standard output"

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(errno.EBADF, _CLOSED, "standard output")


class ForgivingOutput:
    """Standard error whose failures to write are ignored."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _null(mode: str) -> IO[str]:
    # The lowest free number, which is that of the closed stream: they are opened in the order of their numbers.
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode)


@contextmanager
def complete_streams() -> Generator[None]:
    """Give the process the standard streams that it was started without, for the time of the block."""
    before = sys.stdin, sys.stdout, sys.stderr
    kept: list[IO[str]] = []
    if sys.stdin is None:
        sys.stdin = _null("r")
    if sys.stdout is None:
        kept.append(_null("w"))
        sys.stdout = io.TextIOWrapper(ClosedOutput(), write_through=True)
    if sys.stderr is None:
        sys.stderr = _null("w")
    sys.stderr = ForgivingOutput(sys.stderr)
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def check_output() -> None:
    """Raise OSError where there is no standard output; for commands that take something before they print it."""
    if isinstance(sys.stdout.buffer, ClosedOutput):
        sys.stdout.buffer.write(b"")


def give_output_up() -> None:
    """Flush nothing more to a standard output that cannot be written; else the interpreter complains at its end."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - closed with the process
