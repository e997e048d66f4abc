"""Destination and format of a broker's log: standard error or files, text or JSON.

JSON is one object per line: `time` (UTC), `level` (Kafka's names), `logger`, `message`, `node`, `error` where there is a traceback, and the
facts of the message as separate fields (of requests: api, client_id, total_ms, ...). Neither format contains secrets of clients or
operators: requests are described by their headers, never by their bodies.

Clients choose some logged names. Such a name must not begin a line or move a cursor: the formatters here escape unprintable characters, and
indent tracebacks. `server.security.audit` also escapes its lines itself, for hosts of embedded brokers with other formatters.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from odradek.base.errors import ConfigError
from odradek.base.text import indented, printable
from odradek.config.keys.odradek_only import ODRADEK_LOG_FILE, ODRADEK_LOG_FILE_MAX_BYTES, ODRADEK_LOG_FILES, ODRADEK_LOG_FORMAT

if TYPE_CHECKING:
    from types import TracebackType

    from odradek.config.broker import BrokerConfig

ExceptionInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_OWN: Final = frozenset({"time", "level", "logger", "message", "node", "error"})


class TextFormatter(logging.Formatter):
    """Formatter of a record as one line, followed by its indented traceback."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:
        return indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return indented(stack_info)


class JsonFormatter(logging.Formatter):
    """Formatter of a record as one line of JSON. Entries of the record's `fields` become top-level fields."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry: dict[str, object] = {
            "time": moment,
            "level": _LEVELS.get(record.levelname, record.levelname if not record.levelname.startswith("Level") else "TRACE"),
            "logger": record.name,
            "message": record.getMessage(),
            "node": self._node_id,
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            entry |= {key: value for key, value in cast("dict[str, object]", fields).items() if key not in _OWN}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        # JSON escapes all other control characters that terminals interpret.
        return json.dumps(entry, default=str).replace("\x7f", "\\u007f")


def set_up(config: BrokerConfig, *, quiet: bool) -> None:
    """Give the root logger its handler. Do nothing when it has handlers already. Raises ConfigError when the file cannot be written."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = _handler(config)
    handler.setFormatter(JsonFormatter(config.node_id) if config[ODRADEK_LOG_FORMAT] == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(logging.WARNING if quiet else logging.INFO)


def _handler(config: BrokerConfig) -> logging.Handler:
    path = config[ODRADEK_LOG_FILE]
    if not path:
        return logging.StreamHandler(sys.stderr)
    from odradek.server.start.log_files import LogFiles

    try:
        return LogFiles(path, config[ODRADEK_LOG_FILE_MAX_BYTES], config[ODRADEK_LOG_FILES])
    except OSError as error:
        raise ConfigError(f"odradek.log.file={path}: {error.strerror or error}") from None
