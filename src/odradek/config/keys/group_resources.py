"""Keys that a group may override (org.apache.kafka.coordinator.group.GroupConfig)."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, INT, MEDIUM, STRING, Key, OneOf, at_least, keys_in
from odradek.config.validators import share_offset_reset

CONSUMER_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "consumer.assignment.interval.ms", INT, "1000", MEDIUM, "Shortest time between two assignments of the group, in ms.", at_least(0)
)
CONSUMER_HEARTBEAT_INTERVAL_MS: Final = Key(
    "consumer.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval of the group's members, in ms.", at_least(1)
)
CONSUMER_SESSION_TIMEOUT_MS: Final = Key(
    "consumer.session.timeout.ms", INT, "45000", MEDIUM, "A member without a heartbeat for this long, in ms, is removed.", at_least(1)
)
SHARE_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "share.assignment.interval.ms", INT, "1000", MEDIUM, "Shortest time between two assignments of the group, in ms.", at_least(0)
)
SHARE_AUTO_OFFSET_RESET: Final = Key(
    "share.auto.offset.reset",
    STRING,
    "latest",
    MEDIUM,
    "Where a new share group starts: latest, earliest or by_duration: and an ISO 8601 duration.",
    share_offset_reset,
)
SHARE_DELIVERY_COUNT_LIMIT: Final = Key(
    "share.delivery.count.limit", INT, "5", MEDIUM, "Maximum number of deliveries of a record.", at_least(2)
)
SHARE_HEARTBEAT_INTERVAL_MS: Final = Key(
    "share.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval of the group's members, in ms.", at_least(1)
)
SHARE_ISOLATION_LEVEL: Final = Key(
    "share.isolation.level",
    STRING,
    "read_uncommitted",
    MEDIUM,
    "Whether the group reads records of transactions that are not committed.",
    OneOf("read_committed", "read_uncommitted"),
)
SHARE_PARTITION_MAX_RECORD_LOCKS: Final = Key(
    "share.partition.max.record.locks", INT, "2000", MEDIUM, "Records in flight per share partition.", at_least(100)
)
SHARE_RECORD_LOCK_DURATION_MS: Final = Key(
    "share.record.lock.duration.ms",
    INT,
    "30000",
    MEDIUM,
    "How long a record is locked for the consumer that acquired it, in ms.",
    at_least(1000),
)
SHARE_RENEW_ACKNOWLEDGE_ENABLE: Final = Key(
    "share.renew.acknowledge.enable", BOOLEAN, "true", MEDIUM, "Whether consumers may renew the lock of a record."
)
SHARE_SESSION_TIMEOUT_MS: Final = Key(
    "share.session.timeout.ms", INT, "45000", MEDIUM, "A member without a heartbeat for this long, in ms, is removed.", at_least(1)
)
STREAMS_ASSIGNMENT_INTERVAL_MS: Final = Key(
    "streams.assignment.interval.ms", INT, "1000", MEDIUM, "Shortest time between two assignments of the group, in ms.", at_least(0)
)
STREAMS_HEARTBEAT_INTERVAL_MS: Final = Key(
    "streams.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval of the group's members, in ms.", at_least(1)
)
STREAMS_INITIAL_REBALANCE_DELAY_MS: Final = Key(
    "streams.initial.rebalance.delay.ms", INT, "3000", MEDIUM, "Wait for more members before the first rebalance, in ms.", at_least(0)
)
STREAMS_NUM_STANDBY_REPLICAS: Final = Key(
    "streams.num.standby.replicas", INT, "0", MEDIUM, "Standby replicas of each stateful task.", at_least(0)
)
STREAMS_SESSION_TIMEOUT_MS: Final = Key(
    "streams.session.timeout.ms", INT, "45000", MEDIUM, "A member without a heartbeat for this long, in ms, is removed.", at_least(1)
)

KEYS: Final = keys_in(globals())
