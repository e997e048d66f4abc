"""Keys as constants: their names, the types of their values, and the one way to read them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pytest

import odradek.config.keys
from odradek.base.errors import ConfigError
from odradek.client.schemas import registry_keys, serializer_keys
from odradek.client.schemas.config import REGISTRY_CONFIG, SERIALIZER_CONFIG
from odradek.client.settings import admin_keys, common_keys, consumer_keys, producer_keys
from odradek.client.settings.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig
from odradek.config.broker import BROKER_CONFIG, STANDALONE, BrokerConfig, standalone_config
from odradek.config.definition import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, MEDIUM, PASSWORD, SHORT, STRING, Config, ConfigDef, Key
from odradek.config.deviations import OWN_DEFAULTS
from odradek.config.dynamic import NEVER_IN_A_FILE
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.group import GROUP_CONFIG
from odradek.config.keys.cluster import BROKER_RACK, NODE_ID, PROCESS_ROLES
from odradek.config.keys.log import LOG_CLEANER_ENABLE, LOG_CLEANER_MIN_CLEANABLE_RATIO, LOG_DIRS, LOG_RETENTION_HOURS, LOG_RETENTION_MS
from odradek.config.keys.run_time import LEADER_REPLICATION_THROTTLED_RATE
from odradek.config.keys.topics import RETENTION_MS
from odradek.config.topic import TOPIC_CONFIG, TopicConfig

OF_BROKERS = [import_module(f"odradek.config.keys.{each.name}") for each in iter_modules(odradek.config.keys.__path__)]
OF_CLIENTS = [admin_keys, common_keys, consumer_keys, producer_keys, registry_keys, serializer_keys]
DEFINITIONS = (
    BROKER_CONFIG,
    TOPIC_CONFIG,
    GROUP_CONFIG,
    PRODUCER_CONFIG,
    CONSUMER_CONFIG,
    ADMIN_CONFIG,
    REGISTRY_CONFIG,
    SERIALIZER_CONFIG,
)
TYPES = {BOOLEAN: bool, STRING: str, CLASS: str, PASSWORD: str, INT: int, SHORT: int, LONG: int, DOUBLE: float, LIST: list}


def constants(module: ModuleType) -> dict[str, Key[Any]]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Key)}


@pytest.mark.parametrize("module", OF_BROKERS + OF_CLIENTS)
def test_constants_have_the_names_of_their_keys(module: ModuleType) -> None:
    assert constants(module)
    assert {key.name.upper().replace(".", "_"): key for key in constants(module).values()} == constants(module)


def test_each_constant_is_in_a_definition() -> None:
    there = [key for definition in (*DEFINITIONS, NEVER_IN_A_FILE.values()) for key in definition]
    assert [name for module in OF_BROKERS + OF_CLIENTS for name, key in constants(module).items() if key not in there] == []


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_values_have_the_types_of_their_keys(definition: ConfigDef) -> None:
    for key in definition:
        if not key.required and key.default is not None:
            assert type(key.default_value()) is TYPES[key.type], key.name


def test_values_are_read_by_key() -> None:
    config = standalone_config({"log.retention.ms": "5"})
    assert config[LOG_RETENTION_MS] == 5
    assert config[LOG_RETENTION_HOURS] == 168
    assert config[LOG_CLEANER_ENABLE] is True
    assert config[LOG_CLEANER_MIN_CLEANABLE_RATIO] == 0.5
    assert config[PROCESS_ROLES] == ["broker", "controller"]
    assert config[LOG_DIRS] is None
    assert config[BROKER_RACK] is None
    assert DynamicBrokerConfig(config)[LOG_RETENTION_MS] == 5
    assert DynamicBrokerConfig(config)[LEADER_REPLICATION_THROTTLED_RATE] == 2**63 - 1
    assert TopicConfig.build(config, {})[RETENTION_MS] == 5
    assert ClientConfig(PRODUCER_CONFIG)[producer_keys.TRANSACTIONAL_ID] is None
    assert ClientConfig(ADMIN_CONFIG)[common_keys.CLIENT_ID] == "odradek"


@pytest.mark.parametrize(
    "config",
    [
        standalone_config(),
        DynamicBrokerConfig(standalone_config()),
        TopicConfig.build(None, {}),
        ClientConfig(ADMIN_CONFIG),
    ],
    ids=lambda config: type(config).__name__,
)
def test_a_key_of_another_definition_is_not_there(config: BrokerConfig | DynamicBrokerConfig | TopicConfig | ClientConfig) -> None:
    with pytest.raises(KeyError, match=r"fetch\.min\.bytes"):
        _ = config[consumer_keys.FETCH_MIN_BYTES]


def test_a_given_value_is_told_from_a_default() -> None:
    config = standalone_config({"log.retention.hours": "168"})
    assert config.is_set(LOG_RETENTION_HOURS)
    assert not config.is_set(LOG_RETENTION_MS)
    _ = config[LOG_RETENTION_MS]
    assert not config.is_set(LOG_RETENTION_MS), "the default that was read"


def test_a_required_key_has_no_default() -> None:
    with pytest.raises(ConfigError, match=r'"node\.id" which has no default'):
        _ = Config(BROKER_CONFIG, {})[NODE_ID]


@pytest.mark.parametrize("name", OWN_DEFAULTS)
def test_a_broker_has_its_own_defaults(name: str) -> None:
    key = BROKER_CONFIG[name]
    given = {name: STANDALONE[name] for name in ("node.id", "controller.listener.names", "controller.quorum.bootstrap.servers")}
    assert BrokerConfig({**given, "process.roles": "broker"})[key] == key.parse(OWN_DEFAULTS[name].default) != key.default_value()


def test_a_setting_with_a_prefix_is_named_whole() -> None:
    key = Key("k", INT, "1", MEDIUM, "A number.")
    with pytest.raises(ConfigError, match=r"configuration listener\.name\.a\.k: Not a number of type INT"):
        key.parse("x", setting="listener.name.a.k")
