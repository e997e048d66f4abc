"""Table of the served APIs: key, versions, listener scopes and the deciding function of each. No other module declares APIs.

`Api(KEY, (first, last), ...)` declares where requests arrive and which function answers them. A module is imported with the first request
that needs it.

- `broker="data.produce"`: on broker listeners, the function `handle` of `odradek.handlers.data.produce`.
- `controller="cluster.vote"`: on controller listeners, likewise.
- `decided="topics:create_topics"`: on controller listeners, the function `create_topics` of `odradek.controller.core.topics`. The active
  controller runs it and responds when its records are committed. Other controllers answer NOT_CONTROLLER.
- `forwarded=True`: requests on broker listeners go to the active controller in an Envelope (KIP-590). Without `broker=` all of them do.
  With `broker=` that function decides what goes to the controller (`BrokerParts.forwarder`).

A module name may be followed by `:function` when the function is not `handle`. The functions are

    handle(context: RequestContext, request: ListOffsetsRequest, broker: BrokerParts) -> ListOffsetsResponse
    create_topics(context: ControllerContext, request: CreateTopicsRequest, version: int) -> ControllerResult[CreateTopicsResponse]

- `handle` returns the response, a `Deferred` of the response, or None when the protocol has no response (Produce with acks=0).
- Both functions may raise `KafkaError`. The module's `error_response(request, error)` then builds the response or, for a function of
  another name, `<function>_error`, such as `create_topics_error`. Without such a function the response's own `error_code` (and
  `error_message`) are set. A response without these fields needs the function.
- Any other exception is logged with its traceback and answered as UNKNOWN_SERVER_ERROR in the same way.

The docstring of the function or of its module lists ACL operations, quotas and known gaps. ApiVersions, the dispatcher, the Envelope and
the inter-broker channel are derived from this table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.protocol.api_keys import ApiKey


class ApiRange(NamedTuple):
    """Entry of ApiVersions; versions are inclusive."""

    api_key: int
    min_version: int
    max_version: int


class Decider(NamedTuple):
    """Name of the function that answers an API on one listener scope."""

    module: str
    function: str
    on_active_controller: bool
    """Whether the function is an operation of the controller's core instead of a handler."""

    @property
    def error_function(self) -> str:
        """Name of the optional function that builds the API's response to an error."""
        return "error_response" if self.function == "handle" else f"{self.function}_error"


def _handler(place: str) -> Decider:
    module, _, function = place.partition(":")
    return Decider(f"odradek.handlers.{module}", function or "handle", on_active_controller=False)


def _operation(place: str) -> Decider:
    module, _, function = place.partition(":")
    return Decider(f"odradek.controller.core.{module}", function, on_active_controller=True)


class Api:
    """Row of the table. Versions are inclusive."""

    __slots__ = ("advertised_from", "api_key", "deciders", "forwarded", "max_version", "min_version", "optional")

    def __init__(
        self,
        api_key: ApiKey,
        versions: tuple[int, int],
        *,
        broker: str = "",
        controller: str = "",
        decided: str = "",
        forwarded: bool = False,
        advertised_from: int | None = None,
        optional: bool = False,
    ) -> None:
        """Create a row; see the module docstring.

        `advertised_from` is the lowest version in ApiVersions, if lower than the lowest served one.
        ApiVersions lists an `optional` API only where the node is to serve it (`Dispatcher`). Elsewhere the API's handler refuses requests.
        """
        self.api_key = api_key
        self.optional = optional
        self.min_version, self.max_version = versions
        self.forwarded = forwarded
        self.advertised_from = self.min_version if advertised_from is None else advertised_from
        self.deciders: dict[str, Decider] = {}
        """Deciding function by listener scope. A missing scope forwards the API or does not serve it."""
        if broker:
            self.deciders[BROKER] = _handler(broker)
        if controller:
            self.deciders[CONTROLLER] = _handler(controller)
        if decided:
            self.deciders[CONTROLLER] = _operation(decided)

    def is_served_on(self, scope: str) -> bool:
        """Return whether requests of the API may arrive on listeners of the scope."""
        return scope in self.deciders or (scope == BROKER and self.forwarded)


