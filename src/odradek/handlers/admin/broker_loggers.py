"""Log levels of a broker as configuration (resource type BROKER_LOGGER, KIP-412; kafka.server.logger.RuntimeLoggerManager).

The levels last as long as the process. Loggers are named after packages: `odradek`, `odradek.storage.log`, ...; `root` is the parent of
all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.describe import DescribedConfig
from odradek.config.topic import SOURCE_DYNAMIC_BROKER_LOGGER
from odradek.controller.core.configs import DELETE, SET, Operation

ROOT = "root"
_OURS = "odradek"
_KAFKAS = frozenset({"kafka.authorizer.logger", "kafka.request.logger"})
"""Loggers with Kafka's names. With an authorizer, kafka.authorizer.logger logs denials, and at DEBUG permissions too.

kafka.request.logger logs each request, at DEBUG.
"""

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
"""Level by Kafka's name (org.apache.kafka.common.config.LogLevelConfig)."""


def describe_loggers(keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the loggers in `keys`, or all of them, with their effective levels."""
    names = [name for name in (ROOT, *sorted(_known())) if keys is None or name in keys]
    return [
        DescribedConfig(name, _shown(_logger(name).getEffectiveLevel()), False, SOURCE_DYNAMIC_BROKER_LOGGER, False, (), None, "")
        for name in names
    ]


def alter_loggers(operations: Sequence[Operation], *, validate_only: bool) -> None:
    """Set levels, or let loggers inherit their parent's level again. Either all changes are made or none.

    Raises KafkaError for an invalid change.
    """
    for operation in operations:
        if operation.operation not in (SET, DELETE):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A log level can only be set or deleted, not changed by {operation.name}")
        if operation.name != ROOT and operation.name not in _known():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {operation.name} does not exist!")
        if operation.operation == SET and operation.value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {operation.name} to {operation.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}",
            )
        if operation.operation == DELETE and operation.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    for operation in () if validate_only else operations:
        _logger(operation.name).setLevel(LEVELS[operation.value or "INFO"] if operation.operation == SET else logging.NOTSET)


def _known() -> set[str]:
    loggers = logging.root.manager.loggerDict
    return {
        name
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and (name.partition(".")[0] == _OURS or name in _KAFKAS)
    } | {_OURS}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _shown(level: int) -> str:
    """Return the coarsest of Kafka's levels that logs whatever `level` logs."""
    return next((name for name, number in LEVELS.items() if number <= level), "TRACE")
