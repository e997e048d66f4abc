"""The configuration that both brokers are compared with."""

from __future__ import annotations

OVERRIDES = {
    "auto.create.topics.enable": "true",
    "log.dirs": "{data},{data}-2",
    "log.retention.ms": "-1",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "log.initial.task.delay.ms": "36000000",
    "log.retention.check.interval.ms": "36000000",
    "broker.session.timeout.ms": "600000",
    "metadata.max.idle.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "5000",
}
"""Retention is off and never checked, and future timestamps are allowed, because the records carry fixed timestamps. Brokers that exist in
requests only are not fenced; the metadata log grows by what is asked for alone, and has snapshots."""
