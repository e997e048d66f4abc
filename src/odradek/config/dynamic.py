"""Broker keys that may change while the broker runs (org.apache.kafka.server.config.DynamicBrokerConfig).

Every key that JVM Kafka accepts at run time is accepted: kept in the metadata and shown by DescribeConfigs. If the key has no effect here,
each broker logs a warning (`without_effect_at_run_time`). Scripts and tests of clients set such keys. Only a value that would replace a
part of the broker by a Java class (`unsupported.UNSUPPORTED`) is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError
from odradek.config.definition import Key
from odradek.config.keys import run_time
from odradek.config.keys.log import LOG_CLEANER_THREADS, NUM_RECOVERY_THREADS_PER_DATA_DIR
from odradek.config.keys.network import BACKGROUND_THREADS, NUM_IO_THREADS, NUM_NETWORK_THREADS
from odradek.config.keys.replication import NUM_REPLICA_FETCHERS
from odradek.config.listener_settings import LISTENER_PREFIX, MECHANISM_KEYS, ListenerSetting, parse_listener_key
from odradek.config.policies import is_of_plugins
from odradek.config.unsupported import UNSUPPORTED_PREFIXES, UNSUPPORTED_SECURITY
from odradek.config.without_effect import WITHOUT_EFFECT

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

DYNAMIC_KEYS: frozenset[str] = frozenset(
    {
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "config.providers",
        "cordoned.log.dirs",
        "follower.fetch.last.tiered.offset.enable",
        "follower.replication.throttled.rate",
        "group.consumer.assignment.interval.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "leader.replication.throttled.rate",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "principal.builder.class",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "share.coordinator.cached.buffer.max.bytes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    }
)
"""Keys that can be set for one broker or for all of them; every other key is read-only."""

SYNONYM_GROUPS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Keys for the same setting in several units, in order of precedence."""


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the keys that may give a broker key its value, in order of precedence."""
    for group in SYNONYM_GROUPS:
        if name in group:
            return group
    if name == "log.flush.interval.ms":
        return ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    return (name,)


RELOADED_FOR_LISTENERS: frozenset[str] = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys that can change for an existing listener (SslConfigs.RECONFIGURABLE_CONFIGS), for one broker, with the listener's prefix only."""

LIMITS_OF_LISTENERS: frozenset[str] = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Keys that can change for an existing listener, for one broker or for all (SocketServer.ListenerReconfigurableConfigs)."""

_FOR_ONE_BROKER = frozenset({"listener.security.protocol.map", "listeners", "principal.builder.class"})
"""Keys that can be set for one broker only, besides those of TLS and SASL (DynamicBrokerConfig.PER_BROKER_CONFIGS)."""

NEVER_IN_A_FILE: dict[str, Key[int]] = {key.name: key for key in run_time.KEYS}
"""Keys that can be set at run time only (QuotaConfig.brokerQuotaConfigs); they are unknown in a broker's file."""

THREAD_COUNTS: tuple[Key[int], ...] = (
    BACKGROUND_THREADS,
    LOG_CLEANER_THREADS,
    NUM_IO_THREADS,
    NUM_NETWORK_THREADS,
    NUM_RECOVERY_THREADS_PER_DATA_DIR,
    NUM_REPLICA_FETCHERS,
)
"""Thread counts that may at most double or halve in one step (kafka.server.DynamicThreadPool, LogCleaner.validateReconfiguration)."""


_JAAS_CONFIG = "sasl.jaas.config"
_JAAS = "it names a mechanism and no listener; such a key has no effect, as in Kafka"
_NO_SUCH_KEY = "it is an unknown key; it is stored for plugins, as in Kafka"


def is_only_kept(name: str) -> bool:
    """Return whether brokers only keep and show a key that is set at run time, without using its value."""
    from odradek.config.broker import BROKER_CONFIG

    if name in BROKER_CONFIG:
        return name == _JAAS_CONFIG or name.startswith(tuple(UNSUPPORTED_SECURITY))
    return not (name in NEVER_IN_A_FILE or name.startswith(LISTENER_PREFIX) or is_of_plugins(name))


def without_effect_at_run_time(name: str) -> str | None:
    """Return the reason why a key set at run time has no effect; None when it has an effect, or may not be set."""
    setting = parse_listener_key(name)
    name = name if setting is None else setting.key
    for beginning, feature in {**UNSUPPORTED_SECURITY, **UNSUPPORTED_PREFIXES}.items():
        if name.startswith(beginning):
            return f"{feature} is not supported yet"
    if setting is None and is_only_kept(name):
        return _JAAS if name == _JAAS_CONFIG else _NO_SUCH_KEY
    return WITHOUT_EFFECT.get(name)


def check_scope(name: str, *, for_node: bool) -> None:
    """Raise ConfigError for a key of listeners in a scope where Kafka refuses it (DynamicBrokerConfig.validateConfigs)."""
    if name in RELOADED_FOR_LISTENERS:
        raise ConfigError(f"These security configs can be dynamically updated only per-listener using the listener prefix: {name}")
    setting = None if for_node else parse_listener_key(name)
    of_listener = setting is not None and setting.key not in LIMITS_OF_LISTENERS
    if of_listener or (not for_node and name in DYNAMIC_KEYS and (name in _FOR_ONE_BROKER or name.startswith(("ssl.", "sasl.")))):
        raise ConfigError(f"Cannot update these configs at default cluster level, broker id must be specified: {name}")


def check_listener_setting(name: str, setting: ListenerSetting) -> None:
    """Raise ConfigError for a setting that no listener adopts at run time."""
    if setting.key not in DYNAMIC_KEYS and not setting.key.startswith(("ssl.", "sasl.")) and setting.key not in MECHANISM_KEYS:
        raise ConfigError(f"Cannot update these configs dynamically: {name}")


def is_fixed(setting: ListenerSetting) -> bool:
    """Return whether an existing listener does not adopt the setting (DynamicListenerConfig.validateReconfiguration)."""
    return setting.key not in RELOADED_FOR_LISTENERS and setting.key not in LIMITS_OF_LISTENERS


def check_existing(old: BrokerConfig, new: BrokerConfig) -> None:
    """Raise ConfigError if an existing listener would get a new value for a setting that it does not adopt."""
    there = {each.listener.lower() for each in old.listeners} & {each.listener.lower() for each in new.listeners}
    for name in {**old.given, **new.given}:
        if old.given.get(name) == new.given.get(name):
            continue
        setting = parse_listener_key(name)
        if setting is not None and setting.listener in there and is_fixed(setting):
            raise ConfigError(
                f"Configs cannot be updated dynamically for existing listener {setting.listener.upper()}, "
                f"restart broker or create a new listener for update: {name}"
            )


def check_thread_count(current: BrokerConfig, new: BrokerConfig) -> None:
    """Raise ConfigError when a pool would grow or shrink too much at once."""
    for key in THREAD_COUNTS:
        old_count, count = current[key], new[key]
        if count == old_count:
            continue
        problem = f"Dynamic thread count update validation failed for {key}={count}"
        if count < 1:
            raise ConfigError(f"{problem}, value should be at least 1")
        if count < old_count // 2:
            raise ConfigError(f"{problem}, value should be at least half the current value {old_count}")
        if count > old_count * 2:
            raise ConfigError(f"{problem}, value should not be greater than double the current value {old_count}")
