"""Keys of share groups: the share coordinator."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import HIGH, INT, LOW, MEDIUM, SHORT, Key, at_least, between, keys_in

SHARE_COORDINATOR_APPEND_LINGER_MS: Final = Key(
    "share.coordinator.append.linger.ms",
    INT,
    "-1",
    MEDIUM,
    "How long the share coordinator collects records before it writes them, in ms; -1 adapts to the load.",
    at_least(-1),
)
SHARE_COORDINATOR_CACHED_BUFFER_MAX_BYTES: Final = Key(
    "share.coordinator.cached.buffer.max.bytes",
    INT,
    "1048588",
    MEDIUM,
    "Largest write buffer the share coordinator keeps for reuse.",
    at_least(524288),
)
SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS: Final = Key(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    INT,
    "300000",
    LOW,
    "Time after which the state of an idle share partition is written again, in ms.",
    at_least(1),
    internal=True,
)
SHARE_COORDINATOR_LOAD_BUFFER_SIZE: Final = Key(
    "share.coordinator.load.buffer.size", INT, "5242880", HIGH, "Bytes read at a time while the share coordinator loads.", at_least(1)
)
SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT: Final = Key(
    "share.coordinator.snapshot.update.records.per.snapshot",
    INT,
    "500",
    MEDIUM,
    "Updates written between snapshots of a share partition's state.",
    between(0, 500),
)
SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC: Final = Key(
    "share.coordinator.state.topic.compression.codec", INT, "0", HIGH, "Codec of the share-state topic, by number."
)
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: Final = Key(
    "share.coordinator.state.topic.min.isr", SHORT, "2", HIGH, "Replicas of the share-state topic that must be in sync.", at_least(1)
)
SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS: Final = Key(
    "share.coordinator.state.topic.num.partitions", INT, "50", HIGH, "Partitions of the share-state topic.", at_least(1)
)
SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS: Final = Key(
    "share.coordinator.state.topic.prune.interval.ms",
    INT,
    "300000",
    LOW,
    "Time between deletions of obsolete share state, in ms.",
    at_least(1),
    internal=True,
)
SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: Final = Key(
    "share.coordinator.state.topic.replication.factor", SHORT, "3", HIGH, "Replicas of the share-state topic.", at_least(1)
)
SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES: Final = Key(
    "share.coordinator.state.topic.segment.bytes",
    INT,
    "104857600",
    HIGH,
    "Largest segment of the share-state topic, in bytes.",
    at_least(1),
)
SHARE_COORDINATOR_THREADS: Final = Key("share.coordinator.threads", INT, "1", MEDIUM, "Workers of the share coordinator.", at_least(1))
SHARE_COORDINATOR_WRITE_TIMEOUT_MS: Final = Key(
    "share.coordinator.write.timeout.ms", INT, "5000", HIGH, "How long a write of share state waits for its replicas, in ms.", at_least(1)
)
SHARE_FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS: Final = Key(
    "share.fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, "Delayed share fetches completed before the purgatory is swept."
)

KEYS: Final = keys_in(globals())
