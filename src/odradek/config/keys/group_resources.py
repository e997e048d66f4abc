"""Keys that a group may override (org.apache.kafka.coordinator.group.GroupConfig)."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, INT, MEDIUM, STRING, Key, OneOf, at_least
from odradek.config.validators import share_offset_reset

KEYS: tuple[Key, ...] = (
    Key("consumer.assignment.interval.ms", INT, "1000", MEDIUM, "Least time between assignments of the group, in ms.", at_least(0)),
    Key("consumer.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval told to the group's members, in ms.", at_least(1)),
    Key("consumer.session.timeout.ms", INT, "45000", MEDIUM, "A member silent for longer, in ms, is removed.", at_least(1)),
    Key("share.assignment.interval.ms", INT, "1000", MEDIUM, "Least time between assignments of the group, in ms.", at_least(0)),
    Key(
        "share.auto.offset.reset",
        STRING,
        "latest",
        MEDIUM,
        "Where a new share group begins: latest, earliest or by_duration: and an ISO 8601 duration.",
        share_offset_reset,
    ),
    Key("share.delivery.count.limit", INT, "5", MEDIUM, "Deliveries of a record before it is given up.", at_least(2)),
    Key("share.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval told to the group's members, in ms.", at_least(1)),
    Key(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        MEDIUM,
        "Whether the group sees records of transactions that are not committed.",
        OneOf("read_committed", "read_uncommitted"),
    ),
    Key("share.partition.max.record.locks", INT, "2000", MEDIUM, "Records in flight per share partition.", at_least(100)),
    Key(
        "share.record.lock.duration.ms",
        INT,
        "30000",
        MEDIUM,
        "How long a record is locked for the consumer that acquired it, in ms.",
        at_least(1000),
    ),
    Key("share.renew.acknowledge.enable", BOOLEAN, "true", MEDIUM, "Whether consumers may renew the lock of a record."),
    Key("share.session.timeout.ms", INT, "45000", MEDIUM, "A member silent for longer, in ms, is removed.", at_least(1)),
    Key("streams.assignment.interval.ms", INT, "1000", MEDIUM, "Least time between assignments of the group, in ms.", at_least(0)),
    Key("streams.heartbeat.interval.ms", INT, "5000", MEDIUM, "Heartbeat interval told to the group's members, in ms.", at_least(1)),
    Key("streams.initial.rebalance.delay.ms", INT, "3000", MEDIUM, "Wait for more members before the first rebalance, in ms.", at_least(0)),
    Key("streams.num.standby.replicas", INT, "0", MEDIUM, "Standby replicas of each stateful task.", at_least(0)),
    Key("streams.session.timeout.ms", INT, "45000", MEDIUM, "A member silent for longer, in ms, is removed.", at_least(1)),
)
