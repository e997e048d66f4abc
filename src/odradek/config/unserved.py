"""Keys of features that are not served yet, with the values that do without the feature.

Any other value is refused: an operator must never believe that a setting works when it does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError
from odradek.config.definition import PASSWORD

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

UNSERVED: dict[str, tuple[tuple[str, ...], str]] = {
    "alter.config.policy.class.name": (("",), "policies for configuration changes"),
    "broker.id.generation.enable": ((), "ZooKeeper"),
    "client.quota.callback.class": (("",), "quota callbacks"),
    "config.providers": (("",), "configuration providers"),
    "connections.max.reauth.ms": (("0",), "SASL re-authentication"),
    "controller.quorum.auto.join.enable": (("false",), "joining the controller quorum by itself"),
    "create.topic.policy.class.name": (("",), "policies for topic creation"),
    "delegation.token.secret.key": (("",), "delegation tokens"),
    "follower.fetch.last.tiered.offset.enable": (("false",), "tiered storage"),
    "kafka.metrics.reporters": (("",), "metrics reporters"),
    "metric.reporters": (("", "org.apache.kafka.common.metrics.JmxReporter"), "metrics reporters"),
    "principal.builder.class": (
        ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
        "custom principal builders",
    ),
    "remote.log.storage.manager.class.name": (("",), "tiered storage"),
    "remote.log.storage.system.enable": (("false",), "tiered storage"),
    "replica.selector.class": (("", "org.apache.kafka.common.replica.RackAwareReplicaSelector"), "replica selectors of one's own"),
    "sasl.jaas.config": (("",), "SASL"),
    "security.inter.broker.protocol": (("PLAINTEXT",), "TLS and SASL"),
    "security.providers": (("",), "security providers"),
    "ssl.keystore.certificate.chain": (("",), "TLS"),
    "ssl.keystore.key": (("",), "TLS"),
    "ssl.keystore.location": (("",), "TLS"),
    "ssl.truststore.certificates": (("",), "TLS"),
    "ssl.truststore.location": (("",), "TLS"),
    "unstable.feature.versions.enable": (("false",), "unstable feature levels"),
}
"""Key -> (values that need no missing feature, what is missing)."""

UNSERVED_SECURITY: dict[str, str] = {"delegation.token.": "delegation tokens", "sasl.": "SASL", "ssl.": "TLS"}
"""Beginning of a key -> what is missing; such a key may be given with its default only."""

UNSERVED_PREFIXES: dict[str, str] = {
    "listener.name.": "settings of one listener (TLS and SASL)",
    "rlmm.config.": "tiered storage",
    "rsm.config.": "tiered storage",
    "config.providers.": "configuration providers",
    "zookeeper.": "ZooKeeper",
}
"""Beginning of a key -> what is missing."""

UNSERVED_TOPIC: dict[str, tuple[tuple[str, ...], str]] = {
    "follower.replication.throttled.replicas": (("",), "replication quotas"),
    "leader.replication.throttled.replicas": (("",), "replication quotas"),
    "remote.storage.enable": (("false",), "tiered storage"),
    "remote.log.copy.disable": (("false",), "tiered storage"),
    "remote.log.delete.on.disable": (("false",), "tiered storage"),
}
"""Topic keys: as `UNSERVED`."""

SERVED_PROTOCOLS = frozenset({"PLAINTEXT"})
"""Security protocols a listener may have."""


def unserved_prefix(name: str) -> str | None:
    """What is missing for a key that begins with one of the prefixes."""
    for prefix, feature in UNSERVED_PREFIXES.items():
        if name.startswith(prefix):
            return feature
    return None


def check_served(config: BrokerConfig) -> None:
    """ConfigError for the first key that is set to something not served yet."""
    for name, text in config.given.items():
        check_served_setting(name, text)
    for endpoint in config.listeners:
        if endpoint.security_protocol not in SERVED_PROTOCOLS:
            raise ConfigError(
                f"listeners: {endpoint} is a {endpoint.security_protocol} listener, and TLS and SASL are not served yet; use PLAINTEXT"
            )


def check_served_setting(name: str, text: str) -> None:
    """ConfigError when a broker key is set to something not served yet."""
    if name in UNSERVED:
        allowed, feature = UNSERVED[name]
        if text.strip() not in allowed:
            raise ConfigError(f"{name}={text.strip()} needs {feature}, which Odradek does not serve yet; leave the key out")
    _check_security_default(name, text)


def _check_security_default(name: str, text: str) -> None:
    for prefix, feature in UNSERVED_SECURITY.items():
        if name.startswith(prefix):
            from odradek.config.broker import BROKER_CONFIG

            key = BROKER_CONFIG[name]
            if key.parse(text) != key.default_value():
                shown = "" if key.type is PASSWORD else f"={text.strip()}"
                raise ConfigError(f"{name}{shown} needs {feature}, which Odradek does not serve yet; leave the key out")


def check_served_topic(overrides: Mapping[str, str]) -> None:
    """ConfigError for the first topic key that is set to something not served yet."""
    for name, (allowed, feature) in UNSERVED_TOPIC.items():
        text = overrides.get(name)
        if text is not None and text.strip().lower() not in allowed:
            raise ConfigError(f"{name}={text.strip()} needs {feature}, which Odradek does not serve yet; leave the key out")
