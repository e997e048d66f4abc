"""Replicas, fetching, leader election."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, HIGH, INT, LONG, LOW, MEDIUM, STRING, Key, at_least

KEYS: tuple[Key, ...] = (
    Key("alter.log.dirs.replication.quota.window.num", INT, "11", LOW, "", at_least(1)),
    Key("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", LOW, "", at_least(1)),
    Key("auto.leader.rebalance.enable", BOOLEAN, "true", HIGH, ""),
    Key("default.replication.factor", INT, "1", MEDIUM, ""),
    Key("delete.records.purgatory.purge.interval.requests", INT, "1", MEDIUM, ""),
    Key("fetch.max.bytes", INT, "57671680", MEDIUM, "", at_least(1024)),
    Key("fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, ""),
    Key("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", MEDIUM, ""),
    Key("leader.imbalance.check.interval.seconds", LONG, "300", HIGH, "", at_least(1)),
    Key("max.incremental.fetch.session.cache.slots", INT, "1000", MEDIUM, "", at_least(0)),
    Key("num.replica.alter.log.dirs.threads", INT, None, HIGH, ""),
    Key("num.replica.fetchers", INT, "1", HIGH, "", at_least(1)),
    Key("replica.fetch.backoff.ms", INT, "1000", MEDIUM, "", at_least(0)),
    Key("replica.fetch.max.bytes", INT, "1048576", MEDIUM, "", at_least(0)),
    Key("replica.fetch.min.bytes", INT, "1", HIGH, ""),
    Key("replica.fetch.response.max.bytes", INT, "10485760", MEDIUM, "", at_least(0)),
    Key("replica.fetch.wait.max.ms", INT, "500", HIGH, ""),
    Key("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH, ""),
    Key("replica.lag.time.max.ms", LONG, "30000", HIGH, ""),
    Key("replica.selector.class", STRING, None, MEDIUM, ""),
    Key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH, ""),
    Key("replica.socket.timeout.ms", INT, "30000", HIGH, ""),
    Key("replication.quota.window.num", INT, "11", LOW, "", at_least(1)),
    Key("replication.quota.window.size.seconds", INT, "1", LOW, "", at_least(1)),
    Key("unclean.leader.election.enable", BOOLEAN, "false", HIGH, ""),
    Key("unclean.leader.election.interval.ms", LONG, "300000", MEDIUM, "", at_least(1), internal=True),
)
