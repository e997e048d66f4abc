"""Log levels of a broker as configuration (resource type BROKER_LOGGER, KIP-412; kafka.server.logger.RuntimeLoggerManager).

They belong to the process and are gone with it. Its loggers have the names of its packages: `odradek`, `odradek.storage.log`, ...;
`root` is the one above them all.
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
"""Loggers by their names in Kafka. The first tells who was denied what, and at DEBUG who was allowed what, where there is an authorizer;
the second of each request, at DEBUG.
"""

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
"""Kafka's names (org.apache.kafka.common.config.LogLevelConfig) -> levels."""


def describe_loggers(keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Every logger with the level that holds for it, or those named."""
    names = [name for name in (ROOT, *sorted(_known())) if keys is None or name in keys]
    return [
        DescribedConfig(name, _shown(_logger(name).getEffectiveLevel()), False, SOURCE_DYNAMIC_BROKER_LOGGER, False, (), None, "")
        for name in names
    ]


def alter_loggers(operations: Sequence[Operation], *, validate_only: bool) -> None:
    """Sets levels, or lets loggers follow the one above again; all or nothing. KafkaError for an invalid change."""
    for operation in operations:
        if operation.operation not in (SET, DELETE):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A log level can be set and deleted, nothing else: {operation.name}")
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
    """The coarsest of Kafka's levels that lets through what `level` does."""
    return next((name for name, number in LEVELS.items() if number <= level), "TRACE")
