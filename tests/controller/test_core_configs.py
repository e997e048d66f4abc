"""Changes of configuration in the controller's core, and what the controller itself makes of them."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.brokers import fence_stale_broker
from odradek.controller.core.configs import alter_configs, incremental_alter_configs
from odradek.controller.core.partitions import elect_unclean_leaders
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.controller.harness import Controller

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(controller: Controller, kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False) -> ErrorCode:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return ErrorCode(controller.ask(incremental_alter_configs, request).responses[0].error_code)


def configs(controller: Controller, kind: int, name: str) -> dict[str, str]:
    return dict(controller.image().configs.of(kind, name))


@pytest.fixture
def controller() -> Controller:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    return controller


def test_lists_grow_and_shrink_from_their_default(controller: Controller) -> None:
    assert alter(controller, TOPIC, "a", ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
    assert configs(controller, TOPIC, "a") == {"cleanup.policy": "delete,compact"}
    assert alter(controller, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete")) is ErrorCode.NONE
    assert configs(controller, TOPIC, "a") == {"cleanup.policy": "compact"}
    assert alter(controller, TOPIC, "a", ("retention.ms", APPEND, "5")) is ErrorCode.INVALID_CONFIG


def test_a_resource_changes_as_a_whole_or_not_at_all(controller: Controller) -> None:
    assert alter(controller, TOPIC, "a", ("retention.ms", SET, "5"), ("segment.ms", SET, "soon")) is ErrorCode.INVALID_CONFIG
    assert alter(controller, TOPIC, "a", ("retention.ms", SET, "5"), validate_only=True) is ErrorCode.NONE
    assert configs(controller, TOPIC, "a") == {}


def test_replacing_takes_away_what_is_not_named(controller: Controller) -> None:
    alter(controller, TOPIC, "a", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    config = AlterConfigsRequest.AlterableConfig(name="segment.ms", value="7")
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=[config])
    controller.ask(alter_configs, AlterConfigsRequest(resources=[resource]))
    assert configs(controller, TOPIC, "a") == {"segment.ms": "7"}


@pytest.mark.parametrize("name", ["01", "+1", "-1", "one", "1 "])
def test_a_broker_has_one_name(controller: Controller, name: str) -> None:
    assert alter(controller, BROKER, name, ("log.retention.ms", SET, "5")) is ErrorCode.INVALID_REQUEST


def test_a_broker_that_is_not_there_cannot_be_configured(controller: Controller) -> None:
    assert alter(controller, BROKER, "9", ("log.retention.ms", SET, "5")) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert alter(controller, BROKER, "1", ("log.retention.ms", SET, "5")) is ErrorCode.NONE


def test_what_another_implementation_has_set_does_not_stand_in_the_way(controller: Controller) -> None:
    from odradek.controller.core.result import VersionedRecord
    from odradek.protocol.messages.metadata_records import ConfigRecord

    controller.append([VersionedRecord(ConfigRecord(resource_type=BROKER, resource_name="1", name="num.io.threads", value="16"), 0)])
    assert alter(controller, BROKER, "1", ("log.retention.ms", SET, "5")) is ErrorCode.NONE
    assert alter(controller, BROKER, "1", ("num.io.threads", DELETE, None)) is ErrorCode.NONE
    assert configs(controller, BROKER, "1") == {"log.retention.ms": "5"}
    assert alter(controller, BROKER, "1", ("num.io.threads", SET, "16")) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "a"), (BROKER, "")])
def test_unclean_elections_can_be_allowed_while_a_partition_has_no_leader(kind: int, name: str) -> None:
    controller = Controller(elr=False)
    controller.join(0, 1)
    controller.create("a", 1, 2)
    controller.now_s += 8
    controller.heartbeat(0)
    controller.now_s += 2
    assert controller.run(fence_stale_broker) == 1  # 1 leaves the ISR
    controller.now_s += 8
    assert controller.run(fence_stale_broker) == 0  # the last of the ISR
    controller.register(1, incarnation=2)
    controller.heartbeat(1)
    controller.run(elect_unclean_leaders)
    assert controller.partition("a").leader == -1
    assert alter(controller, kind, name, ("unclean.leader.election.enable", SET, "true")) is ErrorCode.NONE
    controller.run(elect_unclean_leaders)
    assert controller.partition("a").leader == 1
