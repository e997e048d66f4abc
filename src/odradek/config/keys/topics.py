"""What a topic may override (org.apache.kafka.storage.internals.log.LogConfig)."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, DOUBLE, INT, LIST, LONG, MEDIUM, STRING, Key, ListOf, OneOf, at_least, between
from odradek.config.validators import gzip_level, throttled_replicas

KEYS: tuple[Key, ...] = (
    Key("cleanup.policy", LIST, "delete", MEDIUM, "", ListOf("compact", "delete")),
    Key("compression.gzip.level", INT, "-1", MEDIUM, "", gzip_level),
    Key("compression.lz4.level", INT, "9", MEDIUM, "", between(1, 17)),
    Key("compression.type", STRING, "producer", MEDIUM, "", OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    Key("compression.zstd.level", INT, "3", MEDIUM, "", between(-131072, 22)),
    Key("delete.retention.ms", LONG, "86400000", MEDIUM, "", at_least(0)),
    Key("file.delete.delay.ms", LONG, "60000", MEDIUM, "", at_least(0)),
    Key("flush.messages", LONG, "9223372036854775807", MEDIUM, "", at_least(1)),
    Key("flush.ms", LONG, "9223372036854775807", MEDIUM, "", at_least(0)),
    Key("follower.replication.throttled.replicas", LIST, "", MEDIUM, "", throttled_replicas),
    Key("index.interval.bytes", INT, "4096", MEDIUM, "", at_least(0)),
    Key("internal.segment.bytes", INT, None, MEDIUM, "", internal=True),
    Key("leader.replication.throttled.replicas", LIST, "", MEDIUM, "", throttled_replicas),
    Key("local.retention.bytes", LONG, "-2", MEDIUM, "", at_least(-2)),
    Key("local.retention.ms", LONG, "-2", MEDIUM, "", at_least(-2)),
    Key("max.compaction.lag.ms", LONG, "9223372036854775807", MEDIUM, "", at_least(1)),
    Key("max.message.bytes", INT, "1048588", MEDIUM, "", at_least(0)),
    Key("message.timestamp.after.max.ms", LONG, "3600000", MEDIUM, "", at_least(0)),
    Key("message.timestamp.before.max.ms", LONG, "9223372036854775807", MEDIUM, "", at_least(0)),
    Key("message.timestamp.type", STRING, "CreateTime", MEDIUM, "", OneOf("CreateTime", "LogAppendTime")),
    Key("min.cleanable.dirty.ratio", DOUBLE, "0.5", MEDIUM, "", between(0, 1)),
    Key("min.compaction.lag.ms", LONG, "0", MEDIUM, "", at_least(0)),
    Key("min.insync.replicas", INT, "1", MEDIUM, "", at_least(1)),
    Key("preallocate", BOOLEAN, "false", MEDIUM, ""),
    Key("remote.log.copy.disable", BOOLEAN, "false", MEDIUM, ""),
    Key("remote.log.delete.on.disable", BOOLEAN, "false", MEDIUM, ""),
    Key("remote.storage.enable", BOOLEAN, "false", MEDIUM, ""),
    Key("retention.bytes", LONG, "-1", MEDIUM, ""),
    Key("retention.ms", LONG, "604800000", MEDIUM, "", at_least(-1)),
    Key("segment.bytes", INT, "1073741824", MEDIUM, "", at_least(1048576)),
    Key("segment.index.bytes", INT, "10485760", MEDIUM, "", at_least(4)),
    Key("segment.jitter.ms", LONG, "0", MEDIUM, "", at_least(0)),
    Key("segment.ms", LONG, "604800000", MEDIUM, "", at_least(1)),
    Key("unclean.leader.election.enable", BOOLEAN, "false", MEDIUM, ""),
)
