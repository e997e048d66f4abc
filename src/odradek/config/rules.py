"""Rules between keys (kafka.server.KafkaConfig.validateValues), and the valid names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.assignment.registry import ASSIGNORS, CLASS_NAMES
from odradek.base.errors import ConfigError
from odradek.config.definition import Key
from odradek.config.keys.authorizer import SUPER_USERS
from odradek.config.keys.cluster import BROKER_ID, NODE_ID
from odradek.config.keys.groups import (
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_COORDINATOR_REBALANCE_PROTOCOLS,
    GROUP_MAX_SESSION_TIMEOUT_MS,
    GROUP_MIN_SESSION_TIMEOUT_MS,
    GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
    GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
    GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
    GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
    GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
    GROUP_SHARE_RECORD_LOCK_DURATION_MS,
    GROUP_SHARE_SESSION_TIMEOUT_MS,
    GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
    GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
    GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
    GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
    GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
    GROUP_STREAMS_SESSION_TIMEOUT_MS,
    OFFSETS_TOPIC_COMPRESSION_CODEC,
)
from odradek.config.keys.log import CORDONED_LOG_DIRS, LOG_CLEANER_DEDUPE_BUFFER_SIZE, LOG_CLEANER_THREADS
from odradek.config.keys.network import (
    ADVERTISED_LISTENERS,
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    CONNECTIONS_MAX_IDLE_MS,
    INTER_BROKER_LISTENER_NAME,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
    QUEUED_MAX_REQUEST_BYTES,
    SOCKET_REQUEST_MAX_BYTES,
)
from odradek.config.keys.replication import REPLICA_FETCH_WAIT_MAX_MS, REPLICA_LAG_TIME_MAX_MS, REPLICA_SOCKET_TIMEOUT_MS
from odradek.config.keys.security import AUTHORIZER_CLASS_NAME, EARLY_START_LISTENERS, SECURITY_INTER_BROKER_PROTOCOL
from odradek.config.listener_settings import check_listener_settings, parse_listener_key
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.config.policies import is_of_plugins
from odradek.config.unsupported import check_supported, unsupported_prefix
from odradek.security.principal import parse_super_users

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError for the first unknown name, or for a key of a feature that is not supported yet."""
    from odradek.config.broker import BROKER_CONFIG

    for name in names:
        if name in BROKER_CONFIG or is_of_plugins(name) or parse_listener_key(name) is not None:
            continue
        feature = unsupported_prefix(name)
        if feature == "ZooKeeper":
            raise ConfigError(f"{name}: Kafka 4.0 removed ZooKeeper; leave the key out")
        if feature is not None:
            raise ConfigError(f"{name} needs {feature}, which Odradek does not support yet; leave the key out")
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
    """Raise ConfigError, one line naming the key, when keys contradict each other or require a feature that is not supported."""
    if config.is_set(BROKER_ID) and config.is_set(NODE_ID) and config[BROKER_ID] != config[NODE_ID]:
        raise ConfigError("broker.id must be the same as node.id where both are set")
    check_listener_settings(config)
    check_supported(config)
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
    if config.is_set(INTER_BROKER_LISTENER_NAME) and config.is_set(SECURITY_INTER_BROKER_PROTOCOL):
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
    name = config[AUTHORIZER_CLASS_NAME].strip()
    if name not in ("", STANDARD_AUTHORIZER):
        raise ConfigError(f"authorizer.class.name={name}: unknown authorizer; the only one is {STANDARD_AUTHORIZER}")
    try:
        parse_super_users(config[SUPER_USERS])
    except ValueError as error:
        raise ConfigError(f"super.users: {error}") from None
    known = {endpoint.listener for endpoint in config.listeners} | set(config.controller_listener_names)
    for listener in config[EARLY_START_LISTENERS] or ():
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
            if config.is_set(ADVERTISED_LISTENERS):
                raise ConfigError("advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
            raise ConfigError(
                f"listeners: {endpoint} listens on all addresses, and clients need one of them; add "
                f"advertised.listeners={endpoint.listener}://HOST:{endpoint.port} with a host that clients can reach"
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
    wait = config[REPLICA_FETCH_WAIT_MAX_MS]
    if wait > config[REPLICA_SOCKET_TIMEOUT_MS]:
        raise ConfigError("replica.socket.timeout.ms must not be less than replica.fetch.wait.max.ms")
    if wait > config[REPLICA_LAG_TIME_MAX_MS]:
        raise ConfigError("replica.fetch.wait.max.ms must not be more than replica.lag.time.max.ms")


def _check_limits(config: BrokerConfig) -> None:
    queued = config[QUEUED_MAX_REQUEST_BYTES]
    if 0 < queued < config[SOCKET_REQUEST_MAX_BYTES] and config.is_set(QUEUED_MAX_REQUEST_BYTES):
        raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if config[MAX_CONNECTIONS_PER_IP] == 0 and not config[MAX_CONNECTIONS_PER_IP_OVERRIDES]:
        raise ConfigError("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides is set.")
    if config[OFFSETS_TOPIC_COMPRESSION_CODEC] not in range(5):
        raise ConfigError("offsets.topic.compression.codec must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
    threads = config[LOG_CLEANER_THREADS]
    if threads > 0 and config[LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads <= 1024 * 1024:
        raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1 MiB for each of log.cleaner.threads")
    _check_overrides(config[MAX_CONNECTIONS_PER_IP_OVERRIDES])
    idle = config[CONNECTIONS_MAX_IDLE_MS]
    if 0 <= idle <= config[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS]:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms must be less than connections.max.idle.ms={idle}, otherwise it has no effect"
        )


def _check_overrides(text: str) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = entry.rpartition(":")
        if not colon or not host or not count.isdecimal():
            raise ConfigError(
                f"Invalid value {text} for configuration max.connections.per.ip.overrides: {entry} must have the form host:count"
            )


_ORDERED: tuple[tuple[Key[int], Key[int]], ...] = (
    (GROUP_MIN_SESSION_TIMEOUT_MS, GROUP_MAX_SESSION_TIMEOUT_MS),
    (GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
    (GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS),
    (GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS),
    (GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS, GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS),
    (GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, GROUP_CONSUMER_SESSION_TIMEOUT_MS),
    (GROUP_CONSUMER_SESSION_TIMEOUT_MS, GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS),
    (GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS, GROUP_SHARE_HEARTBEAT_INTERVAL_MS),
    (GROUP_SHARE_HEARTBEAT_INTERVAL_MS, GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS),
    (GROUP_SHARE_MIN_SESSION_TIMEOUT_MS, GROUP_SHARE_SESSION_TIMEOUT_MS),
    (GROUP_SHARE_SESSION_TIMEOUT_MS, GROUP_SHARE_MAX_SESSION_TIMEOUT_MS),
    (GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS, GROUP_SHARE_RECORD_LOCK_DURATION_MS),
    (GROUP_SHARE_RECORD_LOCK_DURATION_MS, GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS),
    (GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS, GROUP_STREAMS_HEARTBEAT_INTERVAL_MS),
    (GROUP_STREAMS_HEARTBEAT_INTERVAL_MS, GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS),
    (GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS, GROUP_STREAMS_SESSION_TIMEOUT_MS),
    (GROUP_STREAMS_SESSION_TIMEOUT_MS, GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS),
)
"""Pairs of keys; the value of the first must not exceed that of the second."""


def _check_groups(config: BrokerConfig) -> None:
    for smaller, larger in _ORDERED:
        if (config.is_set(smaller) or config.is_set(larger)) and config[smaller] > config[larger]:
            raise ConfigError(f"{larger} must be greater than or equal to {smaller}")
    if config[GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS] >= config[GROUP_CONSUMER_SESSION_TIMEOUT_MS]:
        raise ConfigError("group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms")
    if "classic" not in [name.lower() for name in config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]]:
        raise ConfigError("Disabling the 'classic' protocol is not supported.")
    for name in config[GROUP_CONSUMER_ASSIGNORS]:
        if CLASS_NAMES.get(name, name) not in ASSIGNORS:
            raise ConfigError(f"group.consumer.assignors names {name}, which is unknown; the assignors are {', '.join(ASSIGNORS)}")


def _check_cordoned(config: BrokerConfig) -> None:
    """Raise ConfigError unless cordoned.log.dirs names log directories, or only `*` (KafkaConfig.validateCordonedLogDirs)."""
    given = config[CORDONED_LOG_DIRS]
    if "*" in given and len(given) > 1:
        raise ConfigError("cordoned.log.dirs: when it is set to *, it must not contain other values")
    unknown = [path for path in given if path != "*" and path not in config.log_dirs]
    if unknown:
        raise ConfigError(f"cordoned.log.dirs: {', '.join(unknown)} must be present in log.dirs")
