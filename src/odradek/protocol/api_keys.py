"""APIs of Kafka 4.3 and the four APIs that only ZooKeeper-era brokers serve, without importing their messages."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """Number at the beginning of a request (org.apache.kafka.common.protocol.ApiKeys)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiInfo(NamedTuple):
    """Properties of an API that are known without importing its messages."""

    name: str
    """Kafka's name, the common prefix of the two message classes."""
    min_version: int
    max_version: int
    latest_version_unstable: bool
    """True if `max_version` must not be advertised unless unstable versions are enabled."""
    flexible_since: int | None
    """First version with tagged fields and the longer headers (KIP-482)."""
    listeners: tuple[str, ...]
    """Kinds of node that serve the API in Kafka: "broker", "controller", or "zkBroker" for a broker under a ZooKeeper-era controller."""
    module: str
    """Module of the messages."""

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


def _info(
    name: str, min_version: int, max_version: int, flexible_since: int | None, listeners: tuple[str, ...], *, latest_unstable: bool = False
) -> tuple[str, ApiInfo]:
    words = "".join(["_" + letter.lower() if letter.isupper() else letter for letter in name]).lstrip("_")
    module = f"odradek.protocol.messages.{words}"
    return words, ApiInfo(name, min_version, max_version, latest_unstable, flexible_since, listeners, module)


