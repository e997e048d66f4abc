"""Tiered storage."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, DOUBLE, INT, LONG, LOW, MEDIUM, STRING, Key, at_least, between, non_empty

KEYS: tuple[Key, ...] = (
    Key("remote.fetch.max.wait.ms", INT, "500", MEDIUM, "", at_least(1)),
    Key("remote.list.offsets.request.timeout.ms", LONG, "30000", MEDIUM, "", at_least(1)),
    Key("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", LOW, "", at_least(1)),
    Key("remote.log.index.file.cache.ttl.ms", LONG, "900000", LOW, "", at_least(-1), internal=True),
    Key("remote.log.manager.copier.thread.pool.size", INT, "10", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.copy.quota.window.num", INT, "11", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.copy.quota.window.size.seconds", INT, "1", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.expiration.thread.pool.size", INT, "10", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.fetch.quota.window.num", INT, "11", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.follower.thread.pool.size", INT, "2", MEDIUM, "", at_least(1)),
    Key("remote.log.manager.task.interval.ms", LONG, "30000", LOW, "", at_least(1)),
    Key("remote.log.manager.task.retry.backoff.max.ms", LONG, "30000", LOW, "", at_least(1), internal=True),
    Key("remote.log.manager.task.retry.backoff.ms", LONG, "500", LOW, "", at_least(1), internal=True),
    Key("remote.log.manager.task.retry.jitter", DOUBLE, "0.2", LOW, "", between(0, 0.5), internal=True),
    Key("remote.log.manager.thread.pool.size", INT, "2", MEDIUM, "", at_least(1)),
    Key("remote.log.metadata.custom.metadata.max.bytes", INT, "128", LOW, "", at_least(0)),
    Key(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        MEDIUM,
        "",
        non_empty,
    ),
    Key("remote.log.metadata.manager.class.path", STRING, None, MEDIUM, ""),
    Key("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", MEDIUM, "", non_empty),
    Key("remote.log.metadata.manager.listener.name", STRING, None, MEDIUM, "", non_empty),
    Key("remote.log.reader.max.pending.tasks", INT, "100", MEDIUM, "", at_least(1)),
    Key("remote.log.reader.threads", INT, "10", MEDIUM, "", at_least(1)),
    Key("remote.log.storage.manager.class.name", STRING, None, MEDIUM, "", non_empty),
    Key("remote.log.storage.manager.class.path", STRING, None, MEDIUM, ""),
    Key("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", MEDIUM, "", non_empty),
    Key("remote.log.storage.system.enable", BOOLEAN, "false", MEDIUM, ""),
)
