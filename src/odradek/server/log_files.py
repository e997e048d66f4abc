"""The log in files: `broker.log`, and as it grows `broker.log.1`, `broker.log.2`, ... with what was written before."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler


class LogFiles(RotatingFileHandler):
    """A disk that does not take the log keeps nobody from working: lines are dropped, and the first is said on standard error."""

    def __init__(self, path: str, max_bytes: int, files: int) -> None:
        """At most `files` files of `max_bytes` each. OSError when the first cannot be opened."""
        super().__init__(path, maxBytes=max_bytes, backupCount=files - 1, encoding="utf-8", errors="backslashreplace")
        self.dropped = 0

    def handleError(self, record: logging.LogRecord) -> None:
        self.dropped += 1
        if self.dropped == 1 and sys.stderr is not None:
            reason = sys.exc_info()[1]
            sys.stderr.write(f"the log cannot be written to {self.baseFilename}: {reason}; what was to be said is dropped\n")
