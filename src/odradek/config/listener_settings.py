"""Settings of one listener: `listener.name.NAME.KEY` overrides KEY for that listener.

`listener.name.NAME.MECHANISM.KEY` does so for one SASL mechanism there (org.apache.kafka.common.network.ListenerName.configPrefix,
AbstractConfig.valuesWithPrefixOverride).

The name is written in lower case, as Kafka requires. Kafka ignores a setting of a listener that it does not know, or of a key without
effect there; here such a setting is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ConfigError
from odradek.config.definition import ConfigValue, Key, T, invalid

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

LISTENER_PREFIX = "listener.name."

_FAMILIES = ("ssl.", "sasl.")
_SINGLE_KEYS = frozenset(
    {"connections.max.reauth.ms", "max.connection.creation.rate", "max.connections", "num.network.threads", "principal.builder.class"}
)
MECHANISM_KEYS = frozenset({"connections.max.reauth.ms"})
"""Keys that may follow a mechanism, besides all of sasl.*."""


class ListenerSetting(NamedTuple):
    """Parts of a setting's name, all in lower case. `mechanism` is "" when the name contains none."""

    listener: str
    mechanism: str
    key: str


def listener_key(listener: str, key: str, mechanism: str = "") -> str:
    """Return the name of a listener's setting."""
    behind = f"{mechanism.lower()}.{key}" if mechanism else key
    return f"{LISTENER_PREFIX}{listener.lower()}.{behind}"


def parse_listener_key(name: str) -> ListenerSetting | None:
    """Return the parts of a listener setting's name; None when it does not begin with listener.name.

    Raises ConfigError when the rest of the name is not valid for a listener.
    """
    from odradek.config.broker import BROKER_CONFIG

    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not listener or not dot or not rest:
        raise ConfigError(
            f"{name}: a setting of a listener has the form listener.name.NAME.KEY, such as listener.name.external.ssl.client.auth"
        )
    if listener != listener.lower():
        raise ConfigError(f"{name}: the name of the listener must be in lower case, {LISTENER_PREFIX}{listener.lower()}.{rest}")
    if rest in BROKER_CONFIG:
        if not (rest.startswith(_FAMILIES) or rest in _SINGLE_KEYS):
            raise ConfigError(f"{name}: {rest} applies to the whole broker and cannot be set for one listener")
        return ListenerSetting(listener, "", rest)
    mechanism, dot, key = rest.partition(".")
    if dot and key in BROKER_CONFIG and (key.startswith("sasl.") or key in MECHANISM_KEYS):
        if mechanism != mechanism.lower():
            raise ConfigError(f"{name}: the name of the mechanism must be in lower case, {listener_key(listener, key, mechanism)}")
        return ListenerSetting(listener, mechanism, key)
    raise ConfigError(f"Unknown configuration key {name}: {rest} is not a key of listeners")


def key_of(name: str) -> Key[ConfigValue] | None:
    """Return the definition of a setting, with or without the prefix of a listener; None for an unknown name."""
    from odradek.config.broker import BROKER_CONFIG

    if name in BROKER_CONFIG:
        return BROKER_CONFIG[name]
    try:
        setting = parse_listener_key(name)
    except ConfigError:
        return None
    return None if setting is None else BROKER_CONFIG[setting.key]


def listener_synonyms(name: str) -> tuple[str, ...]:
    """Return the settings that may give a listener's setting its value, the strongest first; empty for any other name."""
    try:
        setting = parse_listener_key(name)
    except ConfigError:
        return ()
    return () if setting is None else (name, setting.key)


def listener_value(config: BrokerConfig, listener: str, key: Key[T]) -> T:
    """Return the value for the listener (its name in any case): the listener's own value, else the general one.

    Raises ConfigError, naming the setting, for an invalid value (`check` has validated all of them).
    """
    own = own_value(config, listener, key)
    return config[key] if own is None else own


def own_value(config: BrokerConfig, listener: str, key: Key[T], mechanism: str = "") -> T | None:
    """Return the value set for the listener itself, or for a mechanism there; None when it is not set. Raises as `listener_value`."""
    name = listener_key(listener, key.name, mechanism)
    text = config.given.get(name)
    return None if text is None else key.parse(text, setting=name)


def is_set_for(config: BrokerConfig, listener: str, key: Key[object]) -> bool:
    """Return whether the key was given for the listener or in general."""
    return listener_key(listener, key.name) in config.given or config.is_set(key)


def parse_setting(name: str, key: str, text: str) -> ConfigValue:
    """Return the value of a listener's setting by its key's definition. Raises ConfigError with the whole name."""
    from odradek.config.broker import BROKER_CONFIG

    return BROKER_CONFIG[key].parse(text, setting=name)


def check_listener_settings(config: BrokerConfig) -> None:
    """Raise ConfigError for the first setting of an unknown listener, or with an invalid value."""
    for name, text in config.given.items():
        setting = parse_listener_key(name)
        if setting is None:
            continue
        _check_listener(setting, name, config.listener_security_protocols)
        value = parse_setting(name, setting.key, text)
        if setting.key == "max.connections" and value == 0:
            raise invalid(name, value, "Value must be at least 1: otherwise no client could connect")


def _check_listener(setting: ListenerSetting, name: str, known: Iterable[str]) -> None:
    if setting.listener.upper() not in known:
        raise ConfigError(f"{name}: the listener {setting.listener.upper()} is not in listener.security.protocol.map")
