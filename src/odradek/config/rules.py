"""Rules between keys (kafka.server.KafkaConfig.validateValues), and the valid names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.assignment.registry import ASSIGNORS, CLASS_NAMES
from odradek.base.errors import ConfigError
from odradek.config.listener_settings import check_listener_settings, parse_listener_key
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.config.policies import is_of_plugins
from odradek.config.unserved import check_served, unserved_prefix
from odradek.security.principal import parse_super_users

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for the first unknown name, or for a key of a feature that is not served yet."""
    from odradek.config.broker import BROKER_CONFIG

    for name in names:
        if name in BROKER_CONFIG or is_of_plugins(name) or parse_listener_key(name) is not None:
            continue
        feature = unserved_prefix(name)
        if feature == "ZooKeeper":
            raise ConfigError(f"{name}: there is no ZooKeeper since Kafka 4.0; leave the key out")
        if feature is not None:
            raise ConfigError(f"{name} needs {feature}, which Odradek does not serve yet; leave the key out")
        import difflib

        close = difflib.get_close_matches(name, BROKER_CONFIG.keys, 1, 0.8)
        raise ConfigError(f"Unknown configuration key {name}{f' (did you mean {close[0]}?)' if close else ''}")


def check_required(given: Mapping[str, str]) -> None:
    """Raise ConfigError for the required keys that were not given, with example values for a node that is alone in its cluster."""
    from odradek.config.broker import BROKER_CONFIG, STANDALONE

    missing = [f"{key.name} (such as {key.name}={STANDALONE[key.name]})" for key in BROKER_CONFIG if key.required and key.name not in given]
    if missing:
        raise ConfigError(f"Missing required configuration: {', '.join(missing)}")


def check(config: BrokerConfig) -> None:
    """Raise ConfigError, one line naming the key, when keys contradict each other or require a feature that is not served."""
    if config.is_set("broker.id") and config.is_set("node.id") and config.integer("broker.id") != config.integer("node.id"):
        raise ConfigError("broker.id must be the same as node.id where both are set")
    check_listener_settings(config)
    check_served(config)
    _check_listener_names(config)
    _check_sasl(config)
    if config.is_controller:
        _check_controller_listeners(config)
    else:
        _check_no_controller_listeners(config)
    _check_quorum(config)
    _check_authorizer(config)
    if config.is_broker:
        _check_broker_listeners(config)
    _check_times(config)
    _check_limits(config)
    _check_groups(config)
    _check_cordoned(config)
    _ = config.metrics_listener, config.client_telemetry


# -- listeners and the quorum -------------------------------------------------------------------------------------------------------------


def _check_listener_names(config: BrokerConfig) -> None:
    for name in config.controller_listener_names:
        if name not in config.listener_security_protocols:
            raise ConfigError(f"controller.listener.names: the listener {name} has no entry in listener.security.protocol.map")
    if config.is_set("inter.broker.listener.name") and config.is_set("security.inter.broker.protocol"):
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")


def _check_controller_listeners(config: BrokerConfig) -> None:
    if not config.controller_listeners:
        raise ConfigError(
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
            "when running the KRaft controller role"
        )
    if not config.is_broker and config.broker_listeners:
        raise ConfigError(
            f"listeners must only name controller listeners (controller.listener.names) when process.roles=controller, "
            f"but it names {config.broker_listeners[0].listener}"
        )


def _check_no_controller_listeners(config: BrokerConfig) -> None:
    if config.controller_listeners:
        raise ConfigError(
            f"controller.listener.names must not contain a value appearing in the 'listeners' configuration when process.roles=broker: "
            f"{config.controller_listeners[0].listener}"
        )


def _check_quorum(config: BrokerConfig) -> None:
    voters = config.controller_quorum_voters
    if not voters and not config.controller_quorum_bootstrap_servers:
        raise ConfigError("controller.quorum.bootstrap.servers (or controller.quorum.voters) must name the controllers of the quorum")
    if voters and config.is_controller and config.node_id not in voters:
        raise ConfigError(f"controller.quorum.voters must contain node.id {config.node_id}, since process.roles contains controller")
    if voters and not config.is_controller and config.node_id in voters:
        raise ConfigError(f"controller.quorum.voters must not contain node.id {config.node_id}, since process.roles=broker")


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _check_authorizer(config: BrokerConfig) -> None:
    name = config.text("authorizer.class.name").strip()
    if name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(f"authorizer.class.name={name}: there is no such authorizer here, only {STANDARD_AUTHORIZER}")
    try:
        parse_super_users(config.text("super.users"))
    except ValueError as error:
        raise ConfigError(f"super.users: {error}") from None
    known = {endpoint.listener for endpoint in config.listeners} | set(config.controller_listener_names)
    for listener in config.items("early.start.listeners"):
        if listener.upper() not in known:
            raise ConfigError(
                f"early.start.listeners contains listener {listener.upper()}, but this is not contained in listeners "
                "or controller.listener.names"
            )


