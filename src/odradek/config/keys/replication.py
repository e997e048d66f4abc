"""Keys of replicas, fetching, leader election."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, HIGH, INT, LONG, LOW, MEDIUM, STRING, Key, at_least, keys_in

ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM: Final = Key(
    "alter.log.dirs.replication.quota.window.num",
    INT,
    "11",
    LOW,
    "Samples kept for the quota of moves between log directories.",
    at_least(1),
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS: Final = Key(
    "alter.log.dirs.replication.quota.window.size.seconds",
    INT,
    "1",
    LOW,
    "Seconds per sample of the quota of moves between log directories.",
    at_least(1),
)
AUTO_LEADER_REBALANCE_ENABLE: Final = Key(
    "auto.leader.rebalance.enable", BOOLEAN, "true", HIGH, "Whether leadership is moved to preferred replicas automatically."
)
DEFAULT_REPLICATION_FACTOR: Final = Key(
    "default.replication.factor", INT, "1", MEDIUM, "Replication factor of a topic that is created without one."
)
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS: Final = Key(
    "delete.records.purgatory.purge.interval.requests", INT, "1", MEDIUM, "Delayed DeleteRecords completed before the purgatory is swept."
)
FETCH_MAX_BYTES: Final = Key("fetch.max.bytes", INT, "57671680", MEDIUM, "Largest fetch response, in bytes.", at_least(1024))
FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS: Final = Key(
    "fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM, "Delayed fetches completed before the purgatory is swept."
)
FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE: Final = Key(
    "follower.fetch.last.tiered.offset.enable",
    BOOLEAN,
    "false",
    MEDIUM,
    "Whether new followers start at the last offset in remote storage.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Final = Key(
    "leader.imbalance.check.interval.seconds",
    LONG,
    "300",
    HIGH,
    "Time between checks for leaders that are not the preferred replica, in seconds.",
    at_least(1),
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: Final = Key(
    "max.incremental.fetch.session.cache.slots", INT, "1000", MEDIUM, "Largest number of cached fetch sessions.", at_least(0)
)
NUM_REPLICA_ALTER_LOG_DIRS_THREADS: Final = Key(
    "num.replica.alter.log.dirs.threads", INT, None, HIGH, "Threads that move replicas between log directories."
)
NUM_REPLICA_FETCHERS: Final = Key("num.replica.fetchers", INT, "1", HIGH, "Fetchers per leader broker.", at_least(1))
REPLICA_FETCH_BACKOFF_MS: Final = Key(
    "replica.fetch.backoff.ms", INT, "1000", MEDIUM, "Pause of a follower after a failed fetch, in ms.", at_least(0)
)
REPLICA_FETCH_MAX_BYTES: Final = Key(
    "replica.fetch.max.bytes", INT, "1048576", MEDIUM, "Bytes a follower tries to fetch per partition.", at_least(0)
)
REPLICA_FETCH_MIN_BYTES: Final = Key(
    "replica.fetch.min.bytes", INT, "1", HIGH, "Bytes for which the leader waits before it responds to a follower."
)
REPLICA_FETCH_RESPONSE_MAX_BYTES: Final = Key(
    "replica.fetch.response.max.bytes", INT, "10485760", MEDIUM, "Bytes a follower tries to fetch at a time.", at_least(0)
)
REPLICA_FETCH_WAIT_MAX_MS: Final = Key("replica.fetch.wait.max.ms", INT, "500", HIGH, "Longest wait of a follower's fetch, in ms.")
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: Final = Key(
    "replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH, "Time between checkpoints of the high watermarks, in ms."
)
REPLICA_LAG_TIME_MAX_MS: Final = Key(
    "replica.lag.time.max.ms", LONG, "30000", HIGH, "A follower that has not caught up for longer, in ms, leaves the ISR."
)
REPLICA_SELECTOR_CLASS: Final = Key("replica.selector.class", STRING, None, MEDIUM, "Class that chooses the replica a consumer reads from.")
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES: Final = Key(
    "replica.socket.receive.buffer.bytes", INT, "65536", HIGH, "Receive buffer of a follower's sockets."
)
REPLICA_SOCKET_TIMEOUT_MS: Final = Key("replica.socket.timeout.ms", INT, "30000", HIGH, "Timeout of a follower's requests, in ms.")
REPLICATION_QUOTA_WINDOW_NUM: Final = Key(
    "replication.quota.window.num", INT, "11", LOW, "Samples kept for replication quotas.", at_least(1)
)
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS: Final = Key(
    "replication.quota.window.size.seconds", INT, "1", LOW, "Seconds per sample of replication quotas.", at_least(1)
)
UNCLEAN_LEADER_ELECTION_ENABLE: Final = Key(
    "unclean.leader.election.enable",
    BOOLEAN,
    "false",
    HIGH,
    "Whether a replica that is not in sync may become the leader when no other replica is left; records can be lost.",
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS: Final = Key(
    "unclean.leader.election.interval.ms",
    LONG,
    "300000",
    MEDIUM,
    "Time between checks for partitions that need an unclean election, in ms.",
    at_least(1),
    internal=True,
)

KEYS: Final = keys_in(globals())
