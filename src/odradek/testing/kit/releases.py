"""Releases of Kafka: the API versions that a broker listener announces, and the features of the cluster.

The versions are the `validVersions` of each release's message definitions without unstable versions. Up to 3.2 they are those of a broker
under ZooKeeper, from 3.3 on those of a broker under KRaft. APIs between controllers and brokers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.base.errors import OdradekError
from odradek.metadata.features import FEATURES, METADATA_VERSION, METADATA_VERSION_NAMES, MINIMUM_METADATA_VERSION, VersionRange
from odradek.protocol.api_keys import ApiKey

_CHANGES: Final = {
    "2.4": """
        PRODUCE 0-8, FETCH 0-11, LIST_OFFSETS 0-5, METADATA 0-9, OFFSET_COMMIT 0-8, OFFSET_FETCH 0-6, FIND_COORDINATOR 0-3,
        JOIN_GROUP 0-6, HEARTBEAT 0-4, LEAVE_GROUP 0-4, SYNC_GROUP 0-4, DESCRIBE_GROUPS 0-5, LIST_GROUPS 0-3, SASL_HANDSHAKE 0-1,
        API_VERSIONS 0-3, CREATE_TOPICS 0-5, DELETE_TOPICS 0-4, DELETE_RECORDS 0-1, INIT_PRODUCER_ID 0-2, OFFSET_FOR_LEADER_EPOCH 0-3,
        ADD_PARTITIONS_TO_TXN 0-1, ADD_OFFSETS_TO_TXN 0-1, END_TXN 0-1, WRITE_TXN_MARKERS 0-0, TXN_OFFSET_COMMIT 0-2, DESCRIBE_ACLS 0-1,
        CREATE_ACLS 0-1, DELETE_ACLS 0-1, DESCRIBE_CONFIGS 0-2, ALTER_CONFIGS 0-1, ALTER_REPLICA_LOG_DIRS 0-1, DESCRIBE_LOG_DIRS 0-1,
        SASL_AUTHENTICATE 0-1, CREATE_PARTITIONS 0-1, CREATE_DELEGATION_TOKEN 0-2, RENEW_DELEGATION_TOKEN 0-1,
        EXPIRE_DELEGATION_TOKEN 0-1, DESCRIBE_DELEGATION_TOKEN 0-1, DELETE_GROUPS 0-2, ELECT_LEADERS 0-2, INCREMENTAL_ALTER_CONFIGS 0-1,
        ALTER_PARTITION_REASSIGNMENTS 0-0, LIST_PARTITION_REASSIGNMENTS 0-0, OFFSET_DELETE 0-0
    """,
    "2.5": """
        OFFSET_FETCH 0-7, JOIN_GROUP 0-7, SYNC_GROUP 0-5, INIT_PRODUCER_ID 0-3, TXN_OFFSET_COMMIT 0-3, DESCRIBE_ACLS 0-2,
        CREATE_ACLS 0-2, DELETE_ACLS 0-2, SASL_AUTHENTICATE 0-2, CREATE_PARTITIONS 0-2, RENEW_DELEGATION_TOKEN 0-2,
        EXPIRE_DELEGATION_TOKEN 0-2, DESCRIBE_DELEGATION_TOKEN 0-2
    """,
    "2.6": """
        LIST_GROUPS 0-4, DELETE_RECORDS 0-2, DESCRIBE_CONFIGS 0-3, DESCRIBE_LOG_DIRS 0-2, DESCRIBE_CLIENT_QUOTAS 0-0,
        ALTER_CLIENT_QUOTAS 0-0
    """,
    "2.7": """
        FETCH 0-12, CREATE_TOPICS 0-6, DELETE_TOPICS 0-5, INIT_PRODUCER_ID 0-4, ADD_PARTITIONS_TO_TXN 0-2, ADD_OFFSETS_TO_TXN 0-2,
        END_TXN 0-2, CREATE_PARTITIONS 0-3, DESCRIBE_USER_SCRAM_CREDENTIALS 0-0, ALTER_USER_SCRAM_CREDENTIALS 0-0,
        UPDATE_FEATURES 0-0
    """,
    "2.8": """
        PRODUCE 0-9, LIST_OFFSETS 0-6, METADATA 0-11, CREATE_TOPICS 0-7, DELETE_TOPICS 0-6, OFFSET_FOR_LEADER_EPOCH 0-4,
        ADD_PARTITIONS_TO_TXN 0-3, ADD_OFFSETS_TO_TXN 0-3, END_TXN 0-3, WRITE_TXN_MARKERS 0-1, DESCRIBE_CONFIGS 0-4, ALTER_CONFIGS 0-2,
        ALTER_REPLICA_LOG_DIRS 0-2, DESCRIBE_CLIENT_QUOTAS 0-1, ALTER_CLIENT_QUOTAS 0-1, DESCRIBE_CLUSTER 0-0, DESCRIBE_PRODUCERS 0-0
    """,
    "3.0": """
        LIST_OFFSETS 0-7, OFFSET_FETCH 0-8, FIND_COORDINATOR 0-4, DESCRIBE_TRANSACTIONS 0-0, LIST_TRANSACTIONS 0-0
    """,
    "3.1": """
        FETCH 0-13, METADATA 0-12
    """,
    "3.2": """
        JOIN_GROUP 0-9, LEAVE_GROUP 0-5, DESCRIBE_LOG_DIRS 0-3
    """,
    "3.3": """
        DESCRIBE_ACLS 0-3, CREATE_ACLS 0-3, DELETE_ACLS 0-3, DESCRIBE_LOG_DIRS 0-4, DESCRIBE_QUORUM 0-1, UPDATE_FEATURES 0-1,
        UNREGISTER_BROKER 0-0, CREATE_DELEGATION_TOKEN none, RENEW_DELEGATION_TOKEN none, EXPIRE_DELEGATION_TOKEN none,
        DESCRIBE_DELEGATION_TOKEN none, DESCRIBE_USER_SCRAM_CREDENTIALS none, ALTER_USER_SCRAM_CREDENTIALS none
    """,
    "3.4": "",
    "3.5": """
        FETCH 0-15, LIST_OFFSETS 0-8, DESCRIBE_USER_SCRAM_CREDENTIALS 0-0, ALTER_USER_SCRAM_CREDENTIALS 0-0
    """,
    "3.6": """
        ADD_PARTITIONS_TO_TXN 0-4, CREATE_DELEGATION_TOKEN 0-3, RENEW_DELEGATION_TOKEN 0-2, EXPIRE_DELEGATION_TOKEN 0-2,
        DESCRIBE_DELEGATION_TOKEN 0-3
    """,
    "3.7": """
        PRODUCE 0-10, FETCH 0-16, OFFSET_COMMIT 0-9, OFFSET_FETCH 0-9, DESCRIBE_CLUSTER 0-1, CONSUMER_GROUP_HEARTBEAT 0-0,
        GET_TELEMETRY_SUBSCRIPTIONS 0-0, PUSH_TELEMETRY 0-0, LIST_CONFIG_RESOURCES 0-0
    """,
    "3.8": """
        PRODUCE 0-11, FIND_COORDINATOR 0-5, LIST_GROUPS 0-5, INIT_PRODUCER_ID 0-5, ADD_PARTITIONS_TO_TXN 0-5, ADD_OFFSETS_TO_TXN 0-4,
        END_TXN 0-4, TXN_OFFSET_COMMIT 0-4, LIST_TRANSACTIONS 0-1, CONSUMER_GROUP_DESCRIBE 0-0, DESCRIBE_TOPIC_PARTITIONS 0-0
    """,
    "3.9": """
        FETCH 0-17, LIST_OFFSETS 0-9, FIND_COORDINATOR 0-6, API_VERSIONS 0-4, DESCRIBE_QUORUM 0-2, ADD_RAFT_VOTER 0-0,
        REMOVE_RAFT_VOTER 0-0
    """,
    "4.0": """
        PRODUCE 0-12, FETCH 4-17, LIST_OFFSETS 1-10, METADATA 0-13, OFFSET_COMMIT 2-9, OFFSET_FETCH 1-9, JOIN_GROUP 2-9,
        DESCRIBE_GROUPS 0-6, CREATE_TOPICS 2-7, DELETE_TOPICS 1-6, OFFSET_FOR_LEADER_EPOCH 2-4, END_TXN 0-5, WRITE_TXN_MARKERS 1-1,
        TXN_OFFSET_COMMIT 0-5, DESCRIBE_ACLS 1-3, CREATE_ACLS 1-3, DELETE_ACLS 1-3, DESCRIBE_CONFIGS 1-4, ALTER_REPLICA_LOG_DIRS 1-2,
        DESCRIBE_LOG_DIRS 1-4, CREATE_DELEGATION_TOKEN 1-3, RENEW_DELEGATION_TOKEN 1-2, EXPIRE_DELEGATION_TOKEN 1-2,
        DESCRIBE_DELEGATION_TOKEN 1-3, UPDATE_FEATURES 0-2, DESCRIBE_CLUSTER 0-2, CONSUMER_GROUP_HEARTBEAT 0-1,
        CONSUMER_GROUP_DESCRIBE 0-1
    """,
    "4.1": """
        PRODUCE 0-13, FETCH 4-18, JOIN_GROUP 0-9, ALTER_PARTITION_REASSIGNMENTS 0-1, LIST_TRANSACTIONS 0-2, LIST_CONFIG_RESOURCES 0-1,
        SHARE_GROUP_HEARTBEAT 0-1, SHARE_GROUP_DESCRIBE 0-1, SHARE_FETCH 0-1, SHARE_ACKNOWLEDGE 0-1, INITIALIZE_SHARE_GROUP_STATE 0-0,
        READ_SHARE_GROUP_STATE 0-0, WRITE_SHARE_GROUP_STATE 0-0, DELETE_SHARE_GROUP_STATE 0-0, READ_SHARE_GROUP_STATE_SUMMARY 0-0,
        DESCRIBE_SHARE_GROUP_OFFSETS 0-0, ALTER_SHARE_GROUP_OFFSETS 0-0, DELETE_SHARE_GROUP_OFFSETS 0-0
    """,
    "4.2": """
        LIST_OFFSETS 1-11, OFFSET_COMMIT 2-10, OFFSET_FETCH 1-10, WRITE_TXN_MARKERS 1-2, SHARE_FETCH 0-2, SHARE_ACKNOWLEDGE 0-2,
        ADD_RAFT_VOTER 0-1, WRITE_SHARE_GROUP_STATE 0-1, READ_SHARE_GROUP_STATE_SUMMARY 0-1, STREAMS_GROUP_HEARTBEAT 0-0,
        STREAMS_GROUP_DESCRIBE 0-0, DESCRIBE_SHARE_GROUP_OFFSETS 0-1
    """,
    "4.3": """
        DESCRIBE_LOG_DIRS 1-5, SHARE_GROUP_HEARTBEAT 1-1, SHARE_GROUP_DESCRIBE 1-1, SHARE_FETCH 1-2, SHARE_ACKNOWLEDGE 1-2
    """,
}
"""Release -> changes since the previous release: API, lowest and highest version, or "none" for a removed API."""

_FIRST_KRAFT: Final = (3, 3)
_FIRST_WITHOUT_ZOOKEEPER: Final = (4, 0)


class ReleaseError(OdradekError):
    """Unknown release; the message is one line."""


class Release(NamedTuple):
    """API versions and features that brokers of a release announce."""

    name: str
    apis: Mapping[int, VersionRange]
    """Version ranges by API key."""
    features: Mapping[str, VersionRange]
    """Supported feature levels; empty for releases under ZooKeeper."""
    formatted_as: str
    """Release whose feature levels the cluster is formatted with."""


RELEASES: Final[tuple[str, ...]] = tuple(_CHANGES)
"""Known releases, oldest first."""


def release(name: str) -> Release:
    """Return the release of a name like "3.7" or "3.7.1". Raises ReleaseError for an unknown release."""
    short = ".".join(name.split(".")[:2])
    if short not in _CHANGES:
        raise ReleaseError(f"version={name!r}: the releases of Kafka are {RELEASES[0]} to {RELEASES[-1]}")
    number = (int(short.split(".")[0]), int(short.split(".")[1]))
    formatted_as = short if number >= _FIRST_KRAFT else "3.3"
    return Release(short, _apis(short), _features(number, formatted_as), formatted_as)


def _apis(name: str) -> dict[int, VersionRange]:
    apis: dict[int, VersionRange] = {}
    for each, changes in _CHANGES.items():
        for change in filter(None, (part.strip() for part in changes.replace("\n", " ").split(","))):
            api, _, versions = change.partition(" ")
            low, _, high = versions.partition("-")
            if versions == "none":
                del apis[ApiKey[api]]
            else:
                apis[int(ApiKey[api])] = VersionRange(int(low), int(high))
        if each == name:
            break
    return apis


def _features(number: tuple[int, int], formatted_as: str) -> dict[str, VersionRange]:
    """Return the supported feature levels. Up to 3.8 there is only metadata.version, from 3.0 (level 1) on; clusters of 4.x begin
    with 3.3.
    """
    if number < _FIRST_KRAFT:
        return {}
    latest = max(level for level, name in METADATA_VERSION_NAMES.items() if name.startswith(f"{formatted_as}-"))
    lowest = 1 if number < _FIRST_WITHOUT_ZOOKEEPER else MINIMUM_METADATA_VERSION
    features = {METADATA_VERSION: VersionRange(lowest, latest)}
    for name, levels in FEATURES.items():
        known = [level.level for level in levels if level.bootstrap_metadata_version <= latest and level.level > 0]
        if known:
            features[name] = VersionRange(0, max(known))
    return features
