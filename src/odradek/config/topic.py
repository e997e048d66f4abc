"""Configuration of a topic (org.apache.kafka.storage.internals.log.LogConfig): its overrides over the broker's keys over the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.config.definition import Config, ConfigDef, ConfigValue, Key, format_value
from odradek.config.keys import topics
from odradek.config.keys.topics import (
    CLEANUP_POLICY,
    COMPRESSION_GZIP_LEVEL,
    COMPRESSION_LZ4_LEVEL,
    COMPRESSION_TYPE,
    COMPRESSION_ZSTD_LEVEL,
    DELETE_RETENTION_MS,
    FILE_DELETE_DELAY_MS,
    FLUSH_MESSAGES,
    FLUSH_MS,
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
    INDEX_INTERVAL_BYTES,
    INTERNAL_SEGMENT_BYTES,
    LEADER_REPLICATION_THROTTLED_REPLICAS,
    MAX_COMPACTION_LAG_MS,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
    MIN_CLEANABLE_DIRTY_RATIO,
    MIN_COMPACTION_LAG_MS,
    MIN_INSYNC_REPLICAS,
    PREALLOCATE,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
    SEGMENT_INDEX_BYTES,
    SEGMENT_JITTER_MS,
    SEGMENT_MS,
)
from odradek.config.references import has_reference

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

TOPIC_CONFIG = ConfigDef(topics.KEYS)

HOURS = 3_600_000
MINUTES = 60_000

SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOURS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOURS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", MINUTES), ("log.retention.hours", HOURS)),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}
"""Broker keys that give a topic key its value, in order of precedence, with the factor from their unit to the topic key's.

