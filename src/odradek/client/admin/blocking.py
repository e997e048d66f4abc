"""Blocking admin client.

with Admin(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("topic", 3)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from odradek.client.admin.aio import AsyncAdmin
from odradek.client.calls.blocking import Face, blocking, called_in_loop
from odradek.client.settings.config import Setting

T = TypeVar("T")


class Admin(Face[AsyncAdmin]):
    """Admin client like `AsyncAdmin` for code without an event loop. Any thread may call its methods."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Start a client: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        super().__init__(AsyncAdmin(config, **settings))
        self._thread.run(self._client.start)

    def run(self, action: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        """Run `action` with the asyncio client in the loop thread, for instance for several calls at the same time.

        Ctrl-C cancels `action`.
        """
        return self._thread.run(lambda: action(self._client))

    metrics = called_in_loop(AsyncAdmin.metrics)
    close = blocking(AsyncAdmin.close)

    # -- topics ----------------------------------------------------------------------------------------------------------------------------

    create_topics = blocking(AsyncAdmin.create_topics)
    try_create_topics = blocking(AsyncAdmin.try_create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    try_delete_topics = blocking(AsyncAdmin.try_delete_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    try_create_partitions = blocking(AsyncAdmin.try_create_partitions)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    try_describe_topics = blocking(AsyncAdmin.try_describe_topics)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    try_list_offsets = blocking(AsyncAdmin.try_list_offsets)
    delete_records = blocking(AsyncAdmin.delete_records)
    try_delete_records = blocking(AsyncAdmin.try_delete_records)

    # -- configurations --------------------------------------------------------------------------------------------------------------------

    describe_configs = blocking(AsyncAdmin.describe_configs)
    try_describe_configs = blocking(AsyncAdmin.try_describe_configs)
    incremental_alter_configs = blocking(AsyncAdmin.incremental_alter_configs)
    try_incremental_alter_configs = blocking(AsyncAdmin.try_incremental_alter_configs)
    list_config_resources = blocking(AsyncAdmin.list_config_resources)
    list_client_metrics_resources = blocking(AsyncAdmin.list_client_metrics_resources)

    # -- groups ----------------------------------------------------------------------------------------------------------------------------

    list_groups = blocking(AsyncAdmin.list_groups)
    try_list_groups = blocking(AsyncAdmin.try_list_groups)
    list_consumer_groups = blocking(AsyncAdmin.list_consumer_groups)
    describe_consumer_groups = blocking(AsyncAdmin.describe_consumer_groups)
    try_describe_consumer_groups = blocking(AsyncAdmin.try_describe_consumer_groups)
    describe_classic_groups = blocking(AsyncAdmin.describe_classic_groups)
    try_describe_classic_groups = blocking(AsyncAdmin.try_describe_classic_groups)
    delete_consumer_groups = blocking(AsyncAdmin.delete_consumer_groups)
    try_delete_consumer_groups = blocking(AsyncAdmin.try_delete_consumer_groups)
    remove_members_from_consumer_group = blocking(AsyncAdmin.remove_members_from_consumer_group)
    try_remove_members_from_consumer_group = blocking(AsyncAdmin.try_remove_members_from_consumer_group)
    list_consumer_group_offsets = blocking(AsyncAdmin.list_consumer_group_offsets)
    try_list_consumer_group_offsets = blocking(AsyncAdmin.try_list_consumer_group_offsets)
    alter_consumer_group_offsets = blocking(AsyncAdmin.alter_consumer_group_offsets)
    try_alter_consumer_group_offsets = blocking(AsyncAdmin.try_alter_consumer_group_offsets)
    delete_consumer_group_offsets = blocking(AsyncAdmin.delete_consumer_group_offsets)
    try_delete_consumer_group_offsets = blocking(AsyncAdmin.try_delete_consumer_group_offsets)

    # -- share and streams groups ----------------------------------------------------------------------------------------------------------

    describe_share_groups = blocking(AsyncAdmin.describe_share_groups)
    try_describe_share_groups = blocking(AsyncAdmin.try_describe_share_groups)
    list_share_group_offsets = blocking(AsyncAdmin.list_share_group_offsets)
    try_list_share_group_offsets = blocking(AsyncAdmin.try_list_share_group_offsets)
    alter_share_group_offsets = blocking(AsyncAdmin.alter_share_group_offsets)
    try_alter_share_group_offsets = blocking(AsyncAdmin.try_alter_share_group_offsets)
    delete_share_group_offsets = blocking(AsyncAdmin.delete_share_group_offsets)
    try_delete_share_group_offsets = blocking(AsyncAdmin.try_delete_share_group_offsets)
    delete_share_groups = blocking(AsyncAdmin.delete_share_groups)
    try_delete_share_groups = blocking(AsyncAdmin.try_delete_share_groups)
    describe_streams_groups = blocking(AsyncAdmin.describe_streams_groups)
    try_describe_streams_groups = blocking(AsyncAdmin.try_describe_streams_groups)
    list_streams_group_offsets = blocking(AsyncAdmin.list_streams_group_offsets)
    try_list_streams_group_offsets = blocking(AsyncAdmin.try_list_streams_group_offsets)
    alter_streams_group_offsets = blocking(AsyncAdmin.alter_streams_group_offsets)
    try_alter_streams_group_offsets = blocking(AsyncAdmin.try_alter_streams_group_offsets)
    delete_streams_group_offsets = blocking(AsyncAdmin.delete_streams_group_offsets)
    try_delete_streams_group_offsets = blocking(AsyncAdmin.try_delete_streams_group_offsets)
    delete_streams_groups = blocking(AsyncAdmin.delete_streams_groups)
    try_delete_streams_groups = blocking(AsyncAdmin.try_delete_streams_groups)

    # -- replicas --------------------------------------------------------------------------------------------------------------------------

    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    try_describe_log_dirs = blocking(AsyncAdmin.try_describe_log_dirs)
    describe_replica_log_dirs = blocking(AsyncAdmin.describe_replica_log_dirs)
    try_describe_replica_log_dirs = blocking(AsyncAdmin.try_describe_replica_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)
    try_alter_replica_log_dirs = blocking(AsyncAdmin.try_alter_replica_log_dirs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    try_elect_leaders = blocking(AsyncAdmin.try_elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    try_alter_partition_reassignments = blocking(AsyncAdmin.try_alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)

    # -- transactions ----------------------------------------------------------------------------------------------------------------------

    describe_producers = blocking(AsyncAdmin.describe_producers)
    try_describe_producers = blocking(AsyncAdmin.try_describe_producers)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    try_describe_transactions = blocking(AsyncAdmin.try_describe_transactions)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    try_list_transactions = blocking(AsyncAdmin.try_list_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)
    try_fence_producers = blocking(AsyncAdmin.try_fence_producers)
    end_transactions = blocking(AsyncAdmin.end_transactions)
    try_end_transactions = blocking(AsyncAdmin.try_end_transactions)
    force_terminate_transaction = blocking(AsyncAdmin.force_terminate_transaction)

    # -- the cluster -----------------------------------------------------------------------------------------------------------------------

    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    unregister_broker = blocking(AsyncAdmin.unregister_broker)
    describe_features = blocking(AsyncAdmin.describe_features)
    update_features = blocking(AsyncAdmin.update_features)
    describe_metadata_quorum = blocking(AsyncAdmin.describe_metadata_quorum)
    add_raft_voter = blocking(AsyncAdmin.add_raft_voter)
    remove_raft_voter = blocking(AsyncAdmin.remove_raft_voter)

    # -- security --------------------------------------------------------------------------------------------------------------------------

    describe_acls = blocking(AsyncAdmin.describe_acls)
    create_acls = blocking(AsyncAdmin.create_acls)
    try_create_acls = blocking(AsyncAdmin.try_create_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    try_delete_acls = blocking(AsyncAdmin.try_delete_acls)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    try_describe_user_scram_credentials = blocking(AsyncAdmin.try_describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
    try_alter_user_scram_credentials = blocking(AsyncAdmin.try_alter_user_scram_credentials)
    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_token = blocking(AsyncAdmin.describe_delegation_token)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    try_alter_client_quotas = blocking(AsyncAdmin.try_alter_client_quotas)