API_INFO: Final[dict[ApiKey, ApiInfo]] = {
    ApiKey[words.upper()]: info
    for words, info in (
        _info("Produce", 3, 13, 9, ("broker",)),
        _info("Fetch", 4, 18, 12, ("broker", "controller")),
        _info("ListOffsets", 1, 11, 6, ("broker",)),
        _info("Metadata", 0, 13, 9, ("broker",)),
        _info("LeaderAndIsr", 0, 7, 4, ("zkBroker",)),
        _info("StopReplica", 0, 4, 2, ("zkBroker",)),
        _info("UpdateMetadata", 0, 8, 6, ("zkBroker",)),
        _info("ControlledShutdown", 0, 3, 3, ("controller", "zkBroker")),
        _info("OffsetCommit", 2, 10, 8, ("broker",)),
        _info("OffsetFetch", 1, 10, 6, ("broker",)),
        _info("FindCoordinator", 0, 6, 3, ("broker",)),
        _info("JoinGroup", 0, 9, 6, ("broker",)),
        _info("Heartbeat", 0, 4, 4, ("broker",)),
        _info("LeaveGroup", 0, 5, 4, ("broker",)),
        _info("SyncGroup", 0, 5, 4, ("broker",)),
        _info("DescribeGroups", 0, 6, 5, ("broker",)),
        _info("ListGroups", 0, 5, 3, ("broker",)),
        _info("SaslHandshake", 0, 1, None, ("broker", "controller")),
        _info("ApiVersions", 0, 4, 3, ("broker", "controller")),
        _info("CreateTopics", 2, 7, 5, ("broker", "controller")),
        _info("DeleteTopics", 1, 6, 4, ("broker", "controller")),
        _info("DeleteRecords", 0, 2, 2, ("broker",)),
        _info("InitProducerId", 0, 6, 2, ("broker",), latest_unstable=True),
        _info("OffsetForLeaderEpoch", 2, 4, 4, ("broker",)),
        _info("AddPartitionsToTxn", 0, 5, 3, ("broker",)),
        _info("AddOffsetsToTxn", 0, 4, 3, ("broker",)),
        _info("EndTxn", 0, 5, 3, ("broker",)),
        _info("WriteTxnMarkers", 1, 2, 1, ("broker",)),
        _info("TxnOffsetCommit", 0, 5, 3, ("broker",)),
        _info("DescribeAcls", 1, 3, 2, ("broker", "controller")),
        _info("CreateAcls", 1, 3, 2, ("broker", "controller")),
        _info("DeleteAcls", 1, 3, 2, ("broker", "controller")),
        _info("DescribeConfigs", 1, 4, 4, ("broker", "controller")),
        _info("AlterConfigs", 0, 2, 2, ("broker", "controller")),
        _info("AlterReplicaLogDirs", 1, 2, 2, ("broker",)),
        _info("DescribeLogDirs", 1, 5, 2, ("broker",)),
        _info("SaslAuthenticate", 0, 2, 2, ("broker", "controller")),
        _info("CreatePartitions", 0, 3, 2, ("broker", "controller")),
        _info("CreateDelegationToken", 1, 3, 2, ("broker", "controller")),
        _info("RenewDelegationToken", 1, 2, 2, ("broker", "controller")),
        _info("ExpireDelegationToken", 1, 2, 2, ("broker", "controller")),
        _info("DescribeDelegationToken", 1, 3, 2, ("broker", "controller")),
        _info("DeleteGroups", 0, 2, 2, ("broker",)),
        _info("ElectLeaders", 0, 2, 2, ("broker", "controller")),
        _info("IncrementalAlterConfigs", 0, 1, 1, ("broker", "controller")),
        _info("AlterPartitionReassignments", 0, 1, 0, ("broker", "controller")),
        _info("ListPartitionReassignments", 0, 0, 0, ("broker", "controller")),
        _info("OffsetDelete", 0, 0, None, ("broker",)),
        _info("DescribeClientQuotas", 0, 1, 1, ("broker",)),
        _info("AlterClientQuotas", 0, 1, 1, ("broker", "controller")),
        _info("DescribeUserScramCredentials", 0, 0, 0, ("broker", "controller")),
        _info("AlterUserScramCredentials", 0, 0, 0, ("broker", "controller")),
        _info("Vote", 0, 2, 0, ("controller",)),
        _info("BeginQuorumEpoch", 0, 1, 1, ("controller",)),
        _info("EndQuorumEpoch", 0, 1, 1, ("controller",)),
        _info("DescribeQuorum", 0, 2, 0, ("broker", "controller")),
        _info("AlterPartition", 2, 3, 0, ("controller",)),
        _info("UpdateFeatures", 0, 2, 0, ("broker", "controller")),
        _info("Envelope", 0, 0, 0, ("controller",)),
        _info("FetchSnapshot", 0, 1, 0, ("controller",)),
        _info("DescribeCluster", 0, 2, 0, ("broker", "controller")),
        _info("DescribeProducers", 0, 0, 0, ("broker",)),
        _info("BrokerRegistration", 0, 4, 0, ("controller",)),
        _info("BrokerHeartbeat", 0, 2, 0, ("controller",)),
        _info("UnregisterBroker", 0, 0, 0, ("broker", "controller")),
        _info("DescribeTransactions", 0, 0, 0, ("broker",)),
        _info("ListTransactions", 0, 2, 0, ("broker",)),
        _info("AllocateProducerIds", 0, 0, 0, ("controller",)),
        _info("ConsumerGroupHeartbeat", 0, 1, 0, ("broker",)),
        _info("ConsumerGroupDescribe", 0, 1, 0, ("broker",)),
        _info("ControllerRegistration", 0, 0, 0, ("controller",)),
        _info("GetTelemetrySubscriptions", 0, 0, 0, ("broker",)),
        _info("PushTelemetry", 0, 0, 0, ("broker",)),
        _info("AssignReplicasToDirs", 0, 0, 0, ("controller",)),
        _info("ListConfigResources", 0, 1, 0, ("broker",)),
        _info("DescribeTopicPartitions", 0, 0, 0, ("broker",)),
        _info("ShareGroupHeartbeat", 1, 1, 0, ("broker",)),
        _info("ShareGroupDescribe", 1, 1, 0, ("broker",)),
        _info("ShareFetch", 1, 2, 0, ("broker",)),
        _info("ShareAcknowledge", 1, 2, 0, ("broker",)),
        _info("AddRaftVoter", 0, 1, 0, ("broker", "controller")),
        _info("RemoveRaftVoter", 0, 0, 0, ("broker", "controller")),
        _info("UpdateRaftVoter", 0, 0, 0, ("controller",)),
        _info("InitializeShareGroupState", 0, 0, 0, ("broker",)),
        _info("ReadShareGroupState", 0, 0, 0, ("broker",)),
        _info("WriteShareGroupState", 0, 1, 0, ("broker",)),
        _info("DeleteShareGroupState", 0, 0, 0, ("broker",)),
        _info("ReadShareGroupStateSummary", 0, 1, 0, ("broker",)),
        _info("StreamsGroupHeartbeat", 0, 0, 0, ("broker",)),
        _info("StreamsGroupDescribe", 0, 0, 0, ("broker",)),
        _info("DescribeShareGroupOffsets", 0, 1, 0, ("broker",)),
        _info("AlterShareGroupOffsets", 0, 0, 0, ("broker",)),
        _info("DeleteShareGroupOffsets", 0, 0, 0, ("broker",)),
    )
}