APIS: Final[tuple[Api, ...]] = (
    Api(ApiKey.PRODUCE, (3, 13), broker="data.produce", advertised_from=0),
    Api(ApiKey.FETCH, (4, 18), broker="data.fetch", controller="cluster.raft_fetch"),
    Api(ApiKey.LIST_OFFSETS, (1, 11), broker="data.list_offsets"),
    Api(ApiKey.METADATA, (0, 13), broker="cluster.metadata"),
    Api(ApiKey.OFFSET_COMMIT, (2, 10), broker="group.offset_commit"),
    Api(ApiKey.OFFSET_FETCH, (1, 10), broker="group.offset_fetch"),
    Api(ApiKey.FIND_COORDINATOR, (0, 6), broker="group.find_coordinator"),
    Api(ApiKey.JOIN_GROUP, (0, 9), broker="group.join_group"),
    Api(ApiKey.HEARTBEAT, (0, 4), broker="group.heartbeat"),
    Api(ApiKey.LEAVE_GROUP, (0, 5), broker="group.leave_group"),
    Api(ApiKey.SYNC_GROUP, (0, 5), broker="group.sync_group"),
    Api(ApiKey.DESCRIBE_GROUPS, (0, 6), broker="group.describe_groups"),
    Api(ApiKey.LIST_GROUPS, (0, 5), broker="group.list_groups"),
    Api(ApiKey.SASL_HANDSHAKE, (0, 1), broker="security.sasl:handshake", controller="security.sasl:handshake"),
    Api(ApiKey.API_VERSIONS, (0, 4), broker="cluster.api_versions", controller="cluster.api_versions"),
    Api(ApiKey.CREATE_TOPICS, (2, 7), decided="topics:create_topics", forwarded=True),
    Api(ApiKey.DELETE_TOPICS, (1, 6), decided="topics:delete_topics", forwarded=True),
    Api(ApiKey.DELETE_RECORDS, (0, 2), broker="admin.delete_records"),
    Api(ApiKey.INIT_PRODUCER_ID, (0, 6), broker="transaction.init_producer_id"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), broker="data.offset_for_leader_epoch"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5), broker="transaction.add_partitions_to_txn"),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), broker="transaction.add_offsets_to_txn"),
    Api(ApiKey.END_TXN, (0, 5), broker="transaction.end_txn"),
    Api(ApiKey.WRITE_TXN_MARKERS, (1, 2), broker="transaction.write_txn_markers"),
    Api(ApiKey.TXN_OFFSET_COMMIT, (0, 5), broker="group.txn_offset_commit"),
    Api(ApiKey.DESCRIBE_ACLS, (1, 3), broker="security.acls:describe_acls", controller="security.acls:describe_acls"),
    Api(ApiKey.CREATE_ACLS, (1, 3), controller="security.acls:create_acls", forwarded=True),
    Api(ApiKey.DELETE_ACLS, (1, 3), controller="security.acls:delete_acls", forwarded=True),
    Api(ApiKey.DESCRIBE_CONFIGS, (1, 4), broker="admin.describe_configs", controller="admin.describe_configs"),
    Api(ApiKey.ALTER_CONFIGS, (0, 2), broker="admin.alter_configs", decided="configs:alter_configs", forwarded=True),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), broker="admin.alter_replica_log_dirs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), broker="admin.describe_log_dirs"),
    Api(ApiKey.SASL_AUTHENTICATE, (0, 2), broker="security.sasl:authenticate", controller="security.sasl:authenticate"),
    Api(ApiKey.CREATE_PARTITIONS, (0, 3), decided="topics:create_partitions", forwarded=True),
    Api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        (1, 3),
        broker="security.delegation_tokens:create",
        controller="security.delegation_tokens:create_on_controller",
        forwarded=True,
    ),
    Api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        (1, 2),
        broker="security.delegation_tokens:renew",
        controller="security.delegation_tokens:renew_on_controller",
        forwarded=True,
    ),
    Api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        (1, 2),
        broker="security.delegation_tokens:expire",
        controller="security.delegation_tokens:expire_on_controller",
        forwarded=True,
    ),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3), broker="security.delegation_tokens:describe"),
    Api(ApiKey.DELETE_GROUPS, (0, 2), broker="group.delete_groups"),
    Api(ApiKey.ELECT_LEADERS, (0, 2), decided="partitions:elect_leaders", forwarded=True),
    Api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        (0, 1),
        broker="admin.incremental_alter_configs",
        decided="configs:incremental_alter_configs",
        forwarded=True,
    ),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), decided="partitions:list_partition_reassignments", forwarded=True),
    Api(ApiKey.OFFSET_DELETE, (0, 0), broker="group.offset_delete"),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), broker="admin.describe_client_quotas"),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), decided="client_quotas:alter_client_quotas", forwarded=True),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), broker="security.describe_user_scram_credentials"),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), decided="scram:alter_user_scram_credentials", forwarded=True),
    Api(ApiKey.VOTE, (0, 2), controller="cluster.vote"),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, (0, 1), controller="cluster.begin_quorum_epoch"),
    Api(ApiKey.END_QUORUM_EPOCH, (0, 1), controller="cluster.end_quorum_epoch"),
    Api(ApiKey.DESCRIBE_QUORUM, (0, 2), controller="cluster.describe_quorum", forwarded=True),
    Api(ApiKey.ALTER_PARTITION, (2, 3), decided="partitions:alter_partition"),
    Api(ApiKey.UPDATE_FEATURES, (0, 2), decided="features:update_features", forwarded=True),
    Api(ApiKey.ENVELOPE, (0, 0), controller="cluster.envelope"),
    Api(ApiKey.FETCH_SNAPSHOT, (0, 1), controller="cluster.fetch_snapshot"),
    Api(ApiKey.DESCRIBE_CLUSTER, (0, 2), broker="cluster.describe_cluster", controller="cluster.describe_cluster"),
    Api(ApiKey.DESCRIBE_PRODUCERS, (0, 0), broker="transaction.describe_producers"),
    Api(ApiKey.BROKER_REGISTRATION, (0, 4), decided="brokers:register_broker"),
    Api(ApiKey.BROKER_HEARTBEAT, (0, 2), controller="cluster.broker_heartbeat"),
    Api(ApiKey.UNREGISTER_BROKER, (0, 0), decided="brokers:unregister_broker", forwarded=True),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), broker="transaction.describe_transactions"),
    Api(ApiKey.LIST_TRANSACTIONS, (0, 2), broker="transaction.list_transactions"),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0), decided="producer_ids:allocate_producer_ids"),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), broker="group.consumer_group_heartbeat"),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), broker="group.consumer_group_describe"),
    Api(ApiKey.CONTROLLER_REGISTRATION, (0, 0), decided="brokers:register_controller"),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, (0, 0), broker="telemetry.subscriptions", optional=True),
    Api(ApiKey.PUSH_TELEMETRY, (0, 0), broker="telemetry.push", optional=True),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, (0, 0), decided="partitions:assign_replicas_to_directories"),
    Api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), broker="admin.list_config_resources"),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), broker="cluster.describe_topic_partitions"),
)
"""Served APIs in the order of their keys."""
