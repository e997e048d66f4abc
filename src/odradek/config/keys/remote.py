"""Keys of tiered storage."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, DOUBLE, INT, LONG, LOW, MEDIUM, STRING, Key, at_least, between, keys_in, non_empty

REMOTE_FETCH_MAX_WAIT_MS: Final = Key(
    "remote.fetch.max.wait.ms", INT, "500", MEDIUM, "Longest wait for a response from remote storage, in ms.", at_least(1)
)
REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS: Final = Key(
    "remote.list.offsets.request.timeout.ms", LONG, "30000", MEDIUM, "Longest wait for offsets from remote storage, in ms.", at_least(1)
)
REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES: Final = Key(
    "remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", LOW, "Bytes for indexes fetched from remote storage.", at_least(1)
)
REMOTE_LOG_INDEX_FILE_CACHE_TTL_MS: Final = Key(
    "remote.log.index.file.cache.ttl.ms",
    LONG,
    "900000",
    LOW,
    "Time an unused index from remote storage is kept, in ms.",
    at_least(-1),
    internal=True,
)
REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE: Final = Key(
    "remote.log.manager.copier.thread.pool.size", INT, "10", MEDIUM, "Threads that copy segments to remote storage.", at_least(1)
)
REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND: Final = Key(
    "remote.log.manager.copy.max.bytes.per.second",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "Upper bound of copying to remote storage, in bytes per second.",
    at_least(1),
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM: Final = Key(
    "remote.log.manager.copy.quota.window.num", INT, "11", MEDIUM, "Samples kept for the quota of copying to remote storage.", at_least(1)
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS: Final = Key(
    "remote.log.manager.copy.quota.window.size.seconds",
    INT,
    "1",
    MEDIUM,
    "Seconds per sample of the quota of copying to remote storage.",
    at_least(1),
)
REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE: Final = Key(
    "remote.log.manager.expiration.thread.pool.size",
    INT,
    "10",
    MEDIUM,
    "Threads that delete expired segments in remote storage.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND: Final = Key(
    "remote.log.manager.fetch.max.bytes.per.second",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "Upper bound of fetching from remote storage, in bytes per second.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM: Final = Key(
    "remote.log.manager.fetch.quota.window.num",
    INT,
    "11",
    MEDIUM,
    "Samples kept for the quota of fetching from remote storage.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS: Final = Key(
    "remote.log.manager.fetch.quota.window.size.seconds",
    INT,
    "1",
    MEDIUM,
    "Seconds per sample of the quota of fetching from remote storage.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE: Final = Key(
    "remote.log.manager.follower.thread.pool.size", INT, "2", MEDIUM, "Threads for the remote-storage tasks of followers.", at_least(1)
)
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS: Final = Key(
    "remote.log.manager.task.interval.ms", LONG, "30000", LOW, "Time between the tasks of remote storage, in ms.", at_least(1)
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS: Final = Key(
    "remote.log.manager.task.retry.backoff.max.ms",
    LONG,
    "30000",
    LOW,
    "Longest pause before a failed remote-storage task is retried, in ms.",
    at_least(1),
    internal=True,
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS: Final = Key(
    "remote.log.manager.task.retry.backoff.ms",
    LONG,
    "500",
    LOW,
    "First pause before a failed remote-storage task is retried, in ms.",
    at_least(1),
    internal=True,
)
REMOTE_LOG_MANAGER_TASK_RETRY_JITTER: Final = Key(
    "remote.log.manager.task.retry.jitter",
    DOUBLE,
    "0.2",
    LOW,
    "Random fraction of the pause before a failed remote-storage task is retried.",
    between(0, 0.5),
    internal=True,
)
REMOTE_LOG_MANAGER_THREAD_POOL_SIZE: Final = Key(
    "remote.log.manager.thread.pool.size", INT, "2", MEDIUM, "Threads for the tasks of remote storage.", at_least(1)
)
REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES: Final = Key(
    "remote.log.metadata.custom.metadata.max.bytes", INT, "128", LOW, "Largest custom metadata of a remote segment, in bytes.", at_least(0)
)
REMOTE_LOG_METADATA_MANAGER_CLASS_NAME: Final = Key(
    "remote.log.metadata.manager.class.name",
    STRING,
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    MEDIUM,
    "Class that keeps the metadata of remote segments.",
    non_empty,
)
REMOTE_LOG_METADATA_MANAGER_CLASS_PATH: Final = Key(
    "remote.log.metadata.manager.class.path", STRING, None, MEDIUM, "Class path of that class."
)
REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX: Final = Key(
    "remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", MEDIUM, "Prefix of the configuration keys of that class.", non_empty
)
REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME: Final = Key(
    "remote.log.metadata.manager.listener.name",
    STRING,
    None,
    MEDIUM,
    "Listener that the remote log metadata manager uses to connect to brokers.",
    non_empty,
)
REMOTE_LOG_READER_MAX_PENDING_TASKS: Final = Key(
    "remote.log.reader.max.pending.tasks", INT, "100", MEDIUM, "Largest number of reads from remote storage that wait.", at_least(1)
)
REMOTE_LOG_READER_THREADS: Final = Key(
    "remote.log.reader.threads", INT, "10", MEDIUM, "Threads that read from remote storage.", at_least(1)
)
REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME: Final = Key(
    "remote.log.storage.manager.class.name", STRING, None, MEDIUM, "Class that stores remote segments.", non_empty
)
REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH: Final = Key(
    "remote.log.storage.manager.class.path", STRING, None, MEDIUM, "Class path of that class."
)
REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX: Final = Key(
    "remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", MEDIUM, "Prefix of the configuration keys of that class.", non_empty
)
REMOTE_LOG_STORAGE_SYSTEM_ENABLE: Final = Key(
    "remote.log.storage.system.enable", BOOLEAN, "false", MEDIUM, "Whether topics may use remote storage."
)

KEYS: Final = keys_in(globals())
