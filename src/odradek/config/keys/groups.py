"""Keys of consumer groups: the group coordinator and its defaults."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import HIGH, INT, LIST, LONG, LOW, MEDIUM, SHORT, STRING, Key, ListOf, OneOf, at_least, between, keys_in

GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.consumer.assignment.interval.ms",
    INT,
    "1000",
    MEDIUM,
    "Shortest time between two assignments of a consumer group, in ms.",
    at_least(0),
)
GROUP_CONSUMER_ASSIGNORS: Final = Key(
    "group.consumer.assignors",
    LIST,
    "uniform,range",
    MEDIUM,
    "Server-side assignors of consumer groups; the first is the default.",
    ListOf(empty=False),
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.consumer.heartbeat.interval.ms",
    INT,
    "5000",
    MEDIUM,
    "Heartbeat interval of members of consumer groups, in ms.",
    at_least(1),
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.consumer.max.assignment.interval.ms", INT, "15000", MEDIUM, "Upper bound of a group's assignment interval, in ms.", at_least(0)
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.consumer.max.heartbeat.interval.ms", INT, "15000", MEDIUM, "Upper bound of a group's heartbeat interval, in ms.", at_least(1)
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: Final = Key(
    "group.consumer.max.session.timeout.ms", INT, "60000", MEDIUM, "Upper bound of a group's session timeout, in ms.", at_least(1)
)
GROUP_CONSUMER_MAX_SIZE: Final = Key(
    "group.consumer.max.size", INT, "2147483647", MEDIUM, "Largest number of members of a consumer group.", at_least(1)
)
GROUP_CONSUMER_MIGRATION_POLICY: Final = Key(
    "group.consumer.migration.policy",
    STRING,
    "bidirectional",
    MEDIUM,
    "Which conversions of a group between the classic and the consumer protocol are allowed.",
    OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True),
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.consumer.min.assignment.interval.ms", INT, "0", MEDIUM, "Lower bound of a group's assignment interval, in ms.", at_least(0)
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.consumer.min.heartbeat.interval.ms", INT, "5000", MEDIUM, "Lower bound of a group's heartbeat interval, in ms.", at_least(1)
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: Final = Key(
    "group.consumer.min.session.timeout.ms", INT, "45000", MEDIUM, "Lower bound of a group's session timeout, in ms.", at_least(1)
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS: Final = Key(
    "group.consumer.regex.refresh.interval.ms",
    INT,
    "600000",
    MEDIUM,
    "Time between evaluations of subscribed patterns, in ms.",
    at_least(10000),
    internal=True,
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS: Final = Key(
    "group.consumer.session.timeout.ms",
    INT,
    "45000",
    MEDIUM,
    "A member of a consumer group without a heartbeat for this long, in ms, is removed.",
    at_least(1),
)
GROUP_COORDINATOR_APPEND_LINGER_MS: Final = Key(
    "group.coordinator.append.linger.ms",
    INT,
    "-1",
    MEDIUM,
    "How long the group coordinator collects records before it writes them, in ms; -1 adapts to the load.",
    at_least(-1),
)
GROUP_COORDINATOR_BACKGROUND_THREADS: Final = Key(
    "group.coordinator.background.threads", INT, "2", HIGH, "Workers for background tasks of the group coordinator.", at_least(1)
)
GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES: Final = Key(
    "group.coordinator.cached.buffer.max.bytes",
    INT,
    "1048588",
    MEDIUM,
    "Largest write buffer a coordinator keeps for reuse.",
    at_least(524288),
)
GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Final = Key(
    "group.coordinator.rebalance.protocols",
    LIST,
    "classic,consumer,streams",
    MEDIUM,
    "Enabled group protocols.",
    ListOf("consumer", "classic", "share", "streams", empty=False),
)
GROUP_COORDINATOR_THREADS: Final = Key("group.coordinator.threads", INT, "4", HIGH, "Workers of the group coordinator.", at_least(1))
GROUP_INITIAL_REBALANCE_DELAY_MS: Final = Key(
    "group.initial.rebalance.delay.ms", INT, "3000", MEDIUM, "Wait for more members before the first rebalance of an empty group, in ms."
)
GROUP_MAX_SESSION_TIMEOUT_MS: Final = Key(
    "group.max.session.timeout.ms", INT, "1800000", MEDIUM, "Longest session timeout that a member may request, in ms."
)
GROUP_MAX_SIZE: Final = Key("group.max.size", INT, "2147483647", MEDIUM, "Largest number of members of a classic group.", at_least(1))
GROUP_MIN_SESSION_TIMEOUT_MS: Final = Key(
    "group.min.session.timeout.ms", INT, "6000", MEDIUM, "Shortest session timeout that a member may request, in ms."
)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.share.assignment.interval.ms", INT, "1000", MEDIUM, "Shortest time between two assignments of a share group, in ms.", at_least(0)
)
GROUP_SHARE_ASSIGNORS: Final = Key(
    "group.share.assignors", LIST, "simple", MEDIUM, "Server-side assignors of share groups.", ListOf(empty=False)
)
GROUP_SHARE_DELIVERY_COUNT_LIMIT: Final = Key(
    "group.share.delivery.count.limit", INT, "5", MEDIUM, "Maximum number of deliveries of a record to a share group.", between(2, 10)
)
GROUP_SHARE_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.share.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval of members of share groups, in ms.", at_least(1)
)
GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS: Final = Key(
    "group.share.initialize.retry.interval.ms",
    INT,
    "30000",
    LOW,
    "Pause before the initialization of share partitions is retried, in ms.",
    at_least(1),
    internal=True,
)
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.share.max.assignment.interval.ms",
    INT,
    "15000",
    MEDIUM,
    "Upper bound of a share group's assignment interval, in ms.",
    at_least(0),
)
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT: Final = Key(
    "group.share.max.delivery.count.limit", INT, "10", MEDIUM, "Upper bound of a share group's delivery limit.", between(5, 25)
)
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.share.max.heartbeat.interval.ms", INT, "15000", MEDIUM, "Upper bound of a share group's heartbeat interval, in ms.", at_least(1)
)
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS: Final = Key(
    "group.share.max.partition.max.record.locks",
    INT,
    "4000",
    MEDIUM,
    "Upper bound of the records in flight per share partition.",
    between(2000, 10000),
)
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS: Final = Key(
    "group.share.max.record.lock.duration.ms",
    INT,
    "60000",
    MEDIUM,
    "Upper bound of a record lock's duration, in ms.",
    between(30000, 3600000),
)
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS: Final = Key(
    "group.share.max.session.timeout.ms", INT, "60000", MEDIUM, "Upper bound of a share group's session timeout, in ms.", at_least(1)
)
GROUP_SHARE_MAX_SHARE_SESSIONS: Final = Key(
    "group.share.max.share.sessions", INT, "2000", MEDIUM, "Largest number of share sessions per broker.", at_least(1)
)
GROUP_SHARE_MAX_SIZE: Final = Key(
    "group.share.max.size", INT, "200", MEDIUM, "Largest number of members of a share group.", between(1, 1000)
)
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.share.min.assignment.interval.ms", INT, "0", MEDIUM, "Lower bound of a share group's assignment interval, in ms.", at_least(0)
)
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT: Final = Key(
    "group.share.min.delivery.count.limit", INT, "2", MEDIUM, "Lower bound of a share group's delivery limit.", between(2, 5)
)
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.share.min.heartbeat.interval.ms", INT, "5000", MEDIUM, "Lower bound of a share group's heartbeat interval, in ms.", at_least(1)
)
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS: Final = Key(
    "group.share.min.partition.max.record.locks",
    INT,
    "100",
    MEDIUM,
    "Lower bound of the records in flight per share partition.",
    between(100, 2000),
)
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS: Final = Key(
    "group.share.min.record.lock.duration.ms", INT, "15000", MEDIUM, "Lower bound of a record lock's duration, in ms.", between(1000, 30000)
)
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS: Final = Key(
    "group.share.min.session.timeout.ms", INT, "45000", MEDIUM, "Lower bound of a share group's session timeout, in ms.", at_least(1)
)
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS: Final = Key(
    "group.share.partition.max.record.locks", INT, "2000", MEDIUM, "Records in flight per share partition.", between(100, 10000)
)
GROUP_SHARE_PERSISTER_CLASS_NAME: Final = Key(
    "group.share.persister.class.name",
    STRING,
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    MEDIUM,
    "Class that stores the state of share groups.",
    internal=True,
)
GROUP_SHARE_RECORD_LOCK_DURATION_MS: Final = Key(
    "group.share.record.lock.duration.ms",
    INT,
    "30000",
    MEDIUM,
    "How long a record is locked for the consumer that acquired it, in ms.",
    between(1000, 3600000),
)
GROUP_SHARE_SESSION_TIMEOUT_MS: Final = Key(
    "group.share.session.timeout.ms",
    INT,
    "45000",
    MEDIUM,
    "A member of a share group without a heartbeat for this long, in ms, is removed.",
    at_least(1),
)
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.streams.assignment.interval.ms",
    INT,
    "1000",
    MEDIUM,
    "Shortest time between two assignments of a streams group, in ms.",
    at_least(0),
)
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.streams.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval of members of streams groups, in ms.", at_least(1)
)
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS: Final = Key(
    "group.streams.initial.rebalance.delay.ms",
    INT,
    "3000",
    MEDIUM,
    "Wait for more members before the first rebalance of a streams group, in ms.",
    at_least(0),
)
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.streams.max.assignment.interval.ms",
    INT,
    "15000",
    MEDIUM,
    "Upper bound of a streams group's assignment interval, in ms.",
    at_least(0),
)
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.streams.max.heartbeat.interval.ms",
    INT,
    "15000",
    MEDIUM,
    "Upper bound of a streams group's heartbeat interval, in ms.",
    at_least(1),
)
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS: Final = Key(
    "group.streams.max.session.timeout.ms", INT, "60000", MEDIUM, "Upper bound of a streams group's session timeout, in ms.", at_least(1)
)
GROUP_STREAMS_MAX_SIZE: Final = Key(
    "group.streams.max.size", INT, "2147483647", MEDIUM, "Largest number of members of a streams group.", at_least(1)
)
GROUP_STREAMS_MAX_STANDBY_REPLICAS: Final = Key(
    "group.streams.max.standby.replicas", INT, "2", MEDIUM, "Upper bound of a streams group's standby replicas.", at_least(0)
)
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "group.streams.min.assignment.interval.ms",
    INT,
    "0",
    MEDIUM,
    "Lower bound of a streams group's assignment interval, in ms.",
    at_least(0),
)
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS: Final = Key(
    "group.streams.min.heartbeat.interval.ms",
    INT,
    "5000",
    MEDIUM,
    "Lower bound of a streams group's heartbeat interval, in ms.",
    at_least(1),
)
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS: Final = Key(
    "group.streams.min.session.timeout.ms", INT, "45000", MEDIUM, "Lower bound of a streams group's session timeout, in ms.", at_least(1)
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS: Final = Key(
    "group.streams.num.standby.replicas", INT, "0", MEDIUM, "Standby replicas of each stateful task.", at_least(0)
)
GROUP_STREAMS_SESSION_TIMEOUT_MS: Final = Key(
    "group.streams.session.timeout.ms",
    INT,
    "45000",
    MEDIUM,
    "A member of a streams group without a heartbeat for this long, in ms, is removed.",
    at_least(1),
)
OFFSET_METADATA_MAX_BYTES: Final = Key("offset.metadata.max.bytes", INT, "4096", HIGH, "Largest metadata of a committed offset, in bytes.")
OFFSETS_COMMIT_TIMEOUT_MS: Final = Key(
    "offsets.commit.timeout.ms", INT, "5000", HIGH, "How long an offset commit waits for its replicas, in ms.", at_least(1)
)
OFFSETS_LOAD_BUFFER_SIZE: Final = Key(
    "offsets.load.buffer.size", INT, "5242880", HIGH, "Bytes read at a time while a coordinator loads.", at_least(1)
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS: Final = Key(
    "offsets.retention.check.interval.ms", LONG, "600000", HIGH, "Time between checks for expired offsets, in ms.", at_least(1)
)
OFFSETS_RETENTION_MINUTES: Final = Key(
    "offsets.retention.minutes", INT, "10080", HIGH, "Minutes that the offsets of an empty group are kept.", at_least(1)
)
OFFSETS_TOPIC_COMPRESSION_CODEC: Final = Key("offsets.topic.compression.codec", INT, "0", HIGH, "Codec of the offsets topic, by number.")
OFFSETS_TOPIC_NUM_PARTITIONS: Final = Key("offsets.topic.num.partitions", INT, "50", HIGH, "Partitions of the offsets topic.", at_least(1))
OFFSETS_TOPIC_REPLICATION_FACTOR: Final = Key(
    "offsets.topic.replication.factor", SHORT, "3", HIGH, "Replicas of the offsets topic.", at_least(1)
)
OFFSETS_TOPIC_SEGMENT_BYTES: Final = Key(
    "offsets.topic.segment.bytes", INT, "104857600", HIGH, "Largest segment of the offsets topic, in bytes.", at_least(1)
)

KEYS: Final = keys_in(globals())
