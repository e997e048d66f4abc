"""ListConfigResources at handler level."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.admin import list_config_resources
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.metadata_records import ConfigRecord, FenceBrokerRecord, RegisterBrokerRecord
from tests.handlers.support import Broker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def broker() -> Broker:
    """Brokers 1 and 2 (fenced) on the listener asked on, 3 on another; a topic of each kind, two groups and a metrics subscription."""
    broker = Broker()
    broker.create_topic("plain")
    broker.create_topic("configured", number=2, retention_ms="1000")
    elsewhere = RegisterBrokerRecord.BrokerEndpoint(name="ELSEWHERE", host="host3", port=9003, security_protocol=0)
    broker.apply(
        FenceBrokerRecord(id=2, epoch=200),
        RegisterBrokerRecord(broker_id=3, broker_epoch=300, end_points=[elsewhere], fenced=False),
        ConfigRecord(resource_type=BROKER, resource_name="", name="log.retention.ms", value="1"),
        ConfigRecord(resource_type=GROUP, resource_name="g1", name="consumer.session.timeout.ms", value="50000"),
        ConfigRecord(resource_type=GROUP, resource_name="g2", name="consumer.session.timeout.ms", value="50000"),
        ConfigRecord(resource_type=CLIENT_METRICS, resource_name="m", name="interval.ms", value="1000"),
    )
    return broker


def ask(broker: Broker, *types: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response = broker.call(list_config_resources.handle, request, version)
    assert response.error_code == 0
    return sorted((resource.resource_type, resource.resource_name) for resource in response.config_resources)


BY_TYPE = {
    TOPIC: ["configured", "plain"],
    BROKER: ["1", "2"],
    BROKER_LOGGER: ["1", "2"],
    CLIENT_METRICS: ["m"],
    GROUP: ["g1", "g2"],
}


@pytest.mark.parametrize("resource_type", BY_TYPE)
def test_one_type_at_a_time(broker: Broker, resource_type: int) -> None:
    assert ask(broker, resource_type) == [(resource_type, name) for name in BY_TYPE[resource_type]]


def test_every_type_when_none_is_named(broker: Broker) -> None:
    assert ask(broker) == [(resource_type, name) for resource_type, names in BY_TYPE.items() for name in names]


def test_a_type_named_twice_is_listed_once(broker: Broker) -> None:
    assert ask(broker, TOPIC, GROUP, TOPIC) == [(TOPIC, "configured"), (TOPIC, "plain"), (GROUP, "g1"), (GROUP, "g2")]


def test_the_first_version_lists_client_metrics_only(broker: Broker) -> None:
    assert ask(broker, version=0) == [(CLIENT_METRICS, "m")]


def test_what_is_no_longer_configured_is_no_longer_listed(broker: Broker) -> None:
    broker.apply(ConfigRecord(resource_type=GROUP, resource_name="g1", name="consumer.session.timeout.ms", value=None))
    assert ask(broker, GROUP) == [(GROUP, "g2")]


@pytest.mark.parametrize("types", [(0,), (1,), (-1,), (TOPIC, 64)])
def test_an_unknown_type_is_refused(broker: Broker, types: tuple[int, ...]) -> None:
    with pytest.raises(KafkaError) as caught:
        ask(broker, *types)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
