"""DescribeConfigs: whose configuration a broker shows, and which keys."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.metadata_records import ConfigRecord
from tests.handlers.support import Broker

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def describe(broker: Broker, kind: int, name: str, *keys: str, **options: Any) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    (result,) = broker.ask(DescribeConfigsRequest(resources=[resource], **options)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.create_topic("t", retention_ms="1000")
    return broker


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_broker_shows_nothing_that_is_not_there_or_not_its_own(broker: Broker, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_a_type_that_nobody_knows_fails_the_request(broker: Broker) -> None:
    result = describe(broker, 7, "x")
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (LOGGER, "1"), (GROUP, "g")])
def test_what_there_is_is_shown(broker: Broker, kind: int, name: str) -> None:
    broker.apply(ConfigRecord(resource_type=BROKER, resource_name="", name="log.retention.ms", value="7"))
    result = describe(broker, kind, name)
    assert (result.error_code, result.error_message) == (0, "")
    if (kind, name) != (BROKER, ""):
        assert len(result.configs) > 1


def test_only_the_keys_asked_for(broker: Broker) -> None:
    (config,) = describe(broker, TOPIC, "t", "retention.ms").configs
    assert (config.name, config.value, config.config_source, config.synonyms) == ("retention.ms", "1000", 1, [])
    assert config.documentation is None
    assert describe(broker, TOPIC, "t", "no.such.key").configs == []


def test_synonyms_and_documentation_on_request(broker: Broker) -> None:
    (config,) = describe(broker, TOPIC, "t", "retention.ms", include_synonyms=True, include_documentation=True).configs
    assert next((each.name, each.value, each.source) for each in config.synonyms) == ("retention.ms", "1000", 1)
    assert config.documentation
