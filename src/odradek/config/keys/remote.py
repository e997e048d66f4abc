"""Tiered storage."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, DOUBLE, INT, LONG, LOW, MEDIUM, STRING, Key, at_least, between, non_empty

KEYS: tuple[Key, ...] = (
    Key("remote.fetch.max.wait.ms", INT, "500", MEDIUM, "Longest wait for an answer from remote storage, in ms.", at_least(1)),
    Key(
        "remote.list.offsets.request.timeout.ms", LONG, "30000", MEDIUM, "Longest wait for offsets from remote storage, in ms.", at_least(1)
    ),
    Key(
        "remote.log.index.file.cache.total.size.bytes",
        LONG,
        "1073741824",
        LOW,
        "Bytes for indexes fetched from remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.index.file.cache.ttl.ms",
        LONG,
        "900000",
        LOW,
        "Time an unused index from remote storage is kept, in ms.",
        at_least(-1),
        internal=True,
    ),
    Key("remote.log.manager.copier.thread.pool.size", INT, "10", MEDIUM, "Threads that copy segments to remote storage.", at_least(1)),
    Key(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG,
        "9223372036854775807",
        MEDIUM,
        "Upper bound of copying to remote storage, in bytes per second.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.copy.quota.window.num",
        INT,
        "11",
        MEDIUM,
        "Samples kept for the quota of copying to remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.copy.quota.window.size.seconds",
        INT,
        "1",
        MEDIUM,
        "Seconds per sample of the quota of copying to remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.expiration.thread.pool.size",
        INT,
        "10",
        MEDIUM,
        "Threads that delete expired segments in remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG,
        "9223372036854775807",
        MEDIUM,
        "Upper bound of fetching from remote storage, in bytes per second.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.fetch.quota.window.num",
        INT,
        "11",
        MEDIUM,
        "Samples kept for the quota of fetching from remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.fetch.quota.window.size.seconds",
        INT,
        "1",
        MEDIUM,
        "Seconds per sample of the quota of fetching from remote storage.",
        at_least(1),
    ),
    Key(
        "remote.log.manager.follower.thread.pool.size", INT, "2", MEDIUM, "Threads for the remote-storage tasks of followers.", at_least(1)
    ),
    Key("remote.log.manager.task.interval.ms", LONG, "30000", LOW, "Time between the tasks of remote storage, in ms.", at_least(1)),
    Key(
        "remote.log.manager.task.retry.backoff.max.ms",
        LONG,
        "30000",
        LOW,
        "Longest pause before a failed remote-storage task runs again, in ms.",
        at_least(1),
        internal=True,
    ),
    Key(
        "remote.log.manager.task.retry.backoff.ms",
        LONG,
        "500",
        LOW,
        "First pause before a failed remote-storage task runs again, in ms.",
        at_least(1),
        internal=True,
    ),
    Key(
        "remote.log.manager.task.retry.jitter",
        DOUBLE,
        "0.2",
        LOW,
        "Random part of the pause before a failed remote-storage task runs again.",
        between(0, 0.5),
        internal=True,
    ),
    Key("remote.log.manager.thread.pool.size", INT, "2", MEDIUM, "Threads for the tasks of remote storage.", at_least(1)),
    Key("remote.log.metadata.custom.metadata.max.bytes", INT, "128", LOW, "Largest custom metadata of a remote segment.", at_least(0)),
    Key(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        MEDIUM,
        "Class that keeps the metadata of remote segments.",
        non_empty,
    ),
    Key("remote.log.metadata.manager.class.path", STRING, None, MEDIUM, "Where that class is found."),
    Key(
        "remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", MEDIUM, "Beginning of the keys passed to that class.", non_empty
    ),
    Key("remote.log.metadata.manager.listener.name", STRING, None, MEDIUM, "Listener by which that class reaches its topic.", non_empty),
    Key("remote.log.reader.max.pending.tasks", INT, "100", MEDIUM, "Reads from remote storage that may wait.", at_least(1)),
    Key("remote.log.reader.threads", INT, "10", MEDIUM, "Threads that read from remote storage.", at_least(1)),
    Key("remote.log.storage.manager.class.name", STRING, None, MEDIUM, "Class that stores remote segments.", non_empty),
    Key("remote.log.storage.manager.class.path", STRING, None, MEDIUM, "Where that class is found."),
    Key("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", MEDIUM, "Beginning of the keys passed to that class.", non_empty),
    Key("remote.log.storage.system.enable", BOOLEAN, "false", MEDIUM, "Whether topics may use remote storage."),
)
