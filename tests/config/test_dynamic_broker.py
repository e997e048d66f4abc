"""A broker's configuration while it runs: layers, synonyms, what cannot be set, and who hears of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import odradek
from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, standalone_config
from odradek.config.describe import BrokerLayers, describe_broker
from odradek.config.dynamic import DYNAMIC_KEYS, NEVER_IN_A_FILE, RELOADED_FOR_LISTENERS, THREAD_COUNTS, without_effect_at_run_time
from odradek.config.dynamic_broker import DynamicBrokerConfig, check_setting
from odradek.config.keys.cluster import NUM_PARTITIONS
from odradek.config.keys.log import LOG_RETENTION_MS, MESSAGE_MAX_BYTES
from odradek.config.keys.network import MAX_CONNECTIONS
from odradek.config.topic import SOURCE_DYNAMIC_BROKER, SYNONYMS
from odradek.config.unsupported import UNSUPPORTED
from odradek.server.upkeep.reconfiguration import acceptor_limits
from tests.config.reads import modules, used_keys


def dynamic(**static: str) -> DynamicBrokerConfig:
    return DynamicBrokerConfig(standalone_config({key.replace("_", "."): value for key, value in static.items()}))


def test_the_broker_outdoes_the_cluster_which_outdoes_the_file() -> None:
    config = dynamic(message_max_bytes="1000")
    assert config[MESSAGE_MAX_BYTES] == 1000
    assert config.update({}, {"message.max.bytes": "2000"}) == []
    assert config[MESSAGE_MAX_BYTES] == 2000
    config.update({"message.max.bytes": "3000"}, {"message.max.bytes": "2000"})
    assert config[MESSAGE_MAX_BYTES] == 3000
    assert config.topic_config({}).max_message_bytes == 3000
    assert config.topic_config({"max.message.bytes": "4000"}).max_message_bytes == 4000
    config.update({}, {})
    assert config.current is config.static
    assert config.topic_config({}).max_message_bytes == 1000


def test_a_key_set_at_run_time_outdoes_the_finer_one_of_the_file() -> None:
    config = dynamic(log_roll_ms="5000", log_retention_minutes="3")
    assert (config.topic_config({}).segment_ms, config.topic_config({}).retention_ms) == (5000, 180_000)
    config.update({"log.retention.ms": "7"}, {"log.roll.ms": "9"})
    assert (config.topic_config({}).segment_ms, config.topic_config({}).retention_ms) == (9, 7)
    assert "log.retention.minutes" not in config.current.given


def test_topics_with_equal_settings_share_their_configuration() -> None:
    config = dynamic()
    assert config.topic_config({}) is config.topic_config({})
    one = config.topic_config({"retention.ms": "5", "segment.ms": "6"})
    assert one is config.topic_config({"segment.ms": "6", "retention.ms": "5"})
    config.update({"message.max.bytes": "2000"}, {})
    assert config.topic_config({"segment.ms": "6", "retention.ms": "5"}) is not one


def test_subscribers_hear_of_their_keys_only() -> None:
    config = dynamic()
    heard: list[str] = []
    config.subscribe((MAX_CONNECTIONS,), lambda: heard.append("connections"))
    config.subscribe((LOG_RETENTION_MS, MESSAGE_MAX_BYTES), lambda: heard.append(f"retention {config.current.log_retention_ms}"))
    config.update({"max.connections": "5"}, {})
    assert heard == ["connections"]
    config.update({"max.connections": "5", "log.retention.ms": "9"}, {})
    assert heard == ["connections", "retention 9"]
    config.update({"max.connections": "5", "log.retention.ms": "9"}, {"max.connections": "6"})
    assert heard == ["connections", "retention 9"], "what another layer outdoes is no change"
    config.update({}, {"max.connections": "5"})
    assert heard == ["connections", "retention 9", "retention 604800000"]
    with pytest.raises(KeyError):
        config.subscribe((NUM_PARTITIONS,), lambda: None)


def test_a_subscriber_that_raises_keeps_the_change_from_nobody() -> None:
    config, heard = dynamic(), list[str]()
    config.subscribe((MAX_CONNECTIONS,), lambda: 1 / 0)
    config.subscribe((MAX_CONNECTIONS,), lambda: heard.append("second"))
    config.on_set += [lambda: 1 / 0, lambda: heard.append("set")]
    assert config.update({"max.connections": "5"}, {}) == []
    assert heard == ["second", "set"]


def test_what_cannot_hold_is_left_out_and_said() -> None:
    config = dynamic()
    lines = config.update({"num.partitions": "9", "message.max.bytes": "2000"}, {"log.retention.ms": "soon"})
    assert [line.split(": ")[0] for line in lines] == ["A setting of this broker is ignored", "A setting of all brokers is ignored"]
    assert [key for key in ("num.partitions", "log.retention.ms") if not any(key in line for line in lines)] == []
    assert (config.node, config.cluster) == ({"message.max.bytes": "2000"}, {})
    (line,) = config.update({"max.connections.per.ip": "0"}, {})
    assert "max.connections.per.ip" in line
    assert config.node == {"message.max.bytes": "2000"}, "what was there before still holds"


SAMPLES = {
    "config.providers": "",
    "log.flush.interval.ms": "60000",
    "log.retention.ms": "60000",
    "log.roll.jitter.ms": "60000",
    "log.roll.ms": "60000",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "sasl.jaas.config": "of.a.Module required;",
}
"""Values of keys whose default is none, or says nothing."""


@pytest.mark.parametrize("key", sorted(DYNAMIC_KEYS - {"ssl.engine.factory.class"}))
def test_every_key_that_the_jvm_takes_is_taken(key: str) -> None:
    config = dynamic()
    defined = NEVER_IN_A_FILE.get(key) or BROKER_CONFIG[key]
    value = SAMPLES.get(key, defined.default)
    name = f"listener.name.plaintext.{key}" if key in RELOADED_FOR_LISTENERS else key
    config.check({name: value or ""}, for_node=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.kerberos.min.time.before.relogin", "58000"),
        ("sasl.kerberos.kinit.cmd", "/usr/local/bin/kinit"),
        ("sasl.login.refresh.buffer.seconds", "100"),
        ("sasl.jaas.config", "hunter2"),
        ("num.io.threads", "9"),
        ("num.network.threads", "4"),
        ("listener.name.plaintext.num.network.threads", "4"),
        ("remote.log.reader.threads", "9"),
        ("follower.fetch.last.tiered.offset.enable", "true"),
        ("group.share.assignment.interval.ms", "100"),
        ("of.some.plugin", "hunter2"),
        ("rsm.config.of.a.plugin", "x"),
    ],
)
def test_a_setting_that_changes_nothing_is_kept_and_warned_of_once(name: str, value: str) -> None:
    config = dynamic()
    config.check({name: value}, for_node=True)
    (line,) = config.update({name: value}, {})
    assert f"The setting {name} of this broker has no effect: " in line
    assert "hunter2" not in line
    assert config.update({name: value, "message.max.bytes": "2000"}, {}) == []
    assert config.node == {name: value, "message.max.bytes": "2000"}
    shown = {each.name: each for each in describe_broker(BrokerLayers(config.static, config.node, config.cluster, config.current))}
    secret = shown[name].sensitive
    assert (shown[name].value, shown[name].source) == (None if secret else value, SOURCE_DYNAMIC_BROKER)
    assert secret == (value in ("hunter2", "x"))
    config.check({}, for_node=True)
    assert config.update({}, {}) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num.partitions", "3", "Cannot update these configs dynamically: num.partitions"),
        ("message.max.bytes", "many", "message.max.bytes"),
        ("num.io.threads", "many", "num.io.threads"),
        ("num.io.threads", "17", "greater than double"),
        ("num.network.threads", "7", "greater than double"),
        ("listeners", "PLAINTEXT://:1", "cluster level, broker id must be specified: listeners|controller.listener.names"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT", "cluster level, broker id|CONTROLLER"),
        ("sasl.enabled.mechanisms", "PLAIN,PLAIN", "cluster level, broker id|must not be duplicated|Configuration"),
        ("ssl.keystore.password", "hunter2", "dynamically updated only per-listener using the listener prefix: ssl.keystore.password"),
        ("ssl.client.auth", "hunter", "cluster level, broker id must be specified: ssl.client.auth|for configuration ssl.client.auth"),
        ("ssl.provider", "SunJSSE", "cluster level, broker id must be specified: ssl.provider|Java's TLS providers"),
        ("listener.name.plaintext.ssl.client.auth", "none", "listener PLAINTEXT, restart broker|cluster level, broker id"),
        ("listener.name.plaintext.num.network.threads", "many", "listener.name.plaintext.num.network.threads"),
        ("listener.name.plaintext.max.connections", "many", "listener.name.plaintext.max.connections"),
        ("listener.name.plaintext.max.connections", "0", "at least 1"),
        ("listener.name.other.max.connections", "5", "the listener OTHER is not in"),
        ("listener.name.plaintext.log.dirs", "x", "to the whole broker"),
        ("metric.reporters", "com.example.Reporter", "metrics reporters"),
        ("leader.replication.throttled.rate", "-1", "leader.replication.throttled.rate"),
        ("max.connections.per.ip", "0", "max.connections.per.ip"),
    ],
)
@pytest.mark.parametrize("for_node", [False, True])
def test_what_cannot_be_set_is_refused_with_the_reason(name: str, value: str, said: str, *, for_node: bool) -> None:
    config = dynamic()
    with pytest.raises(ConfigError, match=said) as refused:
        config.check({name: value}, for_node=for_node)
    assert "hunter2" not in str(refused.value)
    config.check({"message.max.bytes": "2000"}, for_node=for_node)


def test_a_check_looks_at_the_other_layer_too() -> None:
    config = dynamic()
    config.update({}, {"max.connections.per.ip.overrides": "127.0.0.1:5"})
    config.check({"max.connections.per.ip": "0"}, for_node=True)
    config.update({"max.connections.per.ip": "0"}, {"max.connections.per.ip.overrides": "127.0.0.1:5"})
    with pytest.raises(ConfigError, match="overrides is set"):
        config.check({}, for_node=False)


def test_stores_of_a_listener_are_set_for_one_broker() -> None:
    config = dynamic()
    name = "listener.name.plaintext.ssl.keystore.location"
    with pytest.raises(ConfigError, match=f"Cannot update these configs at default cluster level, broker id must be specified: {name}"):
        config.check({name: "x"}, for_node=False)
    config.check({name: "x"}, for_node=True)
    asked: list[str] = []
    config.validators.append(lambda new: asked.append(new.given[name]))
    config.check({name: "y"}, for_node=True)
    assert asked == ["y"]


@pytest.mark.parametrize("key", ["ssl.client.auth", "sasl.enabled.mechanisms", "plain.connections.max.reauth.ms", "ssl.keystore.location"])
def test_what_a_listener_was_made_with_is_neither_added_nor_changed_nor_taken_back_while_it_is_there(key: str) -> None:
    """DynamicListenerConfig.validateReconfiguration: stores change, for the rest the listener has to go."""
    fixed = key != "ssl.keystore.location"
    values = {"ssl.client.auth": ("none", "requested"), "sasl.enabled.mechanisms": ("PLAIN", "PLAIN,SCRAM-SHA-256")}.get(key, ("1", "2"))
    names = {"listeners": "PLAINTEXT://127.0.0.1:9092,EXTRA://127.0.0.1:9096,CONTROLLER://127.0.0.1:9093"}
    names["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,CONTROLLER:PLAINTEXT"
    name = f"listener.name.extra.{key}"
    for there in ({}, {name: values[0]}):
        config = dynamic()
        config.check({**names, **there}, for_node=True)
        assert config.update({**names, **there}, {}) == []
        for changed in ({}, {name: values[0]}, {name: values[1]}):
            if fixed and changed != there:
                with pytest.raises(
                    ConfigError, match=f"existing listener EXTRA, restart broker or create a new listener for update: {name}"
                ):
                    config.check({**names, **changed}, for_node=True)
            else:
                config.check({**names, **changed}, for_node=True)
            without = {**names, **changed, "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
            config.check(without, for_node=True)  # the listener goes with it


def test_limits_of_a_listener_are_set_for_one_broker_or_for_all() -> None:
    config, heard = dynamic(max_connections="100"), []
    config.subscribe((MAX_CONNECTIONS,), lambda: heard.append(dict(acceptor_limits(config.current).max_connections_of)))
    name = "listener.name.plaintext.max.connections"
    for for_node in (False, True):
        config.check({name: "5"}, for_node=for_node)
    config.update({}, {name: "5"})
    config.update({name: "6"}, {name: "5"})
    config.update({name: "6"}, {name: "7"})
    config.update({}, {})
    assert heard == [{"PLAINTEXT": 5}, {"PLAINTEXT": 6}, {}]
    assert acceptor_limits(config.current).max_connections == 100


def test_the_listeners_of_nodes_are_protected_where_clients_have_another() -> None:
    assert acceptor_limits(standalone_config()).protected == {"CONTROLLER"}
    two = {"listeners": "PLAINTEXT://h:1,IN://h:2,CONTROLLER://h:3", "inter.broker.listener.name": "IN"}
    two["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert acceptor_limits(standalone_config(two)).protected == {"CONTROLLER", "IN"}


def test_a_key_set_again_to_its_value_is_heard_of() -> None:
    config, heard = dynamic(), []
    config.on_set.append(lambda: heard.append(config.current.given.get("listener.name.plaintext.ssl.keystore.location")))
    settings = {"listener.name.plaintext.ssl.keystore.location": "x"}
    for node in (settings, settings, dict(settings), {}, {}):
        config.update(node, {})
    assert heard == ["x", "x", None]


@pytest.mark.parametrize(("count", "said"), [("4", "at least half"), ("21", "greater than double"), ("0", "background.threads")])
def test_pools_grow_and_shrink_by_two_at_most(count: str, said: str) -> None:
    config = dynamic()
    with pytest.raises(ConfigError, match=said):
        config.check({"background.threads": count}, for_node=True)
    for fitting in ("5", "20"):
        config.check({"background.threads": fitting}, for_node=True)


def test_every_key_that_may_be_set_at_run_time_is_followed() -> None:
    """A key is a topic's default, or its value is read, or it is refused, or it is said to change nothing."""
    topic_keys = {synonym for synonyms in SYNONYMS.values() for synonym, _ in synonyms}
    accepted = {key for key in DYNAMIC_KEYS if key in BROKER_CONFIG and without_effect_at_run_time(key) is None}
    used = used_keys(modules(Path(odradek.__file__).parent), accepted)
    # What the providers of references are is asked before there is a configuration (odradek.providers).
    assert accepted - topic_keys - used.keys() - UNSUPPORTED.keys() - {"config.providers"} == set()
    assert {key.name for key in THREAD_COUNTS} <= DYNAMIC_KEYS


def test_a_key_may_be_given_the_value_that_does_without_the_feature() -> None:
    check_setting("metric.reporters", "")
