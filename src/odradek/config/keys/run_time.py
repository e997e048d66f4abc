"""Keys that can be set at run time only (QuotaConfig.brokerQuotaConfigs); they are unknown in a broker's file."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import LONG, MEDIUM, Key, at_least, keys_in

_UNLIMITED = str(0x7FFF_FFFF_FFFF_FFFF)

FOLLOWER_REPLICATION_THROTTLED_RATE: Final = Key(
    "follower.replication.throttled.rate",
    LONG,
    _UNLIMITED,
    MEDIUM,
    "Bytes per second that the throttled follower replicas of this broker may fetch in total.",
    at_least(0),
)
LEADER_REPLICATION_THROTTLED_RATE: Final = Key(
    "leader.replication.throttled.rate",
    LONG,
    _UNLIMITED,
    MEDIUM,
    "Bytes per second that this broker may send in total for throttled partitions to replicas that are not in sync.",
    at_least(0),
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND: Final = Key(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG,
    _UNLIMITED,
    MEDIUM,
    "Bytes per second that all moves of replicas between log directories may copy in total.",
    at_least(0),
)

KEYS: Final = keys_in(globals())
