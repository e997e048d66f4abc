"""Standard streams of a command, which may be closed or fail: cron, supervisors and shells (`>&-`) start processes without them.

- A closed standard input counts as empty.
- Text that standard error cannot take is lost. Such a failure never changes the behaviour of a command.
- Without a standard output, a command ends at its first output, with one line that gives the reason. Records that could not be printed
  count as not read.

/dev/null takes the file descriptors of closed streams, because a socket or a file could get them otherwise.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

_CLOSED: Final = "closed; redirect the output with `> FILE` or `> /dev/null`"


class ClosedOutput(io.RawIOBase):
    """Closed standard output; each write raises OSError."""

    name = "standard output"

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(errno.EBADF, _CLOSED, "standard output")


class BestEffortOutput:
    """Standard error that ignores failures to write."""

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
    # `os.open` returns the lowest free descriptor. The caller goes in the order of the descriptors, so that is the closed stream's.
    return os.fdopen(os.open(os.devnull, os.O_RDWR), mode)


@contextmanager
def complete_streams() -> Generator[None]:
    """Replace missing standard streams of the process, and ignore failures of standard error, within the block."""
    before = sys.stdin, sys.stdout, sys.stderr
    kept: list[IO[str]] = []
    if sys.stdin is None:
        sys.stdin = _null("r")
    if sys.stdout is None:
        kept.append(_null("w"))
        sys.stdout = io.TextIOWrapper(ClosedOutput(), write_through=True)
    if sys.stderr is None:
        sys.stderr = _null("w")
    sys.stderr = BestEffortOutput(sys.stderr)
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def check_output() -> None:
    """Raise OSError without a standard output. Commands that consume records call this function before they read."""
    if isinstance(sys.stdout.buffer, ClosedOutput):
        sys.stdout.buffer.write(b"")


def discard_output() -> None:
    """Replace a standard output that cannot be written. Otherwise the interpreter would flush it at its end, and print an error."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - closed with the process
