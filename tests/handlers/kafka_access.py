"""What Kafka 4.3 asks of a client for each API: the table of its documentation (Security, Authorization and ACLs, "Operations and
resources on protocols"), with KafkaApis and ControllerApis for what the documentation leaves out or has otherwise.

A line has an API and its checks, in the order in which they are made; "or" stands between those of which one suffices. A check that is not
made good is answered with the error of its resource, unless one is named. `hidden`: the client is told nothing and sees less. `unlogged`:
the denial is no line of the audit log.

The documentation is not followed for ELECT_LEADERS (it says ClusterAction), DELETE_TOPICS (names of ids need Describe as well),
CONSUMER_GROUP_DESCRIBE (it says Read), DESCRIBE_LOG_DIRS (an error since its version 3) and PRODUCE (IdempotentWrite is not asked).
"""

from __future__ import annotations

from typing import Final

BROKER_LISTENER: Final = """
PRODUCE: Write TransactionalId; Write Topic
FETCH: ClusterAction Cluster TOPIC_AUTHORIZATION_FAILED; Read Topic
LIST_OFFSETS: Describe Topic
METADATA: Describe Topic; Describe Topic hidden unlogged; Create Cluster hidden unlogged or Create Topic; Describe Cluster hidden
OFFSET_COMMIT: Read Group; Read Topic
OFFSET_FETCH: Describe Group; Describe Topic; Describe Topic hidden
FIND_COORDINATOR: Describe Group; Describe TransactionalId; ClusterAction Cluster
JOIN_GROUP: Read Group; Describe Topic hidden unlogged
HEARTBEAT: Read Group
LEAVE_GROUP: Read Group
SYNC_GROUP: Read Group
DESCRIBE_GROUPS: Describe Group
LIST_GROUPS: Describe Cluster hidden unlogged or Describe Group hidden unlogged
SASL_HANDSHAKE: nothing
API_VERSIONS: nothing
DELETE_RECORDS: Delete Topic
INIT_PRODUCER_ID: Write TransactionalId; TwoPhaseCommit TransactionalId; \
IdempotentWrite Cluster hidden unlogged or Write Topic CLUSTER_AUTHORIZATION_FAILED unlogged
OFFSET_FOR_LEADER_EPOCH: ClusterAction Cluster hidden unlogged or Describe Topic
ADD_PARTITIONS_TO_TXN: Write TransactionalId; Write Topic; ClusterAction Cluster
ADD_OFFSETS_TO_TXN: Write TransactionalId; Read Group
END_TXN: Write TransactionalId
WRITE_TXN_MARKERS: Alter Cluster hidden unlogged or ClusterAction Cluster
TXN_OFFSET_COMMIT: Write TransactionalId; Read Group; Read Topic
DESCRIBE_ACLS: Describe Cluster
DESCRIBE_CONFIGS: DescribeConfigs Cluster; DescribeConfigs Topic; DescribeConfigs Group
ALTER_CONFIGS: nothing
ALTER_REPLICA_LOG_DIRS: Alter Cluster
DESCRIBE_LOG_DIRS: Describe Cluster
SASL_AUTHENTICATE: nothing
CREATE_DELEGATION_TOKEN: CreateTokens User
RENEW_DELEGATION_TOKEN: nothing
EXPIRE_DELEGATION_TOKEN: nothing
DESCRIBE_DELEGATION_TOKEN: Describe DelegationToken hidden or DescribeTokens User hidden
DELETE_GROUPS: Delete Group
INCREMENTAL_ALTER_CONFIGS: AlterConfigs Cluster
OFFSET_DELETE: Delete Group; Read Topic
DESCRIBE_CLIENT_QUOTAS: DescribeConfigs Cluster
DESCRIBE_USER_SCRAM_CREDENTIALS: Describe Cluster
DESCRIBE_CLUSTER: Describe Cluster hidden
DESCRIBE_PRODUCERS: Read Topic
DESCRIBE_TRANSACTIONS: Describe TransactionalId; Describe Topic hidden
LIST_TRANSACTIONS: Describe TransactionalId hidden
CONSUMER_GROUP_HEARTBEAT: Read Group; Describe Topic; Describe Topic hidden unlogged
CONSUMER_GROUP_DESCRIBE: Describe Group; Describe Topic
GET_TELEMETRY_SUBSCRIPTIONS: nothing
PUSH_TELEMETRY: nothing
LIST_CONFIG_RESOURCES: DescribeConfigs Cluster
DESCRIBE_TOPIC_PARTITIONS: Describe Topic
"""
CONTROLLER_LISTENER: Final = """
FETCH: ClusterAction Cluster
SASL_HANDSHAKE: nothing
API_VERSIONS: nothing
CREATE_TOPICS: Create Cluster hidden unlogged or Create Topic; DescribeConfigs Topic unlogged
DELETE_TOPICS: Delete Cluster hidden unlogged or Delete Topic; Describe Topic
DESCRIBE_ACLS: Describe Cluster
CREATE_ACLS: Alter Cluster
DELETE_ACLS: Alter Cluster
DESCRIBE_CONFIGS: DescribeConfigs Cluster; DescribeConfigs Topic; DescribeConfigs Group
ALTER_CONFIGS: AlterConfigs Cluster; AlterConfigs Topic; AlterConfigs Group
SASL_AUTHENTICATE: nothing
CREATE_PARTITIONS: Alter Topic
CREATE_DELEGATION_TOKEN: CreateTokens User
RENEW_DELEGATION_TOKEN: nothing
EXPIRE_DELEGATION_TOKEN: nothing
ELECT_LEADERS: Alter Cluster
INCREMENTAL_ALTER_CONFIGS: AlterConfigs Cluster; AlterConfigs Topic; AlterConfigs Group
ALTER_PARTITION_REASSIGNMENTS: Alter Cluster
LIST_PARTITION_REASSIGNMENTS: Describe Cluster
ALTER_CLIENT_QUOTAS: AlterConfigs Cluster
ALTER_USER_SCRAM_CREDENTIALS: Alter Cluster
VOTE: ClusterAction Cluster
BEGIN_QUORUM_EPOCH: ClusterAction Cluster
END_QUORUM_EPOCH: ClusterAction Cluster
DESCRIBE_QUORUM: Describe Cluster
ALTER_PARTITION: ClusterAction Cluster
UPDATE_FEATURES: Alter Cluster
ENVELOPE: ClusterAction Cluster
FETCH_SNAPSHOT: ClusterAction Cluster
DESCRIBE_CLUSTER: Alter Cluster
BROKER_REGISTRATION: ClusterAction Cluster
BROKER_HEARTBEAT: ClusterAction Cluster
UNREGISTER_BROKER: Alter Cluster
ALLOCATE_PRODUCER_IDS: ClusterAction Cluster
CONTROLLER_REGISTRATION: ClusterAction Cluster
ASSIGN_REPLICAS_TO_DIRS: ClusterAction Cluster
ADD_RAFT_VOTER: Alter Cluster
REMOVE_RAFT_VOTER: Alter Cluster
UPDATE_RAFT_VOTER: ClusterAction Cluster
"""

ERRORS: Final = {
    "Topic": "TOPIC_AUTHORIZATION_FAILED",
    "Group": "GROUP_AUTHORIZATION_FAILED",
    "Cluster": "CLUSTER_AUTHORIZATION_FAILED",
    "TransactionalId": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "DelegationToken": "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "User": "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
}

OPERATIONS: Final = {
    "Topic": "Read Write Create Delete Alter Describe DescribeConfigs AlterConfigs",
    "Group": "Read Delete Describe DescribeConfigs AlterConfigs",
    "Cluster": "Create Alter Describe ClusterAction DescribeConfigs AlterConfigs IdempotentWrite",
}
"""Resource -> what can be done to it, in the bit fields of answers (KIP-430)."""