def _check_broker_listeners(config: BrokerConfig) -> None:
    if not config.advertised_listeners:
        raise ConfigError("advertised.listeners: there must be at least one listener for clients when process.roles contains broker")
    names = [endpoint.listener for endpoint in config.advertised_listeners]
    inter_broker = config.inter_broker_listener_name
    if inter_broker in config.controller_listener_names:
        raise ConfigError(f"inter.broker.listener.name must not be a controller listener: {inter_broker}")
    if inter_broker not in names:
        raise ConfigError(
            f"inter.broker.listener.name must be a listener name defined in advertised.listeners, one of {', '.join(names)}, "
            f"not {inter_broker}"
        )
    bound = {endpoint.listener for endpoint in config.listeners}
    for endpoint in config.advertised_listeners:
        if endpoint.listener not in bound:
            raise ConfigError(f"advertised.listeners: the listener {endpoint.listener} is not one of listeners")
        if endpoint.host == "0.0.0.0":
            if config.is_set("advertised.listeners"):
                raise ConfigError("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
            raise ConfigError(
                f"listeners: {endpoint} listens on all addresses, and clients must be told one; "
                f"add advertised.listeners={endpoint.listener}://HOST:{endpoint.port} with a host that clients can reach"
            )
        assert endpoint.security_protocol in SECURITY_PROTOCOLS


def _check_sasl(config: BrokerConfig) -> None:
    """Check the SASL settings. Most nodes have none, and then nothing is parsed."""
    listeners = {each.listener for each in config.listeners} | set(config.controller_listener_names[:1])
    asked = any("SASL" in config.listener_security_protocols.get(name, "") for name in listeners)
    if asked or any("sasl." in name for name in config.given):
        from odradek.config.sasl import check_sasl

        check_sasl(config)


# -- numbers ------------------------------------------------------------------------------------------------------------------------------


def _check_times(config: BrokerConfig) -> None:
    if config.log_roll_ms < 1:
        raise ConfigError("log.roll.ms must be greater than or equal to 1")
    if config.log_roll_jitter_ms < 0:
        raise ConfigError("log.roll.jitter.ms must be greater than or equal to 0")
    if config.log_retention_ms == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, equal or greater than 1")
    wait = config.integer("replica.fetch.wait.max.ms")
    if wait > config.integer("replica.socket.timeout.ms"):
        raise ConfigError("replica.socket.timeout.ms must not be less than replica.fetch.wait.max.ms")
    if wait > config.integer("replica.lag.time.max.ms"):
        raise ConfigError("replica.fetch.wait.max.ms must not be more than replica.lag.time.max.ms")


def _check_limits(config: BrokerConfig) -> None:
    queued = config.integer("queued.max.request.bytes")
    if 0 < queued < config.integer("socket.request.max.bytes") and config.is_set("queued.max.request.bytes"):
        raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if config.integer("max.connections.per.ip") == 0 and not config.text("max.connections.per.ip.overrides"):
        raise ConfigError("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides is set.")
    if config.integer("offsets.topic.compression.codec") not in range(5):
        raise ConfigError("offsets.topic.compression.codec must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
    threads = config.integer("log.cleaner.threads")
    if threads > 0 and config.integer("log.cleaner.dedupe.buffer.size") // threads <= 1024 * 1024:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1 MiB for each of log.cleaner.threads")
    _check_overrides(config.text("max.connections.per.ip.overrides"))
    idle = config.integer("connections.max.idle.ms")
    if 0 <= idle <= config.integer("connection.failed.authentication.delay.ms"):
        raise ConfigError(f"connection.failed.authentication.delay.ms must be less than connections.max.idle.ms={idle}, to be of any use")


def _check_overrides(text: str) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = entry.rpartition(":")
        if not colon or not host or not count.isdecimal():
            raise ConfigError(f"Invalid value {text} for configuration max.connections.per.ip.overrides: {entry} is not host:count")


_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
)
"""Pairs of keys; the value of the first must not exceed that of the second."""


def _check_groups(config: BrokerConfig) -> None:
    for smaller, larger in _ORDERED:
        if (config.is_set(smaller) or config.is_set(larger)) and config.integer(smaller) > config.integer(larger):
            raise ConfigError(f"{larger} must be greater than or equal to {smaller}")
    if config.integer("group.consumer.heartbeat.interval.ms") >= config.integer("group.consumer.session.timeout.ms"):
        raise ConfigError("group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms")
    if "classic" not in [name.lower() for name in config.items("group.coordinator.rebalance.protocols")]:
        raise ConfigError("Disabling the 'classic' protocol is not supported.")
    for name in config.items("group.consumer.assignors"):
        if CLASS_NAMES.get(name, name) not in ASSIGNORS:
            raise ConfigError(f"group.consumer.assignors names {name}, which is none of {', '.join(ASSIGNORS)}")


def _check_cordoned(config: BrokerConfig) -> None:
    """Raise ConfigError unless cordoned.log.dirs names log directories, or only `*` (KafkaConfig.validateCordonedLogDirs)."""
    given = config.items("cordoned.log.dirs")
    if "*" in given and len(given) > 1:
        raise ConfigError("cordoned.log.dirs: when it is set to *, it must not contain other values")
    unknown = [path for path in given if path != "*" and path not in config.log_dirs]
    if unknown:
        raise ConfigError(f"cordoned.log.dirs: {', '.join(unknown)} must be present in log.dirs")
