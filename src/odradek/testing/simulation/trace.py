"""Trace of a simulation's events, and a hash of the trace.

Two runs with equal hashes are the same run. The lines of two traces show where two runs differ.
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Trace:
    """Events in order: (virtual seconds, actor, what). With `keep` False only the hash is kept."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0, *, keep: bool = True) -> None:
        self.now = now
        self.lines: list[str] = []
        self.events = 0
        self._keep = keep
        self._hash = hashlib.sha256()

    def record(self, actor: str, what: str) -> None:
        """Add an event at the current virtual time."""
        line = f"{self.now():.6f} {actor} {what}"
        self._hash.update(line.encode("utf-8", "backslashreplace") + b"\n")
        self.events += 1
        if self._keep:
            self.lines.append(line)

    def delivery(self, source: tuple[str, int], target: tuple[str, int], data: bytes) -> None:
        """Add the delivery of bytes over the network (a callback for `VirtualNetwork.on_delivery`)."""
        self.record("network", f"{source[0]}:{source[1]} > {target[0]}:{target[1]} {len(data)} bytes {zlib.crc32(data):08x}")

    def hash(self) -> str:
        """Return the SHA-256 of all events so far, in hexadecimal."""
        return self._hash.hexdigest()


class TraceLogHandler(logging.Handler):
    """Log handler that adds log records to the trace, and keeps records of level ERROR and above, which no scenario expects."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info is not None and record.exc_info[1] is not None:
            text += f" [{type(record.exc_info[1]).__name__}: {record.exc_info[1]}]"
        self._trace.record(record.name, f"{record.levelname} {text}")
        if record.levelno >= logging.ERROR:
            if record.exc_info is not None:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            self.errors.append(f"{record.name}: {text}")

    @contextmanager
    def attached(self, level: int) -> Generator[TraceLogHandler]:
        """Make this the only handler of Odradek's log records from `level` on, until the block ends."""
        logger = logging.getLogger("odradek")
        former, propagate = logger.level, logger.propagate
        logger.setLevel(level)
        logger.propagate = False
        logger.addHandler(self)
        try:
            yield self
        finally:
            logger.removeHandler(self)
            logger.setLevel(former)
            logger.propagate = propagate
