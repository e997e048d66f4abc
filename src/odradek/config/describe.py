"""Sources of configuration values, as DescribeConfigs shows them (kafka.server.ConfigHelper, kafka.server.DynamicBrokerConfig)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from odradek.config.broker import BROKER_CONFIG, BrokerConfig
from odradek.config.client_metrics import CLIENT_METRICS_CONFIG
from odradek.config.definition import PASSWORD, ConfigType, format_value
from odradek.config.deviations import OWN_DEFAULTS
from odradek.config.dynamic import DYNAMIC_KEYS, broker_synonyms, is_only_kept
from odradek.config.group import GROUP_CONFIG, GROUP_SYNONYMS
from odradek.config.keys import authorizer
from odradek.config.listener_settings import key_of, listener_synonyms
from odradek.config.policies import is_of_plugins
from odradek.config.topic import (
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_GROUP,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
    SYNONYMS,
    TOPIC_CONFIG,
    TopicConfig,
    override_problem,
)


class Synonym(NamedTuple):
    """Key that can give the value; the first of a list of synonyms gives it."""

    name: str
    value: str | None
    source: int


class DescribedConfig(NamedTuple):
    """Key as DescribeConfigs shows it; `value` is None for sensitive keys and for keys without a value."""

    name: str
    value: str | None
    read_only: bool
    source: int
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: ConfigType | None
    documentation: str


class BrokerLayers(NamedTuple):
    """Layers of a broker's configuration: its properties file, and the keys set at run time for this broker and for all brokers."""

    config: BrokerConfig
    dynamic: Mapping[str, str] = {}
    dynamic_default: Mapping[str, str] = {}
    current: BrokerConfig | None = None
    """Effective configuration, where it may differ from the settings because of references to a configuration provider."""

    def synonyms(self, name: str, *, sensitive: bool) -> tuple[Synonym, ...]:
        """Return the keys that may give `name` its value, in each layer, the strongest first. The list begins with `name`."""
        found: list[Synonym] = []
        layers = (
            (self.dynamic, SOURCE_DYNAMIC_BROKER),
            (self.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),
            (self.config.given, SOURCE_STATIC_BROKER),
        )
        names = listener_synonyms(name) or broker_synonyms(name)
        for layer, source in layers:
            found += [Synonym(each, None if sensitive else layer[each], source) for each in names if each in layer]
        for each in names:
            default = default_text(each)
            if default is not None:
                found.append(Synonym(each, None if sensitive else default, SOURCE_DEFAULT))
        while found and found[0].name != name:
            del found[0]
        return tuple(found)


def default_text(name: str) -> str | None:
    """Return the default of a broker key as text, Odradek's where it deviates; None without a default."""
    own = OWN_DEFAULTS.get(name)
    if own is not None:
        return own.default
    if name not in BROKER_CONFIG or BROKER_CONFIG[name].required:
        return None
    return BROKER_CONFIG[name].default


