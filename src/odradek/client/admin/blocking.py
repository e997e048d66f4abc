"""Blocking admin client.

with Admin(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("topic", 3)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from odradek.client.admin.aio import AsyncAdmin
from odradek.client.calls.loop_thread import shared_loop
from odradek.client.metrics import MetricName
from odradek.client.settings.config import Setting

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Admin, P], T]:
    """Return a blocking form of the method of `AsyncAdmin`, which the loop thread runs."""

    @wraps(method)
    def call(self: Admin, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return self.run(lambda admin: method(admin, *arguments, **keywords))

    return call


class Admin:
    """Admin client like `AsyncAdmin` for code without an event loop. Any thread may call its methods."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Start a client: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        self._admin = AsyncAdmin(config, **settings)
        self._thread = shared_loop()
        self._thread.run(self._admin.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(self, action: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
        """Run `action` with the asyncio client in the loop thread, for instance for several calls at the same time.

        Ctrl-C cancels `action`.
        """
        return self._thread.run(lambda: action(self._admin))

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics; see `AsyncAdmin.metrics`."""
        return self._thread.run(self._metrics)

    async def _metrics(self) -> dict[MetricName, float]:
        return self._admin.metrics()

    def close(self) -> None:
        """Close the connections."""
        self._thread.run(self._admin.close)

    # -- topics ----------------------------------------------------------------------------------------------------------------------------

    create_topics = _blocking(AsyncAdmin.create_topics)
    try_create_topics = _blocking(AsyncAdmin.try_create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    try_delete_topics = _blocking(AsyncAdmin.try_delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    try_create_partitions = _blocking(AsyncAdmin.try_create_partitions)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    try_describe_topics = _blocking(AsyncAdmin.try_describe_topics)
    list_offsets = _blocking(AsyncAdmin.list_offsets)
    try_list_offsets = _blocking(AsyncAdmin.try_list_offsets)
    delete_records = _blocking(AsyncAdmin.delete_records)
    try_delete_records = _blocking(AsyncAdmin.try_delete_records)

    # -- configurations --------------------------------------------------------------------------------------------------------------------

    describe_configs = _blocking(AsyncAdmin.describe_configs)
    try_describe_configs = _blocking(AsyncAdmin.try_describe_configs)
    incremental_alter_configs = _blocking(AsyncAdmin.incremental_alter_configs)
    try_incremental_alter_configs = _blocking(AsyncAdmin.try_incremental_alter_configs)
    list_config_resources = _blocking(AsyncAdmin.list_config_resources)
    list_client_metrics_resources = _blocking(AsyncAdmin.list_client_metrics_resources)

    # -- groups ----------------------------------------------------------------------------------------------------------------------------

    list_groups = _blocking(AsyncAdmin.list_groups)
    try_list_groups = _blocking(AsyncAdmin.try_list_groups)
    list_consumer_groups = _blocking(AsyncAdmin.list_consumer_groups)
    describe_consumer_groups = _blocking(AsyncAdmin.describe_consumer_groups)
    try_describe_consumer_groups = _blocking(AsyncAdmin.try_describe_consumer_groups)
    describe_classic_groups = _blocking(AsyncAdmin.describe_classic_groups)
    try_describe_classic_groups = _blocking(AsyncAdmin.try_describe_classic_groups)
    delete_consumer_groups = _blocking(AsyncAdmin.delete_consumer_groups)
    try_delete_consumer_groups = _blocking(AsyncAdmin.try_delete_consumer_groups)
    remove_members_from_consumer_group = _blocking(AsyncAdmin.remove_members_from_consumer_group)
    try_remove_members_from_consumer_group = _blocking(AsyncAdmin.try_remove_members_from_consumer_group)
    list_consumer_group_offsets = _blocking(AsyncAdmin.list_consumer_group_offsets)
    try_list_consumer_group_offsets = _blocking(AsyncAdmin.try_list_consumer_group_offsets)
    alter_consumer_group_offsets = _blocking(AsyncAdmin.alter_consumer_group_offsets)
    try_alter_consumer_group_offsets = _blocking(AsyncAdmin.try_alter_consumer_group_offsets)
    delete_consumer_group_offsets = _blocking(AsyncAdmin.delete_consumer_group_offsets)
    try_delete_consumer_group_offsets = _blocking(AsyncAdmin.try_delete_consumer_group_offsets)

    # -- share and streams groups ----------------------------------------------------------------------------------------------------------

    describe_share_groups = _blocking(AsyncAdmin.describe_share_groups)
    try_describe_share_groups = _blocking(AsyncAdmin.try_describe_share_groups)
    list_share_group_offsets = _blocking(AsyncAdmin.list_share_group_offsets)
    try_list_share_group_offsets = _blocking(AsyncAdmin.try_list_share_group_offsets)
    alter_share_group_offsets = _blocking(AsyncAdmin.alter_share_group_offsets)
    try_alter_share_group_offsets = _blocking(AsyncAdmin.try_alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AsyncAdmin.delete_share_group_offsets)
    try_delete_share_group_offsets = _blocking(AsyncAdmin.try_delete_share_group_offsets)
    delete_share_groups = _blocking(AsyncAdmin.delete_share_groups)
    try_delete_share_groups = _blocking(AsyncAdmin.try_delete_share_groups)
    describe_streams_groups = _blocking(AsyncAdmin.describe_streams_groups)
    try_describe_streams_groups = _blocking(AsyncAdmin.try_describe_streams_groups)
    list_streams_group_offsets = _blocking(AsyncAdmin.list_streams_group_offsets)
    try_list_streams_group_offsets = _blocking(AsyncAdmin.try_list_streams_group_offsets)
    alter_streams_group_offsets = _blocking(AsyncAdmin.alter_streams_group_offsets)
    try_alter_streams_group_offsets = _blocking(AsyncAdmin.try_alter_streams_group_offsets)
    delete_streams_group_offsets = _blocking(AsyncAdmin.delete_streams_group_offsets)
    try_delete_streams_group_offsets = _blocking(AsyncAdmin.try_delete_streams_group_offsets)
    delete_streams_groups = _blocking(AsyncAdmin.delete_streams_groups)
    try_delete_streams_groups = _blocking(AsyncAdmin.try_delete_streams_groups)

    # -- replicas --------------------------------------------------------------------------------------------------------------------------

    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    try_describe_log_dirs = _blocking(AsyncAdmin.try_describe_log_dirs)
    describe_replica_log_dirs = _blocking(AsyncAdmin.describe_replica_log_dirs)
    try_describe_replica_log_dirs = _blocking(AsyncAdmin.try_describe_replica_log_dirs)
    alter_replica_log_dirs = _blocking(AsyncAdmin.alter_replica_log_dirs)
    try_alter_replica_log_dirs = _blocking(AsyncAdmin.try_alter_replica_log_dirs)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    try_elect_leaders = _blocking(AsyncAdmin.try_elect_leaders)
    alter_partition_reassignments = _blocking(AsyncAdmin.alter_partition_reassignments)
    try_alter_partition_reassignments = _blocking(AsyncAdmin.try_alter_partition_reassignments)
    list_partition_reassignments = _blocking(AsyncAdmin.list_partition_reassignments)

    # -- transactions ----------------------------------------------------------------------------------------------------------------------

    describe_producers = _blocking(AsyncAdmin.describe_producers)
    try_describe_producers = _blocking(AsyncAdmin.try_describe_producers)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    try_describe_transactions = _blocking(AsyncAdmin.try_describe_transactions)
    list_transactions = _blocking(AsyncAdmin.list_transactions)
    try_list_transactions = _blocking(AsyncAdmin.try_list_transactions)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
    try_fence_producers = _blocking(AsyncAdmin.try_fence_producers)
    end_transactions = _blocking(AsyncAdmin.end_transactions)
    try_end_transactions = _blocking(AsyncAdmin.try_end_transactions)
    force_terminate_transaction = _blocking(AsyncAdmin.force_terminate_transaction)

    # -- the cluster -----------------------------------------------------------------------------------------------------------------------

    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    unregister_broker = _blocking(AsyncAdmin.unregister_broker)
    describe_features = _blocking(AsyncAdmin.describe_features)
    update_features = _blocking(AsyncAdmin.update_features)
    describe_metadata_quorum = _blocking(AsyncAdmin.describe_metadata_quorum)
    add_raft_voter = _blocking(AsyncAdmin.add_raft_voter)
    remove_raft_voter = _blocking(AsyncAdmin.remove_raft_voter)

    # -- security --------------------------------------------------------------------------------------------------------------------------

    describe_acls = _blocking(AsyncAdmin.describe_acls)
    create_acls = _blocking(AsyncAdmin.create_acls)
    try_create_acls = _blocking(AsyncAdmin.try_create_acls)
    delete_acls = _blocking(AsyncAdmin.delete_acls)
    try_delete_acls = _blocking(AsyncAdmin.try_delete_acls)
    describe_user_scram_credentials = _blocking(AsyncAdmin.describe_user_scram_credentials)
    try_describe_user_scram_credentials = _blocking(AsyncAdmin.try_describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AsyncAdmin.alter_user_scram_credentials)
    try_alter_user_scram_credentials = _blocking(AsyncAdmin.try_alter_user_scram_credentials)
    create_delegation_token = _blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = _blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = _blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_token = _blocking(AsyncAdmin.describe_delegation_token)
    describe_client_quotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdmin.alter_client_quotas)
    try_alter_client_quotas = _blocking(AsyncAdmin.try_alter_client_quotas)
