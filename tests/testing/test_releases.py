"""Brokers that announce what those of an older release of Kafka do."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from odradek.base.errors import ErrorCode
from odradek.client import Admin, NewTopic
from odradek.handlers.scopes import BROKER
from odradek.handlers.table import APIS
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.testing import EmbeddedBroker
from odradek.testing.kit.releases import RELEASES, ReleaseError, release
from tests.testing.wire import Wire

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_the_newest_release_announces_what_the_messages_declare() -> None:
    known = release("4.3").apis
    for key, info in API_INFO.items():
        if "broker" in info.listeners and int(key) != ApiKey.PRODUCE:
            versions = (info.min_version, info.max_version - info.latest_version_unstable)
            if versions[1] >= versions[0]:
                assert known[int(key)] == versions, key
    assert known[ApiKey.PRODUCE] == (0, 13)


@pytest.mark.parametrize(("name", "former"), list(zip(RELEASES[1:], RELEASES, strict=False)))
def test_versions_only_grow_from_release_to_release_but_for_what_4_0_gave_up(name: str, former: str) -> None:
    now, before = release(name), release(former)
    for key, versions in before.apis.items():
        if key in now.apis:
            assert now.apis[key].maximum >= versions.maximum, ApiKey(key)
            if name != "4.0" and not (name == "4.1" and key == ApiKey.JOIN_GROUP) and not (name == "4.3" and key >= 76):
                assert now.apis[key].minimum == versions.minimum, ApiKey(key)
    assert set(before.features) <= set(now.features)


@pytest.mark.parametrize(
    ("name", "api", "versions"),
    [
        # From the documentation of the releases' protocol.
        ("2.4", "PRODUCE", (0, 8)),
        ("2.8", "METADATA", (0, 11)),
        ("3.1", "FETCH", (0, 13)),
        ("3.7", "FETCH", (0, 16)),
        ("3.7", "CONSUMER_GROUP_HEARTBEAT", (0, 0)),
        ("3.8", "FIND_COORDINATOR", (0, 5)),
        ("3.9", "LIST_OFFSETS", (0, 9)),
        ("4.0", "JOIN_GROUP", (2, 9)),
        ("4.1", "JOIN_GROUP", (0, 9)),
    ],
)
def test_some_versions_that_are_known(name: str, api: str, versions: tuple[int, int]) -> None:
    assert release(name).apis[ApiKey[api]] == versions


def test_a_patch_release_is_its_minor_release_and_others_are_unknown() -> None:
    assert release("3.7.2").name == "3.7"
    for name in ("0.11", "4.4", "3", "nonsense"):
        with pytest.raises(ReleaseError, match=r"the releases of Kafka are 2\.4 to 4\.3"):
            release(name)


def _announced(broker: EmbeddedBroker, version: int) -> tuple[dict[int, tuple[int, int]], dict[str, tuple[int, int]], dict[str, int]]:
    with Wire(broker.port) as wire:
        answer = wire.ask(ASK, version)
    return (
        {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys},
        {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
        {each.name: each.max_version_level for each in answer.finalized_features},
    )


@pytest.mark.parametrize("name", ["2.4", "3.3", "3.7", "3.9", "4.0", "4.3"])
def test_a_broker_announces_what_its_release_and_odradek_serve(name: str) -> None:
    known = release(name)
    with EmbeddedBroker(version=name, memory=True) as broker:
        apis, supported, finalized = _announced(broker, min(known.apis[ApiKey.API_VERSIONS].maximum, 4))
    expected = {}
    for api in APIS:
        theirs = known.apis.get(api.api_key)
        if api.is_served_on(BROKER) and theirs is not None and not api.optional:
            last = min(theirs.maximum, api.max_version - API_INFO[api.api_key].latest_version_unstable)
            if last >= (first := max(theirs.minimum, api.advertised_from)):
                expected[int(api.api_key)] = (first, last)
    assert apis == expected
    assert len(apis) > 30
    if known.features:
        assert finalized["metadata.version"] == known.features["metadata.version"].maximum
        assert supported["metadata.version"] == known.features["metadata.version"]
        assert set(supported) <= set(known.features)
        assert set(finalized) <= set(known.features)
        assert ("group.version" in finalized) == (name >= "4.0")
    else:
        assert (supported, finalized) == ({}, {})


def test_what_is_newer_than_the_release_is_not_served() -> None:
    with EmbeddedBroker(version="3.7", memory=True) as broker:
        with Wire(broker.port) as wire:
            wire.send(ASK, 4)
            answer = wire.receive(ApiKey.API_VERSIONS, 0)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 3)]
            assert wire.ask(ASK, 3).error_code == 0
        with Wire(broker.port) as wire:
            assert wire.ask(ListOffsetsRequest(replica_id=-1), 8).topics == []
            with pytest.raises(ConnectionError):
                wire.ask(ListOffsetsRequest(replica_id=-1), 9)
        with Wire(broker.port) as wire, pytest.raises(ConnectionError):
            wire.ask(DescribeTopicPartitionsRequest(), 0)


def test_faults_hold_for_an_older_release_too_and_it_survives_a_restart() -> None:
    with EmbeddedBroker(version="3.3", memory=True) as broker:
        broker.restart()
        broker.faults.fail("ApiVersions", "INVALID_REQUEST", times=1)
        with Wire(broker.port) as wire:
            assert wire.ask(ASK, 3).error_code == ErrorCode.INVALID_REQUEST
            assert wire.ask(ASK, 3).error_code == 0


@pytest.mark.parametrize("name", ["2.4", "2.8", "3.3", "3.9"])
def test_clients_find_their_versions(name: str) -> None:
    with EmbeddedBroker(version=name, memory=True) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("t", b"value")
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"value"
        consumer.close()
        for kind in broker.requests():
            # A client asks for the newest ApiVersions it knows, and again when it hears which are served.
            assert kind.api is ApiKey.API_VERSIONS or kind.version in release(name).apis[kind.api], kind
