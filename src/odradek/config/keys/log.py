"""Keys of logs: directories, segments, retention, cleaning, compression."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    Key,
    ListOf,
    OneOf,
    at_least,
    between,
    keys_in,
)
from odradek.config.validators import gzip_level

COMPRESSION_GZIP_LEVEL: Final = Key(
    "compression.gzip.level", INT, "-1", MEDIUM, "Level for gzip when the broker compresses; -1 is zlib's default.", gzip_level
)
COMPRESSION_LZ4_LEVEL: Final = Key("compression.lz4.level", INT, "9", MEDIUM, "Level for lz4 when the broker compresses.", between(1, 17))
COMPRESSION_TYPE: Final = Key(
    "compression.type",
    STRING,
    "producer",
    HIGH,
    "Compression of stored batches; producer keeps the producer's.",
    OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
)
COMPRESSION_ZSTD_LEVEL: Final = Key(
    "compression.zstd.level", INT, "3", MEDIUM, "Level for zstd when the broker compresses.", between(-131072, 22)
)
CORDONED_LOG_DIRS: Final = Key("cordoned.log.dirs", LIST, "", MEDIUM, "Log directories that take no new replicas.", ListOf(null=True))
LOG_CLEANER_BACKOFF_MS: Final = Key(
    "log.cleaner.backoff.ms", LONG, "15000", MEDIUM, "Pause of the cleaner when no log needs cleaning, in ms.", at_least(0)
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE: Final = Key(
    "log.cleaner.dedupe.buffer.size", LONG, "134217728", MEDIUM, "Memory for the cleaner's key maps, all threads together."
)
LOG_CLEANER_DELETE_RETENTION_MS: Final = Key(
    "log.cleaner.delete.retention.ms", LONG, "86400000", MEDIUM, "How long tombstones stay in compacted logs, in ms.", at_least(0)
)
LOG_CLEANER_ENABLE: Final = Key("log.cleaner.enable", BOOLEAN, "true", MEDIUM, "Whether logs are compacted.")
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR: Final = Key(
    "log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", MEDIUM, "How full the cleaner's key map may get, 0 to 1."
)
LOG_CLEANER_IO_BUFFER_SIZE: Final = Key(
    "log.cleaner.io.buffer.size", INT, "524288", MEDIUM, "Memory for the cleaner's reads and writes, all threads together.", at_least(0)
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: Final = Key(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE,
    "1.7976931348623157E308",
    MEDIUM,
    "Upper bound of the cleaner's reads plus writes, in bytes per second.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS: Final = Key(
    "log.cleaner.max.compaction.lag.ms",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "A record is compacted at most this long after it was written, in ms.",
    at_least(1),
)
LOG_CLEANER_MIN_CLEANABLE_RATIO: Final = Key(
    "log.cleaner.min.cleanable.ratio",
    DOUBLE,
    "0.5",
    MEDIUM,
    "Fraction of a log that must be dirty before it is cleaned, 0 to 1.",
    between(0, 1),
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS: Final = Key(
    "log.cleaner.min.compaction.lag.ms", LONG, "0", MEDIUM, "A record is not compacted before it is this old, in ms.", at_least(0)
)
LOG_CLEANER_THREADS: Final = Key("log.cleaner.threads", INT, "1", MEDIUM, "Threads of the cleaner.", at_least(0))
LOG_CLEANUP_POLICY: Final = Key(
    "log.cleanup.policy",
    LIST,
    "delete",
    MEDIUM,
    "Cleanup of old segments: delete, compact, both or neither.",
    ListOf("compact", "delete"),
)
LOG_DIR: Final = Key("log.dir", LIST, "/tmp/kafka-logs", HIGH, "Log directory, when log.dirs is not set.", ListOf(empty=False))
LOG_DIR_FAILURE_TIMEOUT_MS: Final = Key(
    "log.dir.failure.timeout.ms",
    LONG,
    "30000",
    LOW,
    "How long a broker tries to report a failed log directory before it stops, in ms.",
    at_least(1),
)
LOG_DIRS: Final = Key("log.dirs", LIST, None, HIGH, "Log directories, separated by commas.", ListOf(empty=False, null=True))
LOG_FLUSH_INTERVAL_MESSAGES: Final = Key(
    "log.flush.interval.messages",
    LONG,
    "9223372036854775807",
    HIGH,
    "Number of messages in a partition after which it is flushed to disk.",
    at_least(1),
)
LOG_FLUSH_INTERVAL_MS: Final = Key("log.flush.interval.ms", LONG, None, HIGH, "Longest time before messages are flushed to disk, in ms.")
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: Final = Key(
    "log.flush.offset.checkpoint.interval.ms", INT, "60000", HIGH, "Time between checkpoints of the recovery points, in ms.", at_least(0)
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS: Final = Key(
    "log.flush.scheduler.interval.ms", LONG, "9223372036854775807", HIGH, "Time between checks for logs to flush, in ms."
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: Final = Key(
    "log.flush.start.offset.checkpoint.interval.ms",
    INT,
    "60000",
    HIGH,
    "Time between checkpoints of the log start offsets, in ms.",
    at_least(0),
)
LOG_INDEX_INTERVAL_BYTES: Final = Key("log.index.interval.bytes", INT, "4096", MEDIUM, "Bytes of log per index entry.", at_least(0))
LOG_INDEX_SIZE_MAX_BYTES: Final = Key("log.index.size.max.bytes", INT, "10485760", MEDIUM, "Largest offset index.", at_least(4))
LOG_INITIAL_TASK_DELAY_MS: Final = Key(
    "log.initial.task.delay.ms", LONG, "30000", LOW, "Pause before the log manager's tasks begin, in ms.", at_least(0), internal=True
)
LOG_LOCAL_RETENTION_BYTES: Final = Key(
    "log.local.retention.bytes", LONG, "-2", MEDIUM, "Bytes kept locally before deletion, for logs in remote storage.", at_least(-2)
)
LOG_LOCAL_RETENTION_MS: Final = Key(
    "log.local.retention.ms", LONG, "-2", MEDIUM, "Time that segments are kept locally, with remote storage, in ms.", at_least(-2)
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS: Final = Key(
    "log.message.timestamp.after.max.ms",
    LONG,
    "3600000",
    MEDIUM,
    "How far a timestamp may be ahead of the broker's clock, in ms.",
    at_least(0),
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = Key(
    "log.message.timestamp.before.max.ms",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "How far a timestamp may be behind the broker's clock, in ms.",
    at_least(0),
)
LOG_MESSAGE_TIMESTAMP_TYPE: Final = Key(
    "log.message.timestamp.type",
    STRING,
    "CreateTime",
    MEDIUM,
    "Whether a message keeps the producer's timestamp or gets the time of its append.",
    OneOf("CreateTime", "LogAppendTime"),
)
LOG_PREALLOCATE: Final = Key("log.preallocate", BOOLEAN, "false", MEDIUM, "Whether segments are created with their whole size.")
LOG_RETENTION_BYTES: Final = Key("log.retention.bytes", LONG, "-1", HIGH, "Bytes kept per partition; -1 keeps all.")
LOG_RETENTION_CHECK_INTERVAL_MS: Final = Key(
    "log.retention.check.interval.ms", LONG, "300000", MEDIUM, "Time between checks for segments that can be deleted, in ms.", at_least(1)
)
LOG_RETENTION_HOURS: Final = Key(
    "log.retention.hours", INT, "168", HIGH, "Hours that segments are kept; log.retention.ms and log.retention.minutes take precedence."
)
LOG_RETENTION_MINUTES: Final = Key(
    "log.retention.minutes", INT, None, HIGH, "Minutes that segments are kept; log.retention.ms takes precedence."
)
LOG_RETENTION_MS: Final = Key("log.retention.ms", LONG, None, HIGH, "Time that segments are kept, in ms; -1 keeps all.")
LOG_ROLL_HOURS: Final = Key(
    "log.roll.hours", INT, "168", HIGH, "Hours before the log is rolled to a new segment; log.roll.ms takes precedence.", at_least(1)
)
LOG_ROLL_JITTER_HOURS: Final = Key(
    "log.roll.jitter.hours",
    INT,
    "0",
    HIGH,
    "Largest random reduction of the roll time, in hours; log.roll.jitter.ms takes precedence.",
    at_least(0),
)
LOG_ROLL_JITTER_MS: Final = Key("log.roll.jitter.ms", LONG, None, HIGH, "Largest random reduction of the roll time, in ms.")
LOG_ROLL_MS: Final = Key("log.roll.ms", LONG, None, HIGH, "Time before the log is rolled to a new segment, in ms.")
LOG_SEGMENT_BYTES: Final = Key("log.segment.bytes", INT, "1073741824", HIGH, "Largest segment, in bytes.", at_least(1048576))
LOG_SEGMENT_DELETE_DELAY_MS: Final = Key(
    "log.segment.delete.delay.ms", LONG, "60000", HIGH, "Pause before the files of a removed segment are deleted, in ms.", at_least(0)
)
MESSAGE_MAX_BYTES: Final = Key("message.max.bytes", INT, "1048588", HIGH, "Largest record batch, in bytes.", at_least(0))
MIN_INSYNC_REPLICAS: Final = Key(
    "min.insync.replicas", INT, "1", HIGH, "Replicas that must be in sync for a write with acks=all.", at_least(1)
)
NUM_RECOVERY_THREADS_PER_DATA_DIR: Final = Key(
    "num.recovery.threads.per.data.dir", INT, "2", HIGH, "Workers per log directory for loading and recovery at start.", at_least(1)
)

KEYS: Final = keys_in(globals())
