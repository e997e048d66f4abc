"""Keys that a topic may override (org.apache.kafka.storage.internals.log.LogConfig)."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, DOUBLE, INT, LIST, LONG, MEDIUM, STRING, Key, ListOf, OneOf, at_least, between, keys_in
from odradek.config.validators import gzip_level, throttled_replicas

CLEANUP_POLICY: Final = Key(
    "cleanup.policy", LIST, "delete", MEDIUM, "Cleanup of old segments: delete, compact, both or neither.", ListOf("compact", "delete")
)
COMPRESSION_GZIP_LEVEL: Final = Key(
    "compression.gzip.level", INT, "-1", MEDIUM, "Level for gzip when the broker compresses; -1 is zlib's default.", gzip_level
)
COMPRESSION_LZ4_LEVEL: Final = Key("compression.lz4.level", INT, "9", MEDIUM, "Level for lz4 when the broker compresses.", between(1, 17))
COMPRESSION_TYPE: Final = Key(
    "compression.type",
    STRING,
    "producer",
    MEDIUM,
    "Compression of stored batches; producer keeps the producer's.",
    OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
)
COMPRESSION_ZSTD_LEVEL: Final = Key(
    "compression.zstd.level", INT, "3", MEDIUM, "Level for zstd when the broker compresses.", between(-131072, 22)
)
DELETE_RETENTION_MS: Final = Key(
    "delete.retention.ms", LONG, "86400000", MEDIUM, "How long tombstones stay in a compacted topic, in ms.", at_least(0)
)
FILE_DELETE_DELAY_MS: Final = Key(
    "file.delete.delay.ms", LONG, "60000", MEDIUM, "Pause before the files of a removed segment are deleted, in ms.", at_least(0)
)
FLUSH_MESSAGES: Final = Key(
    "flush.messages",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "Number of messages in a partition after which it is flushed to disk.",
    at_least(1),
)
FLUSH_MS: Final = Key(
    "flush.ms", LONG, "9223372036854775807", MEDIUM, "Longest time before messages are flushed to disk, in ms.", at_least(0)
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Final = Key(
    "follower.replication.throttled.replicas",
    LIST,
    "",
    MEDIUM,
    "Throttled follower replicas, as partition:broker, or * for all.",
    throttled_replicas,
)
INDEX_INTERVAL_BYTES: Final = Key("index.interval.bytes", INT, "4096", MEDIUM, "Bytes of log per index entry.", at_least(0))
INTERNAL_SEGMENT_BYTES: Final = Key("internal.segment.bytes", INT, None, MEDIUM, "Largest segment, for tests.", internal=True)
LEADER_REPLICATION_THROTTLED_REPLICAS: Final = Key(
    "leader.replication.throttled.replicas",
    LIST,
    "",
    MEDIUM,
    "Throttled leader replicas, as partition:broker, or * for all.",
    throttled_replicas,
)
LOCAL_RETENTION_BYTES: Final = Key(
    "local.retention.bytes", LONG, "-2", MEDIUM, "Bytes kept locally before deletion, with remote storage.", at_least(-2)
)
LOCAL_RETENTION_MS: Final = Key(
    "local.retention.ms", LONG, "-2", MEDIUM, "Time that segments are kept locally, with remote storage, in ms.", at_least(-2)
)
MAX_COMPACTION_LAG_MS: Final = Key(
    "max.compaction.lag.ms",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "A record is compacted at most this long after it was written, in ms.",
    at_least(1),
)
MAX_MESSAGE_BYTES: Final = Key("max.message.bytes", INT, "1048588", MEDIUM, "Largest record batch, in bytes.", at_least(0))
MESSAGE_TIMESTAMP_AFTER_MAX_MS: Final = Key(
    "message.timestamp.after.max.ms", LONG, "3600000", MEDIUM, "How far a timestamp may be ahead of the broker's clock, in ms.", at_least(0)
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = Key(
    "message.timestamp.before.max.ms",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "How far a timestamp may be behind the broker's clock, in ms.",
    at_least(0),
)
MESSAGE_TIMESTAMP_TYPE: Final = Key(
    "message.timestamp.type",
    STRING,
    "CreateTime",
    MEDIUM,
    "Whether a message keeps the producer's timestamp or gets the time of its append.",
    OneOf("CreateTime", "LogAppendTime"),
)
MIN_CLEANABLE_DIRTY_RATIO: Final = Key(
    "min.cleanable.dirty.ratio", DOUBLE, "0.5", MEDIUM, "Fraction of a log that must be dirty before it is cleaned, 0 to 1.", between(0, 1)
)
MIN_COMPACTION_LAG_MS: Final = Key(
    "min.compaction.lag.ms", LONG, "0", MEDIUM, "A record is not compacted before it is this old, in ms.", at_least(0)
)
MIN_INSYNC_REPLICAS: Final = Key(
    "min.insync.replicas", INT, "1", MEDIUM, "Replicas that must be in sync for a write with acks=all.", at_least(1)
)
PREALLOCATE: Final = Key("preallocate", BOOLEAN, "false", MEDIUM, "Whether segments are created with their whole size.")
REMOTE_LOG_COPY_DISABLE: Final = Key(
    "remote.log.copy.disable", BOOLEAN, "false", MEDIUM, "Whether copying to remote storage is stopped for a topic with remote storage."
)
REMOTE_LOG_DELETE_ON_DISABLE: Final = Key(
    "remote.log.delete.on.disable", BOOLEAN, "false", MEDIUM, "Whether remote data is deleted when remote storage is disabled."
)
REMOTE_STORAGE_ENABLE: Final = Key("remote.storage.enable", BOOLEAN, "false", MEDIUM, "Whether the topic uses remote storage.")
RETENTION_BYTES: Final = Key("retention.bytes", LONG, "-1", MEDIUM, "Bytes kept per partition; -1 keeps all.")
RETENTION_MS: Final = Key("retention.ms", LONG, "604800000", MEDIUM, "Time that segments are kept, in ms; -1 keeps all.", at_least(-1))
SEGMENT_BYTES: Final = Key("segment.bytes", INT, "1073741824", MEDIUM, "Largest segment, in bytes.", at_least(1048576))
SEGMENT_INDEX_BYTES: Final = Key("segment.index.bytes", INT, "10485760", MEDIUM, "Largest offset index, in bytes.", at_least(4))
SEGMENT_JITTER_MS: Final = Key("segment.jitter.ms", LONG, "0", MEDIUM, "Largest random reduction of the roll time, in ms.", at_least(0))
SEGMENT_MS: Final = Key("segment.ms", LONG, "604800000", MEDIUM, "Time before the log is rolled to a new segment, in ms.", at_least(1))
UNCLEAN_LEADER_ELECTION_ENABLE: Final = Key(
    "unclean.leader.election.enable",
    BOOLEAN,
    "false",
    MEDIUM,
    "Whether a replica that is not in sync may become the leader when no other replica is left; records can be lost.",
)

KEYS: Final = keys_in(globals())
