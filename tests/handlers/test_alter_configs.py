"""AlterConfigs and IncrementalAlterConfigs on a broker: what it judges itself, and how the controller's answers come back."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.admin import alter_configs, incremental_alter_configs
from odradek.handlers.context import RequestContext
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from tests.handlers.support import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2


class Controller:
    """Stands for the way to the controller: answers every resource with the same code, in reverse order."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[int, str]]] = []
        self.code = 0
        self.fails: KafkaError | None = None

    def ask(self, context: RequestContext, request: Any) -> Deferred[Any]:
        self.asked.append([(each.resource_type, each.resource_name) for each in request.resources])
        if self.fails is not None:
            return Deferred.failed(self.fails)
        response = IncrementalAlterConfigsResponse if isinstance(request, IncrementalAlterConfigsRequest) else AlterConfigsResponse
        return Deferred.of(
            response(
                responses=[
                    response.AlterConfigsResourceResponse(
                        error_code=self.code, error_message="said", resource_type=each.resource_type, resource_name=each.resource_name
                    )
                    for each in reversed(request.resources)
                ]
            )
        )


@pytest.fixture
def broker() -> Broker:
    return Broker(forwarder=Controller())


def asked(broker: Broker) -> list[list[tuple[int, str]]]:
    return broker.parts.forwarder.asked  # type: ignore[attr-defined, no-any-return]


def change(broker: Broker, *resources: tuple[int, str, list[tuple[str, int, str | None]]], version: int = 1) -> list[int]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ],
            )
            for kind, name, operations in resources
        ]
    )
    response = broker.call(incremental_alter_configs.handle, request, version)
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [(kind, name) for kind, name, _ in resources]
    return [each.error_code for each in response.responses]


def test_what_is_left_goes_to_the_controller_and_comes_back_in_order(broker: Broker) -> None:
    good, bad = [("retention.ms", SET, "5")], [("retention.ms", SET, None)]
    codes = change(broker, (TOPIC, "a", good), (TOPIC, "b", bad), (TOPIC, "c", good), (99, "d", good))
    assert codes == [0, ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert asked(broker) == [[(TOPIC, "a"), (TOPIC, "c")]]


def test_nothing_is_asked_when_nothing_is_left(broker: Broker) -> None:
    twice = (TOPIC, "a", [("retention.ms", SET, "5")])
    assert change(broker, twice, twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert change(broker, (TOPIC, "a", [("k", SET, "1"), ("k", DELETE, None)])) == [ErrorCode.INVALID_REQUEST]
    assert change(broker, (BROKER_LOGGER, "1", [])) == [ErrorCode.NONE]
    assert change(broker) == []
    assert asked(broker) == []


@pytest.mark.parametrize(
    ("name", "operations", "code"),
    [
        ("1", [("message.max.bytes", SET, "5")], ErrorCode.NONE),
        ("", [("message.max.bytes", SET, "5")], ErrorCode.NONE),
        ("", [("log.cleanup.policy", APPEND, "compact")], ErrorCode.NONE),
        ("2", [("message.max.bytes", SET, "5")], ErrorCode.INVALID_REQUEST),
        ("one", [("message.max.bytes", SET, "5")], ErrorCode.INVALID_REQUEST),
        ("1", [("message.max.bytes", SET, "-5")], ErrorCode.INVALID_REQUEST),
        ("1", [("num.partitions", SET, "5")], ErrorCode.INVALID_REQUEST),
        ("", [("num.io.threads", SET, "5")], ErrorCode.NONE),
        ("", [("num.io.threads", SET, "50")], ErrorCode.INVALID_REQUEST),
        ("1", [("message.max.bytes", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ("1", [("message.max.bytes", 7, "5")], ErrorCode.INVALID_REQUEST),
        ("1", [("background.threads", SET, "500")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_broker_judges_its_own_keys(broker: Broker, name: str, operations: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    assert change(broker, (BROKER, name, operations)) == [code]
    assert asked(broker) == ([[(BROKER, name)]] if code is ErrorCode.NONE else [])


def test_what_holds_for_all_brokers_is_judged_with_what_this_one_has_of_its_own(broker: Broker) -> None:
    """Of the threads that are running, at most half may go at once: those of this broker stay, whatever holds for the others."""
    fewer, other = [("log.cleaner.threads", SET, "1")], [("message.max.bytes", SET, "5")]
    broker.services.dynamic_config.update({"log.cleaner.threads": "4"}, {})
    assert change(broker, (BROKER, "", fewer), (BROKER, "1", fewer)) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    broker.services.dynamic_config.update({}, {"log.cleaner.threads": "4"})
    assert change(broker, (BROKER, "", fewer)) == [ErrorCode.INVALID_REQUEST]
    assert change(broker, (BROKER, "", other), (BROKER, "1", other)) == [ErrorCode.NONE] * 2, "the four threads stay"


def test_an_error_on_the_way_is_everybodys_who_was_on_it(broker: Broker) -> None:
    broker.parts.forwarder.fails = KafkaError(ErrorCode.NOT_CONTROLLER, "gone")  # type: ignore[attr-defined]
    codes = change(broker, (TOPIC, "a", []), (99, "b", []), (TOPIC, "c", []))
    assert codes == [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST, ErrorCode.NOT_CONTROLLER]


def test_the_controllers_error_is_passed_on(broker: Broker) -> None:
    broker.parts.forwarder.code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # type: ignore[attr-defined]
    assert change(broker, (TOPIC, "a", []), (TOPIC, "b", [])) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_replacing_is_judged_by_what_would_be_left(broker: Broker, version: int) -> None:
    broker.services.dynamic_config.update({"max.connections.per.ip.overrides": "127.0.0.1:5"}, {})

    def replace(*configs: tuple[str, str | None]) -> int:
        wanted = [AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs]
        resource = AlterConfigsRequest.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=wanted)
        response = broker.call(alter_configs.handle, AlterConfigsRequest(resources=[resource]), version)
        return int(response.responses[0].error_code)

    assert replace(("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "127.0.0.1:5")) == 0
    assert replace(("max.connections.per.ip", "0")) == ErrorCode.INVALID_REQUEST
    assert replace(("max.connections.per.ip", None)) == ErrorCode.INVALID_REQUEST
    assert replace() == 0
    assert change(broker, (BROKER, "1", [("max.connections.per.ip", SET, "0")])) == [0], "a single change keeps the rest"


def test_a_request_that_fails_as_a_whole_names_every_resource() -> None:
    error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    for module, request in ((alter_configs, AlterConfigsRequest), (incremental_alter_configs, IncrementalAlterConfigsRequest)):
        resources = [request.AlterConfigsResource(resource_type=kind, resource_name=name) for kind, name in ((TOPIC, "a"), (BROKER, "1"))]
        rows = module.error_response(request(resources=resources), error).responses
        assert [(row.resource_type, row.resource_name, row.error_code, row.error_message) for row in rows] == [
            (TOPIC, "a", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"),
            (BROKER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no"),
        ]
