"""A node's configuration: what is accepted, what is refused and in which words."""

from __future__ import annotations

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, STANDALONE, BrokerConfig, standalone_config
from odradek.config.describe import BrokerLayers, describe_broker, describe_topic
from odradek.config.listeners import Endpoint
from odradek.config.properties import parse_properties
from odradek.config.topic import SYNONYMS, TOPIC_CONFIG, TopicConfig
from odradek.config.unsupported import UNSUPPORTED, UNSUPPORTED_TOPIC


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.io.threads", "abc"),
        ("num.io.threads", "0"),
        ("num.io.threads", "2147483648"),
        ("num.io.threads", "1_000"),
        ("log.cleanup.policy", "compact,shred"),
        ("log.retention.bytes", "1.5"),
        ("auto.create.topics.enable", "yes"),
        ("log.cleaner.io.buffer.load.factor", "much"),
        ("compression.gzip.level", "0"),
        ("compression.type", "lzma"),
        ("log.retention.ms", "0"),
        ("controller.quorum.voters", "1@localhost"),
        ("controller.quorum.voters", "2@localhost:9093"),
        ("controller.listener.names", ""),
        ("listeners", "PLAINTEXT:/localhost:9092"),
        ("listeners", "OTHER://localhost:9092,CONTROLLER://:1"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092"),
        ("inter.broker.listener.name", "CONTROLLER"),
        ("broker.id", "7"),
        ("num.partition", "1"),
        ("zookeeper.connect", "localhost:2181"),
        ("remote.log.storage.system.enable", "true"),
        ("replica.selector.class", "com.example.Nearest"),
        ("authorizer.class.name", "com.example.Authorizer"),
        ("super.users", "alice"),
        ("early.start.listeners", "ELSEWHERE"),
        ("max.connections.per.ip.overrides", "nonsense"),
        ("queued.max.request.bytes", "10"),
        ("odradek.metrics.listener", "localhost"),
        ("odradek.metrics.listener", "99999"),
        ("odradek.log.format", "xml"),
        ("odradek.log.files", "1"),
        ("odradek.log.slow.request.ms", "-2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_that_names_the_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        standalone_config({key: value})
    text = str(caught.value)
    assert "\n" not in text
    assert key in text or key.split(".")[0] in text


def test_a_port_alone_for_metrics_is_one_of_this_machine() -> None:
    assert standalone_config().metrics_listener is None
    assert standalone_config({"odradek.metrics.listener": "9404"}).metrics_listener == ("127.0.0.1", 9404)
    assert standalone_config({"odradek.metrics.listener": "[::1]:9404"}).metrics_listener == ("::1", 9404)


def test_required_keys_are_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"Missing required configuration: controller\.listener\.names .*, node\.id .*, process\.roles "):
        BrokerConfig({})
    with pytest.raises(ConfigError, match=r"Missing required configuration: node\.id \(such as node\.id=1\)$"):
        BrokerConfig({key: value for key, value in STANDALONE.items() if key != "node.id"})
    assert BrokerConfig({**{key: value for key, value in STANDALONE.items() if key != "node.id"}, "broker.id": "4"}).node_id == 4


def test_kafkas_own_example_file_is_accepted() -> None:
    text = """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
        log.dirs=/tmp/kraft-combined-logs
        log.retention.hours=168
        """
    config = BrokerConfig({**parse_properties(text), "num.partitions": "3"})
    assert config.is_broker
    assert config.is_controller
    assert config.log_dirs == ["/tmp/kraft-combined-logs"]
    assert config.num_partitions == 3
    assert config.controller_quorum_bootstrap_servers == [("localhost", 9093)]
    assert config.broker_listeners == [Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092)]
    assert config.advertised_listeners == [Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092)]
    assert config.advertised_controller_listeners == [Endpoint("CONTROLLER", "PLAINTEXT", "localhost", 9093)]


