"""Log levels as configuration of a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.handlers.admin import describe_configs, incremental_alter_configs
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.handlers.support import Broker

BROKER_LOGGER = 8
SET, DELETE, APPEND = 0, 1, 2
NAME = "odradek.of.this.test"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    levels = {each: each.level for each in (logger, logging.getLogger(), logging.getLogger("odradek"))}
    logging.getLogger().setLevel(logging.INFO)
    yield logger
    for each, level in levels.items():
        each.setLevel(level)


def alter(*operations: tuple[str, int, str | None], node: str = "1", validate_only: bool = False) -> ErrorCode:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in operations
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=node, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    response = Broker().call(incremental_alter_configs.handle, request, 1)
    return ErrorCode(response.responses[0].error_code)


def described(*names: str) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configuration_keys=list(names) or None
    )
    (result,) = Broker().call(describe_configs.handle, DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == 0
    assert {entry.config_source for entry in result.configs} <= {6}
    return {entry.name: entry.value for entry in result.configs}


def test_a_level_holds_until_it_is_taken_away(logger: logging.Logger) -> None:
    assert described("root", NAME, "not.ours") == {"root": "INFO", NAME: "INFO"}
    assert alter((NAME, SET, "DEBUG")) is ErrorCode.NONE
    assert logger.isEnabledFor(logging.DEBUG)
    assert described()[NAME] == "DEBUG"
    assert alter(("root", SET, "WARN"), (NAME, DELETE, None)) is ErrorCode.NONE
    assert described("root", NAME) == {"root": "WARN", NAME: "WARN"}
    assert not logger.isEnabledFor(logging.INFO)


def test_only_validating_changes_nothing(logger: logging.Logger) -> None:
    assert alter((NAME, SET, "DEBUG"), validate_only=True) is ErrorCode.NONE
    assert not logger.isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        ("no.such.logger", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("asyncio", SET, "INFO", ErrorCode.INVALID_CONFIG),
        (NAME, SET, "LOUD", ErrorCode.INVALID_CONFIG),
        (NAME, SET, "info", ErrorCode.INVALID_CONFIG),
        (NAME, APPEND, "INFO", ErrorCode.INVALID_REQUEST),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(
    logger: logging.Logger, name: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    assert alter(("odradek", SET, "DEBUG"), (name, operation, value)) is code
    assert not logger.isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize("node", ["2", "", "one"])
def test_only_this_node_is_asked(logger: logging.Logger, node: str) -> None:
    assert alter((NAME, SET, "DEBUG"), node=node) is ErrorCode.INVALID_REQUEST
