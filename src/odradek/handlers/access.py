"""Table of the access checks of each API (kafka.server.KafkaApis, ControllerApis, ConfigHelper). No other module declares checks.

A `Check` is one permission that a client needs: an operation on a kind of resource, and the error for a client without it. The `Access` of
an API on a listener scope has three parts:

- `required` applies to the whole request. The dispatcher makes these checks before it calls the handler, or before the controller runs the
  operation. A client that fails one gets the error in the API's own shape.
- `asked` are checks that the handler makes for the names in a request: `context.allows(check, name)`, `context.denied(check, names)`. An
  operation of the controller's core calls `context.allows(operation, resource, name)`, which must match one of these checks.
- `free` gives the reason why an API needs no check.

Of checks with the same `alternative` a client needs only one. A denied `quiet` check writes no line in the audit log, because the client
gets no error either. Such a resource is left out of a list, or another alternative is checked next. With error NONE the client gets no
error and sees less.

For a request that a broker forwards, the controller makes the checks, for the client's principal in the envelope.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.protocol.api_keys import ApiKey
from odradek.security.resources import Operation, ResourceType

ERRORS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""Error of a check by resource type, unless the check has its own (org.apache.kafka.security.authorizer.AclEntry.authorizationError)."""


class Check(NamedTuple):
    """Permission that a client needs."""

    operation: Operation
    resource: ResourceType
    error: ErrorCode
    """Error for a client without the permission; NONE when the resource is left out instead."""
    quiet: bool = False
    alternative: str = ""
    explained: bool = False
    """Whether the error's text names the needed operation, if the API has a field for it."""


class Access(NamedTuple):
    """Checks of an API on a listener scope; see the module docstring."""

    required: tuple[Check, ...] = ()
    asked: tuple[Check, ...] = ()
    free: str = ""

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.required + self.asked


def _check(
    operation: Operation, resource: ResourceType, error: ErrorCode | None = None, *, quiet: bool = False, alternative: str = ""
) -> Check:
    return Check(operation, resource, ERRORS[resource] if error is None else error, quiet, alternative)


def _cluster(operation: Operation, *, explained: bool = True) -> Access:
    """Return an access that checks Cluster for the whole request."""
    check = _check(operation, ResourceType.CLUSTER)
    return Access(required=(check._replace(explained=explained),))


_NONE = ErrorCode.NONE
_READ, _WRITE, _CREATE, _DELETE, _ALTER = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER
_DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_CLUSTER_ACTION = Operation.CLUSTER_ACTION
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID

# -- checks of handlers --------------------------------------------------------------------------------------------------------------------