def test_ipv6_listeners_lose_their_brackets_and_may_share_a_port_with_ipv4() -> None:
    config = standalone_config({"listeners": "PLAINTEXT://[::1]:9092,CONTROLLER://127.0.0.1:9092"})
    assert config.listeners[0].host == "::1"
    assert str(config.listeners[0]) == "PLAINTEXT://[::1]:9092"
    with pytest.raises(ConfigError):
        standalone_config({"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9092"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group.consumer.assignors": "uniform,odd"}, "odd, which is unknown; the assignors are uniform, range"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol"),
        ({"group.consumer.assignment.interval.ms": "20000"}, "group.consumer.max.assignment.interval.ms must be"),
    ],
)
def test_consumer_groups_that_cannot_be(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        standalone_config(settings)


def test_assignors_may_be_named_by_kafkas_classes() -> None:
    standalone_config({"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"})


def test_every_default_passes_its_own_validator() -> None:
    for key in (*BROKER_CONFIG, *TOPIC_CONFIG):
        if not key.required:
            key.default_value()


def test_the_table_of_what_is_not_served_names_keys() -> None:
    assert [key for key in UNSUPPORTED if key not in BROKER_CONFIG and key != "broker.id.generation.enable"] == []
    assert [key for key in UNSUPPORTED_TOPIC if key not in TOPIC_CONFIG] == []
    for key, synonyms in SYNONYMS.items():
        assert key in TOPIC_CONFIG
        assert all(name in BROKER_CONFIG for name, _ in synonyms)


def test_a_topic_takes_its_own_value_else_the_brokers() -> None:
    config = standalone_config({"log.retention.minutes": "2", "log.roll.hours": "3", "log.segment.bytes": "2000000"})
    topic = TopicConfig.build(config, {"segment.bytes": "3000000"})
    assert topic.retention_ms == 120_000
    assert topic.segment_ms == 3 * 3_600_000
    assert topic.segment_bytes == 3_000_000
    assert TopicConfig.build(config, {}).segment_bytes == 2_000_000
    with pytest.raises(ConfigError, match="Unknown topic config name"):
        TopicConfig.build(config, {"log.segment.bytes": "1"})


def test_what_is_secret_is_what_kafka_calls_a_password() -> None:
    shown = describe_broker(BrokerLayers(standalone_config()))
    assert {key.name for key in shown if key.sensitive} == {
        "delegation.token.secret.key",
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }


def test_where_a_value_comes_from() -> None:
    layers = BrokerLayers(standalone_config({"log.retention.ms": "5"}), {}, {"min.insync.replicas": "1"})
    broker = {described.name: described for described in describe_broker(layers)}
    assert broker["log.retention.ms"].source == 4
    assert [s.name for s in broker["log.retention.ms"].synonyms] == ["log.retention.ms", "log.retention.hours"]
    assert broker["min.insync.replicas"].source == 3
    assert broker["max.connections"].value == "10000"
    assert broker["node.id"].read_only
    assert not broker["log.retention.ms"].read_only
    assert broker["ssl.key.password"].sensitive
    topic = {described.name: described for described in describe_topic(layers, {"retention.ms": "7"})}
    assert (topic["retention.ms"].value, topic["retention.ms"].source) == ("7", 1)
    assert [s.source for s in topic["retention.ms"].synonyms] == [1, 4, 5]
    assert topic["segment.ms"].source == 5
    dynamic = BrokerLayers(layers.config, {"log.retention.ms": "9"}, {"log.retention.ms": "8", "min.insync.replicas": "2"})
    topic = {described.name: described for described in describe_topic(dynamic, {})}
    assert (topic["retention.ms"].value, topic["retention.ms"].source) == ("9", 2)
    assert (topic["min.insync.replicas"].value, topic["min.insync.replicas"].source) == ("2", 3)


def test_every_key_says_what_it_is_for() -> None:
    assert [key.name for key in (*BROKER_CONFIG, *TOPIC_CONFIG) if not key.doc] == []
