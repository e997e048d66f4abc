"""Changes of configuration in the controller's core, and what the controller itself makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.brokers import fence_stale_broker
from odradek.controller.core.configs import alter_configs, incremental_alter_configs
from odradek.controller.core.partitions import elect_unclean_leaders
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
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


def test_a_resource_that_is_named_twice_is_refused_once(controller: Controller) -> None:
    """A broker refuses it before; a controller may be asked directly."""
    for operation, request in ((alter_configs, AlterConfigsRequest), (incremental_alter_configs, IncrementalAlterConfigsRequest)):
        of: Any = request
        setting = of.AlterableConfig(name="retention.ms", value="5")
        named = [of.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[setting]) for name in ("a", "b", "a")]
        answer = controller.ask(operation, of(resources=named))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [(each.resource_name, each.error_code) for each in answer.responses] == [("a", ErrorCode.INVALID_REQUEST), ("b", unknown)]
    assert configs(controller, TOPIC, "a") == {}


def test_a_type_that_nobody_knows_is_told_from_one_that_is_not_the_controller_s(controller: Controller) -> None:
    for kind, error in {8: ErrorCode.INVALID_REQUEST, 16: ErrorCode.INVALID_REQUEST, 3: ErrorCode.UNSUPPORTED_VERSION}.items():
        assert alter(controller, kind, "1", ("retention.ms", SET, "5")) is error


@pytest.mark.parametrize("name", ["01", "+1", "-1", "one", "1 "])
def test_a_broker_has_one_name(controller: Controller, name: str) -> None:
    assert alter(controller, BROKER, name, ("log.retention.ms", SET, "5")) is ErrorCode.INVALID_REQUEST


def test_a_broker_that_is_not_there_cannot_be_configured(controller: Controller) -> None:
    assert alter(controller, BROKER, "9", ("log.retention.ms", SET, "5")) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert alter(controller, BROKER, "1", ("log.retention.ms", SET, "5")) is ErrorCode.NONE


def test_what_another_implementation_has_set_does_not_stand_in_the_way(controller: Controller) -> None:
    from odradek.controller.core.result import VersionedRecord
    from odradek.protocol.messages.metadata_records import ConfigRecord

    controller.append(
        [VersionedRecord(ConfigRecord(resource_type=BROKER, resource_name="1", name="metric.reporters", value="a.Reporter"), 0)]
    )
    assert alter(controller, BROKER, "1", ("log.retention.ms", SET, "5")) is ErrorCode.NONE
    assert alter(controller, BROKER, "1", ("metric.reporters", DELETE, None)) is ErrorCode.NONE
    assert configs(controller, BROKER, "1") == {"log.retention.ms": "5"}
    assert alter(controller, BROKER, "1", ("metric.reporters", SET, "a.Reporter")) is ErrorCode.INVALID_CONFIG


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


class TestLists:
    def test_what_is_appended_comes_after_what_is_there_or_after_the_default(self, controller: Controller) -> None:
        assert alter(controller, TOPIC, "a", ("cleanup.policy", APPEND, "compact")) is ErrorCode.NONE
        assert configs(controller, TOPIC, "a") == {"cleanup.policy": "delete,compact"}
        assert alter(controller, TOPIC, "a", ("cleanup.policy", APPEND, "compact,delete")) is ErrorCode.NONE
        assert configs(controller, TOPIC, "a") == {"cleanup.policy": "delete,compact"}, "nothing is in a list twice"
        assert alter(controller, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete,delete")) is ErrorCode.NONE
        assert configs(controller, TOPIC, "a") == {"cleanup.policy": "compact"}

    def test_only_to_lists(self, controller: Controller) -> None:
        for operation in (APPEND, SUBTRACT):
            assert alter(controller, TOPIC, "a", ("retention.ms", operation, "1")) is ErrorCode.INVALID_CONFIG
        assert alter(controller, TOPIC, "a", ("retention.ms", 4, "1")) is ErrorCode.INVALID_REQUEST


def test_validating_changes_nothing(controller: Controller) -> None:
    alter(controller, TOPIC, "a", ("retention.ms", SET, "5"))
    written = len(controller.log)
    assert alter(controller, TOPIC, "a", ("retention.ms", SET, "6"), validate_only=True) is ErrorCode.NONE
    assert alter(controller, TOPIC, "a", ("retention.ms", SET, "x"), validate_only=True) is ErrorCode.INVALID_CONFIG
    config = AlterConfigsRequest.AlterableConfig(name="segment.ms", value="7")
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="a", configs=[config])
    answer = controller.ask(alter_configs, AlterConfigsRequest(resources=[resource], validate_only=True))
    assert answer.responses[0].error_code == 0
    assert len(controller.log) == written


def test_a_deleted_value_is_gone_from_the_state_too(controller: Controller) -> None:
    alter(controller, TOPIC, "a", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    assert alter(controller, TOPIC, "a", ("retention.ms", DELETE, None)) is ErrorCode.NONE
    assert controller.core.state.configs.get((TOPIC, "a")) == {"segment.ms": "6"}
    assert alter(controller, TOPIC, "a", ("segment.ms", DELETE, None)) is ErrorCode.NONE
    assert controller.core.state.configs.get((TOPIC, "a")) is None


def test_one_request_writes_ten_thousand_records_and_no_more(controller: Controller) -> None:
    operations = [(f"unknown.{number}", DELETE, None) for number in range(10_001)]
    written = len(controller.log)
    assert alter(controller, BROKER, "1", *operations) is ErrorCode.POLICY_VIOLATION
    assert len(controller.log) == written
    assert alter(controller, BROKER, "1", *operations[1:]) is ErrorCode.NONE
    assert len(controller.log) == written + 10_000


def test_resources_fail_alone(controller: Controller) -> None:
    def resource(name: str, value: str) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
        config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=SET, value=value)
        return IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])

    request = IncrementalAlterConfigsRequest(resources=[resource("b", "x"), resource("nothing", "5"), resource("a", "5")])
    controller.create("b")
    answer = controller.ask(incremental_alter_configs, request)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert configs(controller, TOPIC, "a") == {"retention.ms": "5"}


def test_a_new_topic_has_its_own_value_else_the_node_s_else_the_cluster_s(controller: Controller) -> None:
    def effective(name: str, **own: str) -> tuple[str | None, int]:
        given = [CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value) for value in own.values()]
        answer = controller.create(name, configs=given)
        assert answer.configs is not None
        return next((config.value, config.config_source) for config in answer.configs if config.name == "retention.ms")

    node = str(controller.core.context.node_id)
    assert effective("default") == ("604800000", 5)
    alter(controller, BROKER, "", ("log.retention.ms", SET, "20"))
    assert effective("cluster") == ("20", 3)
    alter(controller, BROKER, node, ("log.retention.ms", SET, "30"))
    assert effective("node") == ("30", 2)
    assert effective("own", value="40") == ("40", 1)