PRODUCE_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
PRODUCE_TOPIC = _check(_WRITE, _TOPIC)
FETCH_AS_FOLLOWER = _check(_CLUSTER_ACTION, _CLUSTER, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
FETCH_TOPIC = _check(_READ, _TOPIC)
LIST_OFFSETS_TOPIC = _check(_DESCRIBE, _TOPIC)
METADATA_TOPIC = _check(_DESCRIBE, _TOPIC)
METADATA_ANY_TOPIC = METADATA_TOPIC._replace(error=_NONE, quiet=True)
METADATA_CREATION = _check(_CREATE, _CLUSTER, _NONE, quiet=True, alternative="create")
METADATA_TOPIC_CREATION = _check(_CREATE, _TOPIC, alternative="create")
METADATA_CLUSTER = _check(_DESCRIBE, _CLUSTER, _NONE)
OFFSET_COMMIT_GROUP = _check(_READ, _GROUP)
OFFSET_COMMIT_TOPIC = _check(_READ, _TOPIC)
OFFSET_FETCH_GROUP = _check(_DESCRIBE, _GROUP)
OFFSET_FETCH_TOPIC = _check(_DESCRIBE, _TOPIC)
OFFSET_FETCH_ANY_TOPIC = OFFSET_FETCH_TOPIC._replace(error=_NONE)
FIND_GROUP_COORDINATOR = _check(_DESCRIBE, _GROUP)
FIND_TRANSACTION_COORDINATOR = _check(_DESCRIBE, _TRANSACTIONAL_ID)
FIND_SHARE_COORDINATOR = _check(_CLUSTER_ACTION, _CLUSTER)._replace(explained=True)
JOIN_GROUP = _check(_READ, _GROUP)
JOIN_GROUP_MATCH = _check(_DESCRIBE, _TOPIC, _NONE, quiet=True)
HEARTBEAT = _check(_READ, _GROUP)
LEAVE_GROUP = _check(_READ, _GROUP)
SYNC_GROUP = _check(_READ, _GROUP)
DESCRIBE_GROUP = _check(_DESCRIBE, _GROUP)
LIST_ALL_GROUPS = _check(_DESCRIBE, _CLUSTER, _NONE, quiet=True, alternative="list")
LIST_GROUP = _check(_DESCRIBE, _GROUP, _NONE, quiet=True, alternative="list")
CREATE_TOPICS = _check(_CREATE, _CLUSTER, _NONE, quiet=True, alternative="create")
CREATE_TOPIC = _check(_CREATE, _TOPIC, alternative="create")
CREATE_TOPIC_CONFIGS = _check(_DESCRIBE_CONFIGS, _TOPIC, quiet=True)
DELETE_TOPICS = _check(_DELETE, _CLUSTER, _NONE, quiet=True, alternative="delete")
DELETE_TOPIC = _check(_DELETE, _TOPIC, alternative="delete")
DELETE_TOPIC_NAME = _check(_DESCRIBE, _TOPIC)
DELETE_RECORDS = _check(_DELETE, _TOPIC)
INIT_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
INIT_TWO_PHASE_COMMIT = _check(Operation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID)
INIT_IDEMPOTENCE = _check(Operation.IDEMPOTENT_WRITE, _CLUSTER, _NONE, quiet=True, alternative="idempotence")
INIT_ANY_TOPIC = _check(_WRITE, _TOPIC, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, quiet=True, alternative="idempotence")
EPOCHS_AS_FOLLOWER = _check(_CLUSTER_ACTION, _CLUSTER, _NONE, quiet=True, alternative="follow")
EPOCHS_TOPIC = _check(_DESCRIBE, _TOPIC, alternative="follow")
ADD_PARTITIONS_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
ADD_PARTITIONS_TOPIC = _check(_WRITE, _TOPIC)
ADD_PARTITIONS_AS_BROKER = _check(_CLUSTER_ACTION, _CLUSTER)._replace(explained=True)
ADD_OFFSETS_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
ADD_OFFSETS_GROUP = _check(_READ, _GROUP)
END_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
WRITE_MARKERS_AS_ADMIN = _check(_ALTER, _CLUSTER, _NONE, quiet=True, alternative="markers")
WRITE_MARKERS_AS_BROKER = _check(_CLUSTER_ACTION, _CLUSTER, alternative="markers")._replace(explained=True)
TXN_OFFSETS_TRANSACTION = _check(_WRITE, _TRANSACTIONAL_ID)
TXN_OFFSETS_GROUP = _check(_READ, _GROUP)
TXN_OFFSETS_TOPIC = _check(_READ, _TOPIC)
DESCRIBE_CLUSTER_CONFIGS = _check(_DESCRIBE_CONFIGS, _CLUSTER)
DESCRIBE_TOPIC_CONFIGS = _check(_DESCRIBE_CONFIGS, _TOPIC)
DESCRIBE_GROUP_CONFIGS = _check(_DESCRIBE_CONFIGS, _GROUP)
ALTER_CLUSTER_CONFIGS = _check(_ALTER_CONFIGS, _CLUSTER)
ALTER_TOPIC_CONFIGS = _check(_ALTER_CONFIGS, _TOPIC)
ALTER_GROUP_CONFIGS = _check(_ALTER_CONFIGS, _GROUP)
INCREMENTAL_CLUSTER_CONFIGS = _check(_ALTER_CONFIGS, _CLUSTER)
INCREMENTAL_TOPIC_CONFIGS = _check(_ALTER_CONFIGS, _TOPIC)
INCREMENTAL_GROUP_CONFIGS = _check(_ALTER_CONFIGS, _GROUP)
ALTER_LOGGERS = _check(_ALTER_CONFIGS, _CLUSTER)
CREATE_PARTITIONS = _check(_ALTER, _TOPIC)
CREATE_TOKEN_FOR = _check(Operation.CREATE_TOKENS, ResourceType.USER)
DESCRIBE_TOKEN = _check(_DESCRIBE, ResourceType.DELEGATION_TOKEN, _NONE, alternative="token")
DESCRIBE_TOKENS_OF = _check(Operation.DESCRIBE_TOKENS, ResourceType.USER, _NONE, alternative="token")
DELETE_GROUP = _check(_DELETE, _GROUP)
DELETE_OFFSETS_GROUP = _check(_DELETE, _GROUP)
DELETE_OFFSETS_TOPIC = _check(_READ, _TOPIC)
CLUSTER_DESCRIPTION = _check(_DESCRIBE, _CLUSTER, _NONE)
DESCRIBE_PRODUCERS = _check(_READ, _TOPIC)
DESCRIBE_TRANSACTION = _check(_DESCRIBE, _TRANSACTIONAL_ID)
DESCRIBE_TRANSACTION_TOPIC = _check(_DESCRIBE, _TOPIC, _NONE)
LIST_TRANSACTION = _check(_DESCRIBE, _TRANSACTIONAL_ID, _NONE)
CONSUMER_HEARTBEAT_GROUP = _check(_READ, _GROUP)
CONSUMER_HEARTBEAT_TOPIC = _check(_DESCRIBE, _TOPIC)
CONSUMER_HEARTBEAT_MATCH = CONSUMER_HEARTBEAT_TOPIC._replace(error=_NONE, quiet=True)
CONSUMER_DESCRIBE_GROUP = _check(_DESCRIBE, _GROUP)
CONSUMER_DESCRIBE_TOPIC = _check(_DESCRIBE, _TOPIC)
TOPIC_PARTITIONS = _check(_DESCRIBE, _TOPIC)

# -- the table -----------------------------------------------------------------------------------------------------------------------------

_DESCRIBE_CONFIGS_ACCESS = Access(asked=(DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_TOPIC_CONFIGS, DESCRIBE_GROUP_CONFIGS))
_TOKEN_HOLDERS = Access(free="the owner and the renewers of a token need no ACL for it; no other principal may use it")
_BEFORE_AUTHENTICATION = Access(free="it precedes or belongs to authentication")

_TELEMETRY = Access(free="a client that may connect may be asked for its metrics, and push them")

ACCESS: Final[dict[str, dict[ApiKey, Access]]] = {
    BROKER: {
        ApiKey.PRODUCE: Access(asked=(PRODUCE_TRANSACTION, PRODUCE_TOPIC)),
        ApiKey.FETCH: Access(asked=(FETCH_AS_FOLLOWER, FETCH_TOPIC)),
        ApiKey.LIST_OFFSETS: Access(asked=(LIST_OFFSETS_TOPIC,)),
        ApiKey.METADATA: Access(asked=(METADATA_TOPIC, METADATA_ANY_TOPIC, METADATA_CREATION, METADATA_TOPIC_CREATION, METADATA_CLUSTER)),
        ApiKey.OFFSET_COMMIT: Access(asked=(OFFSET_COMMIT_GROUP, OFFSET_COMMIT_TOPIC)),
        ApiKey.OFFSET_FETCH: Access(asked=(OFFSET_FETCH_GROUP, OFFSET_FETCH_TOPIC, OFFSET_FETCH_ANY_TOPIC)),
        ApiKey.FIND_COORDINATOR: Access(asked=(FIND_GROUP_COORDINATOR, FIND_TRANSACTION_COORDINATOR, FIND_SHARE_COORDINATOR)),
        ApiKey.JOIN_GROUP: Access(asked=(JOIN_GROUP, JOIN_GROUP_MATCH)),
        ApiKey.HEARTBEAT: Access(asked=(HEARTBEAT,)),
        ApiKey.LEAVE_GROUP: Access(asked=(LEAVE_GROUP,)),
        ApiKey.SYNC_GROUP: Access(asked=(SYNC_GROUP,)),
        ApiKey.DESCRIBE_GROUPS: Access(asked=(DESCRIBE_GROUP,)),
        ApiKey.LIST_GROUPS: Access(asked=(LIST_ALL_GROUPS, LIST_GROUP)),
        ApiKey.SASL_HANDSHAKE: _BEFORE_AUTHENTICATION,
        ApiKey.API_VERSIONS: _BEFORE_AUTHENTICATION,
        ApiKey.DELETE_RECORDS: Access(asked=(DELETE_RECORDS,)),
        ApiKey.INIT_PRODUCER_ID: Access(asked=(INIT_TRANSACTION, INIT_TWO_PHASE_COMMIT, INIT_IDEMPOTENCE, INIT_ANY_TOPIC)),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: Access(asked=(EPOCHS_AS_FOLLOWER, EPOCHS_TOPIC)),
        ApiKey.ADD_PARTITIONS_TO_TXN: Access(asked=(ADD_PARTITIONS_TRANSACTION, ADD_PARTITIONS_TOPIC, ADD_PARTITIONS_AS_BROKER)),
        ApiKey.ADD_OFFSETS_TO_TXN: Access(asked=(ADD_OFFSETS_TRANSACTION, ADD_OFFSETS_GROUP)),
        ApiKey.END_TXN: Access(asked=(END_TRANSACTION,)),
        ApiKey.WRITE_TXN_MARKERS: Access(asked=(WRITE_MARKERS_AS_ADMIN, WRITE_MARKERS_AS_BROKER)),
        ApiKey.TXN_OFFSET_COMMIT: Access(asked=(TXN_OFFSETS_TRANSACTION, TXN_OFFSETS_GROUP, TXN_OFFSETS_TOPIC)),
        ApiKey.DESCRIBE_ACLS: _cluster(_DESCRIBE),
        ApiKey.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS_ACCESS,
        ApiKey.ALTER_CONFIGS: Access(free="the controller decides about the requests that this broker forwards"),
        ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(_ALTER, explained=False),
        ApiKey.DESCRIBE_LOG_DIRS: _cluster(_DESCRIBE, explained=False),
        ApiKey.SASL_AUTHENTICATE: _BEFORE_AUTHENTICATION,
        ApiKey.CREATE_DELEGATION_TOKEN: Access(asked=(CREATE_TOKEN_FOR,)),
        ApiKey.RENEW_DELEGATION_TOKEN: _TOKEN_HOLDERS,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKEN_HOLDERS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: Access(asked=(DESCRIBE_TOKEN, DESCRIBE_TOKENS_OF)),
        ApiKey.DELETE_GROUPS: Access(asked=(DELETE_GROUP,)),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Access(asked=(ALTER_LOGGERS,)),
        ApiKey.OFFSET_DELETE: Access(asked=(DELETE_OFFSETS_GROUP, DELETE_OFFSETS_TOPIC)),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(_DESCRIBE_CONFIGS, explained=False),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(_DESCRIBE, explained=False),
        ApiKey.DESCRIBE_CLUSTER: Access(asked=(CLUSTER_DESCRIPTION,)),
        ApiKey.DESCRIBE_PRODUCERS: Access(asked=(DESCRIBE_PRODUCERS,)),
        ApiKey.DESCRIBE_TRANSACTIONS: Access(asked=(DESCRIBE_TRANSACTION, DESCRIBE_TRANSACTION_TOPIC)),
        ApiKey.LIST_TRANSACTIONS: Access(asked=(LIST_TRANSACTION,)),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: Access(asked=(CONSUMER_HEARTBEAT_GROUP, CONSUMER_HEARTBEAT_TOPIC, CONSUMER_HEARTBEAT_MATCH)),
        ApiKey.CONSUMER_GROUP_DESCRIBE: Access(asked=(CONSUMER_DESCRIBE_GROUP, CONSUMER_DESCRIBE_TOPIC)),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _TELEMETRY,
        ApiKey.PUSH_TELEMETRY: _TELEMETRY,
        ApiKey.LIST_CONFIG_RESOURCES: _cluster(_DESCRIBE_CONFIGS, explained=False),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: Access(asked=(TOPIC_PARTITIONS,)),
    },
    CONTROLLER: {
        ApiKey.FETCH: _cluster(_CLUSTER_ACTION),
        ApiKey.SASL_HANDSHAKE: _BEFORE_AUTHENTICATION,
        ApiKey.API_VERSIONS: _BEFORE_AUTHENTICATION,
        ApiKey.CREATE_TOPICS: Access(asked=(CREATE_TOPICS, CREATE_TOPIC, CREATE_TOPIC_CONFIGS)),
        ApiKey.DELETE_TOPICS: Access(asked=(DELETE_TOPICS, DELETE_TOPIC, DELETE_TOPIC_NAME)),
        ApiKey.DESCRIBE_ACLS: _cluster(_DESCRIBE),
        ApiKey.CREATE_ACLS: _cluster(_ALTER),
        ApiKey.DELETE_ACLS: _cluster(_ALTER),
        ApiKey.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS_ACCESS,
        ApiKey.ALTER_CONFIGS: Access(asked=(ALTER_CLUSTER_CONFIGS, ALTER_TOPIC_CONFIGS, ALTER_GROUP_CONFIGS)),
        ApiKey.SASL_AUTHENTICATE: _BEFORE_AUTHENTICATION,
        ApiKey.CREATE_PARTITIONS: Access(asked=(CREATE_PARTITIONS,)),
        ApiKey.CREATE_DELEGATION_TOKEN: Access(asked=(CREATE_TOKEN_FOR,)),
        ApiKey.RENEW_DELEGATION_TOKEN: _TOKEN_HOLDERS,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKEN_HOLDERS,
        ApiKey.ELECT_LEADERS: _cluster(_ALTER),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: Access(asked=(INCREMENTAL_CLUSTER_CONFIGS, INCREMENTAL_TOPIC_CONFIGS, INCREMENTAL_GROUP_CONFIGS)),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(_ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(_DESCRIBE),
        ApiKey.ALTER_CLIENT_QUOTAS: _cluster(_ALTER_CONFIGS),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(_ALTER),
        ApiKey.VOTE: _cluster(_CLUSTER_ACTION),
        ApiKey.BEGIN_QUORUM_EPOCH: _cluster(_CLUSTER_ACTION),
        ApiKey.END_QUORUM_EPOCH: _cluster(_CLUSTER_ACTION),
        ApiKey.DESCRIBE_QUORUM: _cluster(_DESCRIBE),
        ApiKey.ALTER_PARTITION: _cluster(_CLUSTER_ACTION),
        ApiKey.UPDATE_FEATURES: _cluster(_ALTER),
        ApiKey.ENVELOPE: _cluster(_CLUSTER_ACTION),
        ApiKey.FETCH_SNAPSHOT: _cluster(_CLUSTER_ACTION),
        ApiKey.DESCRIBE_CLUSTER: _cluster(_ALTER),
        ApiKey.BROKER_REGISTRATION: _cluster(_CLUSTER_ACTION),
        ApiKey.BROKER_HEARTBEAT: _cluster(_CLUSTER_ACTION),
        ApiKey.UNREGISTER_BROKER: _cluster(_ALTER),
        ApiKey.ALLOCATE_PRODUCER_IDS: _cluster(_CLUSTER_ACTION),
        ApiKey.CONTROLLER_REGISTRATION: _cluster(_CLUSTER_ACTION),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _cluster(_CLUSTER_ACTION),
        ApiKey.ADD_RAFT_VOTER: _cluster(_ALTER),
        ApiKey.REMOVE_RAFT_VOTER: _cluster(_ALTER),
        ApiKey.UPDATE_RAFT_VOTER: _cluster(_CLUSTER_ACTION),
    },
}
"""Checks by listener scope and API, in the order of the API keys. APIs that are missing in `handlers.table` are not supported yet."""


def required(scope: str, api_key: int) -> tuple[Check, ...]:
    """Return the checks of a whole request."""
    return ACCESS[scope][ApiKey(api_key)].required


def declared(scope: str, api_key: int, operation: Operation, resource: ResourceType) -> Check:
    """Return the API's check of this operation and resource type. Raises KeyError when the API declares none."""
    for check in ACCESS[scope][ApiKey(api_key)].asked:
        if check.operation is operation and check.resource is resource:
            return check
    raise KeyError(f"{ApiKey(api_key).name} does not declare {operation.name} on {resource.name}")


AUTHORIZED_OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    _TOPIC: (_READ, _WRITE, _CREATE, _DESCRIBE, _DELETE, _ALTER, _DESCRIBE_CONFIGS, _ALTER_CONFIGS),
    _GROUP: (_READ, _DESCRIBE, _DELETE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS),
    _CLUSTER: (_CREATE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE, _ALTER, _DESCRIBE),
}
"""Operations that exist for a resource type, for the authorized-operations fields of responses (AclEntry.supportedOperations, KIP-430)."""