(org.apache.kafka.server.config.ServerTopicConfigSynonyms)
"""


SOURCE_TOPIC = 1
SOURCE_DYNAMIC_BROKER = 2
SOURCE_DYNAMIC_DEFAULT_BROKER = 3
SOURCE_STATIC_BROKER = 4
SOURCE_DEFAULT = 5
SOURCE_DYNAMIC_BROKER_LOGGER = 6
SOURCE_CLIENT_METRICS = 7
SOURCE_GROUP = 8
"""Sources of a value, as DescribeConfigs and CreateTopics number them (DescribeConfigsResponse.ConfigSource)."""


class EffectiveValue(NamedTuple):
    """Value as text, and its source."""

    value: str | None
    source: int


def effective_topic_value(
    key: Key[ConfigValue], static: Mapping[str, str], cluster: Mapping[str, str], node: Mapping[str, str], own: Mapping[str, str]
) -> EffectiveValue:
    """Return a topic key's value as the controller resolves it (KafkaConfigSchema.resolveEffectiveTopicConfig).

    `own` are the topic's overrides; `node`, `cluster` and `static` are a broker's dynamic keys, those of all brokers, and its file.
    """
    if key.name in own:
        return EffectiveValue(own[key.name], SOURCE_TOPIC)
    layers = ((node, SOURCE_DYNAMIC_BROKER), (cluster, SOURCE_DYNAMIC_DEFAULT_BROKER), (static, SOURCE_STATIC_BROKER))
    for layer, source in layers:
        for synonym, factor in SYNONYMS.get(key.name, ()):
            # Only the broker that resolves a reference knows its value; the controller ignores the key.
            if synonym in layer and not has_reference(layer[synonym]):
                text = layer[synonym]
                return EffectiveValue(text if factor == 1 else str(int(text) * factor), source)
    return EffectiveValue(format_value(key.type, key.default_value()), SOURCE_DEFAULT)


class TopicConfig(Config):
    """Configuration of one topic, immutable. Sizes are bytes, times milliseconds; `overrides` are the topic's own settings as text."""

    __slots__ = (
        "cleanup_policy",
        "compact",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delete",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "follower_throttled_replicas",
        "index_interval_bytes",
        "leader_throttled_replicas",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "max_segment_ms",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "overrides",
        "preallocate",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
    )

    def __init__(self, values: Mapping[str, ConfigValue], overrides: Mapping[str, str]) -> None:
        """`values` holds every topic key; use `build`."""
        super().__init__(TOPIC_CONFIG, values)
        self.overrides = dict(overrides)
        internal = self[INTERNAL_SEGMENT_BYTES]
        self.segment_bytes: int = internal if internal is not None else self[SEGMENT_BYTES]
        self.segment_ms: int = self[SEGMENT_MS]
        self.segment_jitter_ms: int = self[SEGMENT_JITTER_MS]
        self.segment_index_bytes: int = self[SEGMENT_INDEX_BYTES]
        self.index_interval_bytes: int = self[INDEX_INTERVAL_BYTES]
        self.flush_messages: int = self[FLUSH_MESSAGES]
        self.flush_ms: int = self[FLUSH_MS]
        self.retention_ms: int = self[RETENTION_MS]
        self.retention_bytes: int = self[RETENTION_BYTES]
        self.max_message_bytes: int = self[MAX_MESSAGE_BYTES]
        self.file_delete_delay_ms: int = self[FILE_DELETE_DELAY_MS]
        self.delete_retention_ms: int = self[DELETE_RETENTION_MS]
        self.min_compaction_lag_ms: int = self[MIN_COMPACTION_LAG_MS]
        self.max_compaction_lag_ms: int = self[MAX_COMPACTION_LAG_MS]
        self.min_cleanable_dirty_ratio: float = self[MIN_CLEANABLE_DIRTY_RATIO]
        self.cleanup_policy: tuple[str, ...] = tuple(self[CLEANUP_POLICY])
        self.compact: bool = "compact" in self.cleanup_policy
        self.delete: bool = "delete" in self.cleanup_policy
        self.max_segment_ms: int = self._max_segment_ms()
        self.compression_type: str = self[COMPRESSION_TYPE]
        self.compression_gzip_level: int = self[COMPRESSION_GZIP_LEVEL]
        self.compression_lz4_level: int = self[COMPRESSION_LZ4_LEVEL]
        self.compression_zstd_level: int = self[COMPRESSION_ZSTD_LEVEL]
        self.min_insync_replicas: int = self[MIN_INSYNC_REPLICAS]
        self.message_timestamp_type: str = self[MESSAGE_TIMESTAMP_TYPE]
        self.message_timestamp_before_max_ms: int = self[MESSAGE_TIMESTAMP_BEFORE_MAX_MS]
        self.message_timestamp_after_max_ms: int = self[MESSAGE_TIMESTAMP_AFTER_MAX_MS]
        self.preallocate: bool = self[PREALLOCATE]
        self.leader_throttled_replicas: list[str] = self[LEADER_REPLICATION_THROTTLED_REPLICAS]
        self.follower_throttled_replicas: list[str] = self[FOLLOWER_REPLICATION_THROTTLED_REPLICAS]

    def _max_segment_ms(self) -> int:
        """Return the time (ms) after which the active segment rolls, so that its records are compacted in time (LogConfig.maxSegmentMs)."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact and self.max_compaction_lag_ms > 0 else self.segment_ms

    @classmethod
    def build(cls, broker: BrokerConfig | None, overrides: Mapping[str, str], dynamic: Sequence[Mapping[str, str]] = ()) -> TopicConfig:
        """Return the effective configuration, over the defaults where no broker is given.

        `dynamic` are broker keys set at run time, the strongest layer first: those of the broker, then those of all brokers.

        Raises ConfigError for an override that is unknown or invalid.
        """
        values = topic_defaults(broker)
        for layer in reversed(dynamic):
            values.update(_dynamic_values(layer))
        return cls.over(values, overrides)

    @classmethod
    def over(cls, defaults: Mapping[str, ConfigValue], overrides: Mapping[str, str]) -> TopicConfig:
        """Return a configuration as `build` does, over defaults that come from `topic_defaults`."""
        values = dict(defaults)
        for name, text in overrides.items():
            if name not in TOPIC_CONFIG:
                raise ConfigError(f"Unknown topic config name: {name}")
            values[name] = TOPIC_CONFIG[name].parse(text)
        return cls(values, overrides)


def override_problem(name: str, text: str) -> str | None:
    """Return the reason why a setting in the metadata is invalid here (for example a key of another version); None when it is valid."""
    if name not in TOPIC_CONFIG:
        return f"Unknown topic config name: {name}"
    try:
        TOPIC_CONFIG[name].parse(text)
    except ConfigError as error:
        return str(error)
    return None


def check_topic_overrides(overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
    """Raise ConfigError for overrides that are unknown, invalid, contradictory or not supported (LogConfig.validate)."""
    from odradek.config.unsupported import check_supported_topic

    for name in overrides:
        if name not in TOPIC_CONFIG:
            raise ConfigError(f"Unknown topic config name: {name}")
    config = TopicConfig.build(broker, overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )
    check_supported_topic(overrides)


def topic_defaults(broker: BrokerConfig | None) -> dict[str, ConfigValue]:
    """Return every topic key with its value for topics that do not override it (KafkaConfig.extractLogConfigMap)."""
    values: dict[str, ConfigValue] = {}
    for key in TOPIC_CONFIG:
        values[key.name] = key.default_value() if broker is None else _broker_value(broker, key.name)
    return values


def _dynamic_values(layer: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the topic keys that get their value from broker keys set at run time."""
    found: dict[str, ConfigValue] = {}
    for name in SYNONYMS if layer else ():
        value, source = effective_topic_value(TOPIC_CONFIG[name], layer, {}, {}, {})
        if source == SOURCE_STATIC_BROKER and value is not None:
            found[name] = TOPIC_CONFIG[name].parse(value)
    return found


def _broker_value(broker: BrokerConfig, name: str) -> ConfigValue:
    for synonym, factor in SYNONYMS.get(name, ()):
        value = broker[broker.definition[synonym]]
        if value is None:
            continue
        if factor != 1 or name == "retention.ms":
            number = cast(int, value)
            return -1 if number < 0 and name == "retention.ms" else number * factor
        return value
    return TOPIC_CONFIG[name].default_value()
