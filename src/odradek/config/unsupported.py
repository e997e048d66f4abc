"""Keys of features that are not supported yet, with the values that do not need the feature.

Any other value is refused: an operator must never believe that a setting works when it has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError
from odradek.config.definition import PASSWORD, ConfigValue, Key
from odradek.config.listener_settings import parse_listener_key
from odradek.config.policies import is_of_plugins

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

UNSUPPORTED: dict[str, tuple[tuple[str, ...], str]] = {
    "broker.id.generation.enable": ((), "ZooKeeper"),
    "client.quota.callback.class": (("",), "quota callbacks"),
    "controller.quorum.auto.join.enable": (("false",), "joining the controller quorum automatically"),
    "kafka.metrics.reporters": (("",), "metrics reporters"),
    "metric.reporters": (("", "org.apache.kafka.common.metrics.JmxReporter"), "metrics reporters"),
    "principal.builder.class": (
        ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
        "custom principal builders",
    ),
    "remote.log.storage.manager.class.name": (("",), "tiered storage"),
    "remote.log.storage.system.enable": (("false",), "tiered storage"),
    "replica.selector.class": (("", "org.apache.kafka.common.replica.RackAwareReplicaSelector"), "custom replica selectors"),
    "sasl.oauthbearer.scope": ((), "logins of nodes by OAUTHBEARER"),
    "security.providers": (("",), "security providers"),
    "ssl.engine.factory.class": ((), "Java's TLS engines"),
    "ssl.keymanager.algorithm": (("SunX509", "PKIX"), "Java's key managers"),
    "ssl.provider": (("",), "Java's TLS providers"),
    "ssl.secure.random.implementation": (("",), "Java's random generators"),
    "ssl.trustmanager.algorithm": (("PKIX", "SunX509"), "Java's trust managers"),
    "unstable.feature.versions.enable": (("false",), "unstable feature levels"),
}
"""(values that need no missing feature, missing feature) by key."""

UNSUPPORTED_SECURITY: dict[str, str] = {
    "sasl.client.callback.handler.class": "callback handlers of Java",
    "sasl.kerberos.kinit.cmd": "an external process that renews tickets",
    "sasl.login.callback.": "callback handlers of Java",
    "sasl.login.class": "logins of Java",
    "sasl.login.refresh.": "logins of nodes by OAUTHBEARER",
    "sasl.login.retry.": "logins of nodes by OAUTHBEARER",
    "sasl.oauthbearer.assertion.": "logins of nodes by OAUTHBEARER",
    "sasl.oauthbearer.client.": "logins of nodes by OAUTHBEARER",
    "sasl.oauthbearer.jwt.retriever.": "logins of nodes by OAUTHBEARER",
    "sasl.oauthbearer.token.": "logins of nodes by OAUTHBEARER",
}
"""Missing feature by beginning of a key; such a key may be given only with its default."""

UNSUPPORTED_PREFIXES: dict[str, str] = {
    "rlmm.config.": "tiered storage",
    "rsm.config.": "tiered storage",
    "zookeeper.": "ZooKeeper",
}
"""Missing feature by beginning of a key."""

UNSUPPORTED_TOPIC: dict[str, tuple[tuple[str, ...], str]] = {
    "remote.storage.enable": (("false",), "tiered storage"),
    "remote.log.copy.disable": (("false",), "tiered storage"),
    "remote.log.delete.on.disable": (("false",), "tiered storage"),
}
"""Topic keys, in the form of `UNSUPPORTED`."""

SERVED_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
"""Security protocols that a listener may have."""


def unsupported_prefix(name: str) -> str | None:
    """Return the missing feature for a key that begins with one of the prefixes."""
    for prefix, feature in UNSUPPORTED_PREFIXES.items():
        if name.startswith(prefix):
            return feature
    return None


def check_supported(config: BrokerConfig) -> None:
    """Raise ConfigError for the first key whose value needs a feature that is not supported yet."""
    for name, text in config.given.items():
        check_supported_setting(name, text)
    for endpoint in config.listeners:
        if endpoint.security_protocol not in SERVED_PROTOCOLS:
            raise ConfigError(f"listeners: {endpoint} is a {endpoint.security_protocol} listener, which is not supported")


def check_supported_setting(name: str, text: str) -> None:
    """Raise ConfigError when the value of a broker's or listener's key needs a feature that is not supported yet."""
    from odradek.config.broker import BROKER_CONFIG

    if is_of_plugins(name):
        return
    setting = parse_listener_key(name)
    key = BROKER_CONFIG[name if setting is None else setting.key]
    feature = _missing(key, text)
    if feature is not None:
        shown = "" if key.type is PASSWORD else f"={text.strip()}"
        raise ConfigError(f"{name}{shown} needs {feature}, which Odradek does not support yet; leave the key out")


def _missing(key: Key[ConfigValue], text: str) -> str | None:
    """Return the feature that the value needs and that is not supported yet."""
    if key.name in UNSUPPORTED:
        allowed, feature = UNSUPPORTED[key.name]
        if text.strip() not in allowed:
            return feature
    for prefix, feature in UNSUPPORTED_SECURITY.items():
        if key.name.startswith(prefix) and key.parse(text) != key.default_value():
            return feature
    return None


def check_supported_topic(overrides: Mapping[str, str]) -> None:
    """Raise ConfigError for the first topic key whose value needs a feature that is not supported yet."""
    for name, (allowed, feature) in UNSUPPORTED_TOPIC.items():
        text = overrides.get(name)
        if text is not None and text.strip().lower() not in allowed:
            raise ConfigError(f"{name}={text.strip()} needs {feature}, which Odradek does not support yet; leave the key out")