def describe_topic(layers: BrokerLayers, overrides: Mapping[str, str], keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return a topic's keys, all or those in `keys`."""
    overrides = {name: text for name, text in overrides.items() if override_problem(name, text) is None}
    if layers.current is not None:
        effective = TopicConfig.build(layers.current, overrides)
    else:
        effective = TopicConfig.build(layers.config, overrides, (layers.dynamic, layers.dynamic_default))
    described: list[DescribedConfig] = []
    for key in TOPIC_CONFIG:
        if (key.internal and key.name not in overrides) or (keys is not None and key.name not in keys):
            continue
        value = format_value(key.type, effective[key])
        broker_key = SYNONYMS.get(key.name)
        synonyms = layers.synonyms(broker_key[0][0], sensitive=False) if broker_key else ()
        if key.name in overrides:
            synonyms = (Synonym(key.name, value, SOURCE_TOPIC), *synonyms)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        described.append(DescribedConfig(key.name, value, False, source, False, synonyms, key.type, key.doc))
    return described


def describe_broker(layers: BrokerLayers, keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return a broker's keys, all or those in `keys`."""
    config = layers.config
    described: list[DescribedConfig] = []
    for key in BROKER_CONFIG:
        name = key.name
        if (key.internal and name not in config.given) or (keys is not None and name not in keys):
            continue
        # Kafka's brokers do not know their authorizer's keys, and the value of an unknown key may be a secret.
        foreign = name in authorizer.NAMES
        sensitive = foreign or key.type is PASSWORD
        kind = None if foreign else key.type
        value = _broker_value(layers, name)
        synonyms = layers.synonyms(name, sensitive=sensitive)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        read_only = name not in DYNAMIC_KEYS
        described.append(DescribedConfig(name, None if sensitive else value, read_only, source, sensitive, synonyms, kind, key.doc))
    return described + _describe_listeners(layers, keys)


def _describe_listeners(layers: BrokerLayers, keys: Collection[str] | None) -> list[DescribedConfig]:
    """Return settings of single listeners, of configuration providers and policies, and run-time settings of unknown keys."""
    described: list[DescribedConfig] = []
    for name in {**layers.config.given, **layers.dynamic_default, **layers.dynamic}:
        key = key_of(name)
        if keys is not None and name not in keys:
            continue
        if is_of_plugins(name) or (is_only_kept(name) and key is None):
            # As Kafka shows keys without a definition, whose values may be secret.
            synonyms = layers.synonyms(name, sensitive=True)
            described.append(DescribedConfig(name, None, True, synonyms[0].source, True, synonyms, None, ""))
        if key is None or key.name == name:
            continue
        sensitive = key.type is PASSWORD
        synonyms = layers.synonyms(name, sensitive=sensitive)
        value = None if sensitive else _set_value(layers, name)
        # Kafka reports all of these keys as read-only, even those that can change.
        described.append(DescribedConfig(name, value, True, synonyms[0].source, sensitive, synonyms, key.type, key.doc))
    return described


def _set_value(layers: BrokerLayers, name: str) -> str | None:
    """Return the value of the strongest setting, with references resolved; None when the key is not set."""
    for layer in (layers.dynamic, layers.dynamic_default):
        if name in layer:
            current = layers.current
            return layer[name] if current is None or name not in current.references else current.given[name]
    return layers.config.given.get(name)


def _broker_value(layers: BrokerLayers, name: str) -> str | None:
    if name in layers.dynamic or name in layers.dynamic_default:
        return _set_value(layers, name)
    key = BROKER_CONFIG[name]
    if key.required and not layers.config.is_set(key):
        return None
    return format_value(key.type, layers.config[key])


def describe_cluster_default(layers: BrokerLayers, keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the keys set at run time for all brokers (the broker resource named "")."""
    described: list[DescribedConfig] = []
    for name, value in layers.dynamic_default.items():
        if keys is not None and name not in keys:
            continue
        known = name in BROKER_CONFIG
        sensitive = not known or BROKER_CONFIG[name].type is PASSWORD
        synonyms = tuple(s for s in layers.synonyms(name, sensitive=sensitive) if s.source == SOURCE_DYNAMIC_DEFAULT_BROKER)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        kind = BROKER_CONFIG[name].type if known else None
        doc = BROKER_CONFIG[name].doc if known else ""
        shown = None if sensitive else value
        described.append(DescribedConfig(name, shown, name not in DYNAMIC_KEYS, source, sensitive, synonyms, kind, doc))
    return described


def describe_group(layers: BrokerLayers, overrides: Mapping[str, str], keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return a group's keys, all or those in `keys`; their defaults are the broker's."""
    described: list[DescribedConfig] = []
    for key in GROUP_CONFIG:
        if keys is not None and key.name not in keys:
            continue
        broker_key = GROUP_SYNONYMS.get(key.name)
        synonyms: tuple[Synonym, ...]
        if broker_key is None:
            default = key.default or ""
            value, synonyms = default, (Synonym(key.name, default, SOURCE_DEFAULT),)
        else:
            value, synonyms = _broker_value(layers, broker_key) or "", layers.synonyms(broker_key, sensitive=False)
        if key.name in overrides:
            value = overrides[key.name]
            synonyms = (Synonym(key.name, value, SOURCE_GROUP), *synonyms)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        described.append(DescribedConfig(key.name, value, False, source, False, synonyms, key.type, key.doc))
    return described


def describe_client_metrics(overrides: Mapping[str, str], keys: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the keys of a client-metrics subscription, all or those in `keys`."""
    described: list[DescribedConfig] = []
    for key in CLIENT_METRICS_CONFIG:
        if keys is not None and key.name not in keys:
            continue
        own = overrides.get(key.name)
        value, source = (key.default, SOURCE_DEFAULT) if own is None else (own, SOURCE_CLIENT_METRICS)
        described.append(DescribedConfig(key.name, value, False, source, False, (), key.type, key.doc))
    return described
