"""Settings of one listener: `listener.name.NAME.KEY`, which stands over KEY for that listener, and `listener.name.NAME.MECHANISM.KEY` for
one SASL mechanism there (org.apache.kafka.common.network.ListenerName.configPrefix, AbstractConfig.valuesWithPrefixOverride).

The name is written in lower case, as Kafka wants it. Kafka ignores a setting of a listener that it does not know, or of a key that does
nothing there; here it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ConfigError
from odradek.config.definition import ConfigValue, Key, invalid

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

LISTENER_PREFIX = "listener.name."

_FAMILIES = ("ssl.", "sasl.")
_SINGLE_KEYS = frozenset(
    {"connections.max.reauth.ms", "max.connection.creation.rate", "max.connections", "num.network.threads", "principal.builder.class"}
)
MECHANISM_KEYS = frozenset({"connections.max.reauth.ms"})
"""Keys that may stand behind a mechanism, beside all of sasl.*."""


class ListenerSetting(NamedTuple):
    """What the name of a setting says. `mechanism` is "" where none is named; all in lower case."""

    listener: str
    mechanism: str
    key: str


def listener_key(listener: str, key: str, mechanism: str = "") -> str:
    """The name of a listener's setting."""
    behind = f"{mechanism.lower()}.{key}" if mechanism else key
    return f"{LISTENER_PREFIX}{listener.lower()}.{behind}"


def parse_listener_key(name: str) -> ListenerSetting | None:
    """None where the name does not begin with listener.name.; ConfigError where it does and says nothing that a listener could follow."""
    from odradek.config.broker import BROKER_CONFIG

    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not listener or not dot or not rest:
        raise ConfigError(f"{name}: a listener's setting is written listener.name.NAME.KEY, such as listener.name.external.ssl.client.auth")
    if listener != listener.lower():
        raise ConfigError(f"{name}: the listener is written in lower case there, {LISTENER_PREFIX}{listener.lower()}.{rest}")
    if rest in BROKER_CONFIG:
        if not (rest.startswith(_FAMILIES) or rest in _SINGLE_KEYS):
            raise ConfigError(f"{name}: {rest} is for the whole broker and cannot be set for one listener")
        return ListenerSetting(listener, "", rest)
    mechanism, dot, key = rest.partition(".")
    if dot and key in BROKER_CONFIG and (key.startswith("sasl.") or key in MECHANISM_KEYS):
        if mechanism != mechanism.lower():
            raise ConfigError(f"{name}: the mechanism is written in lower case there, {listener_key(listener, key, mechanism)}")
        return ListenerSetting(listener, mechanism, key)
    raise ConfigError(f"Unknown configuration key {name}: {rest} is no key that a listener has")


def key_of(name: str) -> Key | None:
    """What defines the setting, with or without the prefix of a listener; None for a name that is no key."""
    from odradek.config.broker import BROKER_CONFIG

    if name in BROKER_CONFIG:
        return BROKER_CONFIG[name]
    try:
        setting = parse_listener_key(name)
    except ConfigError:
        return None
    return None if setting is None else BROKER_CONFIG[setting.key]


def listener_synonyms(name: str) -> tuple[str, ...]:
    """The settings that may give a listener's setting its value, the strongest first; empty for any other name."""
    try:
        setting = parse_listener_key(name)
    except ConfigError:
        return ()
    return () if setting is None else (name, setting.key)


def listener_value(config: BrokerConfig, listener: str, key: str) -> ConfigValue:
    """The value that holds for the listener (its name in any case): its own, else that of all.

    KeyError for a key that does not exist; ConfigError, naming the setting, for a value that does not fit (`check` has seen them all).
    """
    own = own_value(config, listener, key)
    return config.get(key) if own is None else own


def own_value(config: BrokerConfig, listener: str, key: str, mechanism: str = "") -> ConfigValue:
    """What is set for the listener alone, or for a mechanism there; None where nothing is. Errors as of `listener_value`."""
    name = listener_key(listener, key, mechanism)
    text = config.given.get(name)
    return None if text is None else parse_setting(name, key, text)


def is_set_for(config: BrokerConfig, listener: str, key: str) -> bool:
    """Return whether the key was given for the listener, or for all."""
    return listener_key(listener, key) in config.given or config.is_set(key)


def parse_setting(name: str, key: str, text: str) -> ConfigValue:
    """The value of a listener's setting by its key's definition; ConfigError has the whole name."""
    from odradek.config.broker import BROKER_CONFIG

    defined = BROKER_CONFIG[key]
    return Key(name, defined.type, defined.default, defined.importance, defined.doc, defined.validator).parse(text)


def check_listener_settings(config: BrokerConfig) -> None:
    """ConfigError for the first setting of a listener that does not exist, or whose value does not fit."""
    for name, text in config.given.items():
        setting = parse_listener_key(name)
        if setting is None:
            continue
        _check_listener(setting, name, config.listener_security_protocols)
        value = parse_setting(name, setting.key, text)
        if setting.key == "max.connections" and value == 0:
            raise invalid(name, value, "Value must be at least 1: nobody could ever connect")


def _check_listener(setting: ListenerSetting, name: str, known: Iterable[str]) -> None:
    if setting.listener.upper() not in known:
        raise ConfigError(f"{name}: there is no listener {setting.listener.upper()} in listener.security.protocol.map")
