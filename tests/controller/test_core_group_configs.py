"""Configurations of groups: what may be set, within what bounds."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.configs import incremental_alter_configs
from odradek.metadata.image import RESOURCE_GROUP
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

from .harness import Controller

SET, DELETE = 0, 1


def alter(controller: Controller, group_id: str, *operations: tuple[str, int, str | None]) -> tuple[ErrorCode, str | None]:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in operations
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=RESOURCE_GROUP, resource_name=group_id, configs=configs)
    response = controller.ask(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))
    return ErrorCode(response.responses[0].error_code), response.responses[0].error_message


def test_a_group_is_configured_before_it_exists_and_back_again() -> None:
    controller = Controller()
    assert alter(controller, "g", ("consumer.session.timeout.ms", SET, "50000")) == (ErrorCode.NONE, None)
    assert controller.image().configs.of(RESOURCE_GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert alter(controller, "g", ("consumer.session.timeout.ms", DELETE, None)) == (ErrorCode.NONE, None)
    assert not controller.image().configs.of(RESOURCE_GROUP, "g")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("consumer.session.timeout.ms", "1", "must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "70000", "must be less than or equal to group.consumer.max.session.timeout.ms"),
        ("consumer.heartbeat.interval.ms", "1", "must be greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "15001", "must be less than or equal to group.consumer.max.assignment.interval.ms"),
        ("consumer.session.timeout.ms", "soon", "consumer.session.timeout.ms"),
        ("retention.ms", "1", "Unknown group config name: retention.ms"),
        ("share.session.timeout.ms", "50000", "share groups, which are not supported yet"),
    ],
)
def test_what_does_not_fit(name: str, value: str, message: str) -> None:
    code, text = alter(Controller(), "g", (name, SET, value))
    assert code is ErrorCode.INVALID_CONFIG
    assert message in (text or "")


def test_sessions_are_longer_than_heartbeat_intervals() -> None:
    controller = Controller(settings={"group.consumer.max.heartbeat.interval.ms": "60000"})
    code, text = alter(controller, "g", ("consumer.heartbeat.interval.ms", SET, "50000"))
    assert code is ErrorCode.INVALID_CONFIG
    assert text == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"


def test_there_is_no_default_group() -> None:
    assert alter(Controller(), "", ("consumer.session.timeout.ms", SET, "50000"))[0] is ErrorCode.INVALID_REQUEST
