"""Log output in files: `broker.log`; as it grows, older lines move to `broker.log.1`, `broker.log.2`, ..."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler


class LogFiles(RotatingFileHandler):
    """Rotating log file that drops lines when its disk fails. The first dropped line is reported on standard error."""

    def __init__(self, path: str, max_bytes: int, files: int) -> None:
        """Open the first of at most `files` files of `max_bytes` bytes each. Raises OSError when the file cannot be opened."""
        super().__init__(path, maxBytes=max_bytes, backupCount=files - 1, encoding="utf-8", errors="backslashreplace")
        self.dropped = 0

    def handleError(self, record: logging.LogRecord) -> None:
        self.dropped += 1
        if self.dropped == 1 and sys.stderr is not None:
            reason = sys.exc_info()[1]
            sys.stderr.write(f"the log cannot be written to {self.baseFilename}: {reason}; messages are lost\n")
