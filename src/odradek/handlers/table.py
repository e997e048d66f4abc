"""Every API served, without importing the modules that serve them (they are imported on their first request).

One row per (API, module): to add an API, write the module with its `@handler` and add its row here; a test compares the two.
ApiVersions, the dispatcher and the documentation are derived from this table.
"""

from __future__ import annotations

from typing import Final

from odradek.handlers.registration import BROKER, CONTROLLER
from odradek.protocol.api_keys import ApiKey


class TableRow:
    """What `module` registers for `api_key`; versions are inclusive."""

    __slots__ = ("advertised_from", "api_key", "forwarded", "listeners", "max_version", "min_version", "module")

    def __init__(
        self,
        api_key: ApiKey,
        module: str,
        versions: tuple[int, int],
        listeners: tuple[str, ...],
        *,
        forwarded: bool = False,
        advertised_from: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.module = "odradek.handlers." + module
        self.min_version, self.max_version = versions
        self.listeners = listeners
        self.forwarded = forwarded
        self.advertised_from = self.min_version if advertised_from is None else advertised_from


ROWS: Final[tuple[TableRow, ...]] = (
    TableRow(ApiKey.PRODUCE, "data.produce", (3, 13), (BROKER,), advertised_from=0),
    TableRow(ApiKey.FETCH, "data.fetch", (4, 18), (BROKER,)),
    TableRow(ApiKey.FETCH, "cluster.raft_fetch", (4, 18), (CONTROLLER,)),
    TableRow(ApiKey.LIST_OFFSETS, "data.list_offsets", (1, 11), (BROKER,)),
    TableRow(ApiKey.METADATA, "cluster.metadata", (0, 13), (BROKER,)),
    TableRow(ApiKey.OFFSET_COMMIT, "group.offset_commit", (2, 10), (BROKER,)),
    TableRow(ApiKey.OFFSET_FETCH, "group.offset_fetch", (1, 10), (BROKER,)),
    TableRow(ApiKey.FIND_COORDINATOR, "group.find_coordinator", (0, 6), (BROKER,)),
    TableRow(ApiKey.JOIN_GROUP, "group.join_group", (0, 9), (BROKER,)),
    TableRow(ApiKey.HEARTBEAT, "group.heartbeat", (0, 4), (BROKER,)),
    TableRow(ApiKey.LEAVE_GROUP, "group.leave_group", (0, 5), (BROKER,)),
    TableRow(ApiKey.SYNC_GROUP, "group.sync_group", (0, 5), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_GROUPS, "group.describe_groups", (0, 6), (BROKER,)),
    TableRow(ApiKey.LIST_GROUPS, "group.list_groups", (0, 5), (BROKER,)),
    TableRow(ApiKey.API_VERSIONS, "cluster.api_versions", (0, 4), (BROKER, CONTROLLER)),
    TableRow(ApiKey.CREATE_TOPICS, "admin.create_topics", (2, 7), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.DELETE_TOPICS, "admin.delete_topics", (1, 6), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.DELETE_RECORDS, "admin.delete_records", (0, 2), (BROKER,)),
    TableRow(ApiKey.INIT_PRODUCER_ID, "transaction.init_producer_id", (0, 6), (BROKER,)),
    TableRow(ApiKey.OFFSET_FOR_LEADER_EPOCH, "data.offset_for_leader_epoch", (2, 4), (BROKER,)),
    TableRow(ApiKey.ADD_PARTITIONS_TO_TXN, "transaction.add_partitions_to_txn", (0, 5), (BROKER,)),
    TableRow(ApiKey.ADD_OFFSETS_TO_TXN, "transaction.add_offsets_to_txn", (0, 4), (BROKER,)),
    TableRow(ApiKey.END_TXN, "transaction.end_txn", (0, 5), (BROKER,)),
    TableRow(ApiKey.WRITE_TXN_MARKERS, "transaction.write_txn_markers", (1, 2), (BROKER,)),
    TableRow(ApiKey.TXN_OFFSET_COMMIT, "group.txn_offset_commit", (0, 5), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_CONFIGS, "admin.describe_configs", (1, 4), (BROKER, CONTROLLER)),
    TableRow(ApiKey.ALTER_CONFIGS, "admin.alter_configs", (0, 2), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.ALTER_CONFIGS, "admin.alter_configs", (0, 2), (BROKER,)),
    TableRow(ApiKey.ALTER_REPLICA_LOG_DIRS, "admin.alter_replica_log_dirs", (1, 2), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_LOG_DIRS, "admin.describe_log_dirs", (1, 5), (BROKER,)),
    TableRow(ApiKey.CREATE_PARTITIONS, "admin.create_partitions", (0, 3), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.DELETE_GROUPS, "group.delete_groups", (0, 2), (BROKER,)),
    TableRow(ApiKey.ELECT_LEADERS, "admin.elect_leaders", (0, 2), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.INCREMENTAL_ALTER_CONFIGS, "admin.incremental_alter_configs", (0, 1), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.INCREMENTAL_ALTER_CONFIGS, "admin.incremental_alter_configs", (0, 1), (BROKER,)),
    TableRow(ApiKey.OFFSET_DELETE, "group.offset_delete", (0, 0), (BROKER,)),
    TableRow(ApiKey.VOTE, "cluster.vote", (0, 2), (CONTROLLER,)),
    TableRow(ApiKey.BEGIN_QUORUM_EPOCH, "cluster.begin_quorum_epoch", (0, 1), (CONTROLLER,)),
    TableRow(ApiKey.END_QUORUM_EPOCH, "cluster.end_quorum_epoch", (0, 1), (CONTROLLER,)),
    TableRow(ApiKey.DESCRIBE_QUORUM, "cluster.describe_quorum", (0, 2), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.ALTER_PARTITION, "cluster.alter_partition", (2, 3), (CONTROLLER,)),
    TableRow(ApiKey.UPDATE_FEATURES, "admin.update_features", (0, 2), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.ENVELOPE, "cluster.envelope", (0, 0), (CONTROLLER,)),
    TableRow(ApiKey.FETCH_SNAPSHOT, "cluster.fetch_snapshot", (0, 1), (CONTROLLER,)),
    TableRow(ApiKey.DESCRIBE_PRODUCERS, "transaction.describe_producers", (0, 0), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_TRANSACTIONS, "transaction.describe_transactions", (0, 0), (BROKER,)),
    TableRow(ApiKey.LIST_TRANSACTIONS, "transaction.list_transactions", (0, 2), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_CLUSTER, "cluster.describe_cluster", (0, 2), (BROKER, CONTROLLER)),
    TableRow(ApiKey.BROKER_REGISTRATION, "cluster.broker_registration", (0, 4), (CONTROLLER,)),
    TableRow(ApiKey.BROKER_HEARTBEAT, "cluster.broker_heartbeat", (0, 2), (CONTROLLER,)),
    TableRow(ApiKey.ALLOCATE_PRODUCER_IDS, "cluster.allocate_producer_ids", (0, 0), (CONTROLLER,)),
    TableRow(ApiKey.CONSUMER_GROUP_HEARTBEAT, "group.consumer_group_heartbeat", (0, 1), (BROKER,)),
    TableRow(ApiKey.CONSUMER_GROUP_DESCRIBE, "group.consumer_group_describe", (0, 1), (BROKER,)),
    TableRow(ApiKey.CONTROLLER_REGISTRATION, "cluster.controller_registration", (0, 0), (CONTROLLER,)),
    TableRow(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "cluster.assign_replicas_to_dirs", (0, 0), (CONTROLLER,)),
    TableRow(ApiKey.UNREGISTER_BROKER, "admin.unregister_broker", (0, 0), (CONTROLLER,), forwarded=True),
    TableRow(ApiKey.LIST_CONFIG_RESOURCES, "admin.list_config_resources", (0, 1), (BROKER,)),
    TableRow(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "cluster.describe_topic_partitions", (0, 0), (BROKER,)),
)
"""In the order of the API keys. Where a broker looks at a request before the controller does, its own row follows the controller's."""


def rows_for(listener: str) -> dict[ApiKey, TableRow]:
    """The rows that stand on a listener scope, including those a broker listener forwards to the controller."""
    rows: dict[ApiKey, TableRow] = {}
    for row in ROWS:
        if listener in row.listeners or (listener == BROKER and row.forwarded):
            rows[row.api_key] = row
    return rows
