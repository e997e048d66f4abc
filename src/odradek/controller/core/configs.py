"""Configuration of topics, brokers and groups (org.apache.kafka.controller.ConfigurationControlManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.config.broker import BROKER_CONFIG
from odradek.config.client_metrics import check_client_metrics
from odradek.config.definition import LIST, ConfigDef
from odradek.config.dynamic_broker import check_setting
from odradek.config.group import GROUP_CONFIG, check_group_overrides
from odradek.config.topic import TOPIC_CONFIG, check_topic_overrides
from odradek.controller.core.context import ControllerContext, check_size
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.metadata.topic_names import check_topic_name
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.metadata_records import ClearElrRecord, ConfigRecord
from odradek.security.resources import CLUSTER_NAME, ResourceType
from odradek.security.resources import Operation as AclOperation

Response = TypeVar("Response", AlterConfigsResponse, IncrementalAlterConfigsResponse)

MIN_INSYNC_REPLICAS = "min.insync.replicas"

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Codes of operations (org.apache.kafka.clients.admin.AlterConfigOp.OpType)."""
IMPLICIT_DELETE = 1000
"""Operation for a key that AlterConfigs leaves out. Clients cannot request it, because operations on the wire have one byte."""

_OPERATION_NAMES = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


_WITHOUT_LISTS = ConfigDef(())
"""Definition for client metrics. As in Kafka, controllers do not know the types of their keys and append to none."""

Resource = tuple[int, str]
"""Resource type and name."""


class Operation(NamedTuple):
    """Change of one key."""

    name: str
    operation: int
    value: str | None


def topic_creation_records(context: ControllerContext, topic: str, configs: Mapping[str, str]) -> list[VersionedRecord]:
    """Return the configuration records of a topic that is being created. Raises KafkaError INVALID_CONFIG for a bad key or value."""
    if not configs:
        return []
    try:
        check_topic_overrides(configs, context.config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    context.policies.check_configs(RESOURCE_TOPIC, topic, configs)
    return [_record(RESOURCE_TOPIC, topic, name, value) for name, value in configs.items()]


def incremental_alter_configs(
    context: ControllerContext, request: IncrementalAlterConfigsRequest, version: int
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """Set, delete, append to and subtract from configuration keys (IncrementalAlterConfigs, 44, KIP-339).

    Each resource succeeds or fails independently.
    The broker's checks before this, with ACL, quota and gaps, are in `handlers/admin/incremental_alter_configs.py`.
    """
    changes = [
        (
            (each.resource_type, each.resource_name),
            [Operation(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    return _alter(context, changes, IncrementalAlterConfigsResponse, validate_only=request.validate_only)


def alter_configs(context: ControllerContext, request: AlterConfigsRequest, version: int) -> ControllerResult[AlterConfigsResponse]:
    """Replace the configuration of each resource; keys that are not named return to their defaults (AlterConfigs, 33, KIP-133).

    The broker's checks before this, with ACL, quota and gaps, are in `handlers/admin/alter_configs.py`.
    """
    changes: list[tuple[Resource, list[Operation]]] = []
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        named = {config.name for config in each.configs}
        operations = [Operation(config.name, SET, config.value) for config in each.configs]
        operations += [Operation(name, IMPLICIT_DELETE, None) for name in context.state.configs.get(resource) or {} if name not in named]
        changes.append((resource, operations))
    return _alter(context, changes, AlterConfigsResponse, validate_only=request.validate_only)


def _alter(
    context: ControllerContext, changes: list[tuple[Resource, list[Operation]]], response: type[Response], *, validate_only: bool
) -> ControllerResult[Response]:
    """Alter the resources. A resource that is named twice gets one INVALID_REQUEST (kafka.server.ControllerApis)."""
    records: list[VersionedRecord] = []
    answer = response()
    times = Counter(resource for resource, _ in changes)
    for resource, operations in dict(changes).items():
        if times[resource] > 1:
            error: KafkaError | None = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            error = _apply(context, records, *resource, operations)
        row = response.AlterConfigsResourceResponse(resource_type=resource[0], resource_name=resource[1])
        row.error_code, row.error_message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
        answer.responses.append(row)  # pyright: ignore[reportArgumentType] - each response has rows of its own class
    if validate_only:
        return ControllerResult([], answer, atomic=True)
    return ControllerResult(records + _clear_elr_records(context, records), answer, atomic=True)


def _clear_elr_records(context: ControllerContext, records: list[VersionedRecord]) -> list[VersionedRecord]:
    """Return the records that clear the eligible leader replicas of topics whose min.insync.replicas changes (KIP-966).

    Under another min.insync.replicas it is unknown which replicas have all committed records.
    """
    if not context.state.elr_enabled:
        return []
    cleared: list[VersionedRecord] = []
    for record, _ in records:
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS:
            topic = record.resource_name if record.resource_type == RESOURCE_TOPIC else ""
            cleared.append(VersionedRecord(ClearElrRecord(topic_name=topic), 0))
    return cleared


def incremental_alter_configs_error(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """Return a response with `error` for every resource of the request."""
    return _refusal(request, error, IncrementalAlterConfigsResponse)


def alter_configs_error(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """Return a response with `error` for every resource of the request."""
    return _refusal(request, error, AlterConfigsResponse)


def _refusal(request: AlterConfigsRequest | IncrementalAlterConfigsRequest, error: KafkaError, response: type[Response]) -> Response:
    answer = response()
    for each in request.resources:
        row = response.AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
        row.error_code, row.error_message = error.code, error.message
        answer.responses.append(row)  # pyright: ignore[reportArgumentType] - each response has rows of its own class
    return answer


def _apply(
    context: ControllerContext, records: list[VersionedRecord], resource_type: int, resource_name: str, operations: list[Operation]
) -> KafkaError | None:
    try:
        _check_access(context, resource_type, resource_name)
        check_size(len(records) + len(operations))
        records += _resource_records(context, resource_type, resource_name, operations)
    except KafkaError as error:
        return error
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _check_access(context: ControllerContext, resource_type: int, resource_name: str) -> None:
    """Raise KafkaError when the client may not alter the resource's configuration."""
    if resource_type == RESOURCE_TOPIC:
        kind, code = ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource_type == RESOURCE_GROUP:
        kind, code = ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        kind, code, resource_name = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, CLUSTER_NAME
    if not context.allows(AclOperation.ALTER_CONFIGS, kind, resource_name):
        raise KafkaError(code, f"{kind.name.capitalize()} authorization failed.")


def _resource_records(
    context: ControllerContext, resource_type: int, resource_name: str, operations: list[Operation]
) -> list[VersionedRecord]:
    definition = _definition(resource_type)
    _check_name(resource_type, resource_name)
    names = [operation.name for operation in operations]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A key is named more than once for {resource_name}")
    current = context.state.configs.get((resource_type, resource_name)) or {}
    wanted = dict(current)
    records: list[VersionedRecord] = []
    changed: dict[str, str | None] = {}
    for operation in operations:
        value = None if operation.operation == IMPLICIT_DELETE else new_value(definition, current, operation)
        if operation.name == MIN_INSYNC_REPLICAS and resource_type == RESOURCE_BROKER and context.state.elr_enabled:
            _check_min_isr_of_brokers(resource_name, value)
        if value is None:
            wanted.pop(operation.name, None)
        else:
            wanted[operation.name] = value
        # Brokers reload the target of a key (a key store) when the key is set again to the same value.
        if value != current.get(operation.name) or resource_type == RESOURCE_BROKER:
            records.append(_record(resource_type, resource_name, operation.name, value))
            if operation.operation != IMPLICIT_DELETE:
                changed[operation.name] = value
    if resource_type == RESOURCE_TOPIC:
        check_topic_overrides(wanted, context.config)
    elif resource_type == RESOURCE_GROUP:
        check_group_overrides(wanted, context.config)
    elif resource_type == RESOURCE_CLIENT_METRICS:
        check_client_metrics(wanted)
    else:
        for operation in operations:
            # Check only changed keys. Keys that were set before may belong to another implementation.
            if operation.name in wanted:
                check_setting(operation.name, wanted[operation.name], follows=True)
    _check_existence(context, resource_type, resource_name)
    context.policies.check_configs(resource_type, resource_name, changed)
    return records


def _check_min_isr_of_brokers(resource_name: str, value: str | None) -> None:
    """Raise KafkaError INVALID_CONFIG for a change of brokers' min.insync.replicas other than a new value for the whole cluster.

    Eligible leader replicas need one value that the controller and all brokers see (KIP-966).
    """
    if resource_name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.")
    if value is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.")


def _definition(resource_type: int) -> ConfigDef:
    if resource_type == RESOURCE_TOPIC:
        return TOPIC_CONFIG
    if resource_type == RESOURCE_BROKER:
        return BROKER_CONFIG
    if resource_type == RESOURCE_GROUP:
        return GROUP_CONFIG
    if resource_type == RESOURCE_CLIENT_METRICS:
        return _WITHOUT_LISTS
    code = ErrorCode.INVALID_REQUEST if resource_type == RESOURCE_BROKER_LOGGER else ErrorCode.UNSUPPORTED_VERSION
    raise KafkaError(code, f"Configuration of resource type {resource_type} is not supported by controllers")


def _check_name(resource_type: int, resource_name: str) -> None:
    if resource_type == RESOURCE_TOPIC:
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(resource_name)
    elif resource_type == RESOURCE_GROUP:
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif resource_type == RESOURCE_CLIENT_METRICS:
        if not resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    elif resource_name and (not resource_name.isdecimal() or str(int(resource_name)) != resource_name):
        # Brokers look up their keys only under the plain spelling of their number.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unable to parse broker name as a base 10 number: {resource_name}")


def _check_existence(context: ControllerContext, resource_type: int, resource_name: str) -> None:
    if resource_type == RESOURCE_TOPIC:
        if resource_name not in context.state.topic_ids:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource_name}' does not exist.")
    elif resource_type in (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS) or not resource_name:
        # A group may be configured before it exists; a subscription exists once it is configured.
        return
    elif int(resource_name) not in context.state.brokers and int(resource_name) not in context.state.controllers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {resource_name} found.")


def new_value(definition: ConfigDef, current: Mapping[str, str], operation: Operation) -> str | None:
    """Return the new value of a key, or None for its default.

    Raises KafkaError for an unknown operation or one that does not fit the key.
    """
    if operation.operation == DELETE:
        return None
    if operation.operation not in _OPERATION_NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation.operation} for {operation.name}")
    if operation.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {operation.name}")
    if operation.operation == SET:
        return operation.value
    verb = _OPERATION_NAMES[operation.operation]
    if operation.name not in definition or definition[operation.name].type is not LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {operation.name} because its type is not LIST.")
    before = current.get(operation.name)
    if before is None:
        before = definition[operation.name].default or ""
    items = [item for item in before.split(",") if item]
    for item in operation.value.split(","):
        if operation.operation == APPEND:
            if item not in items:
                items.append(item)
        elif item in items:
            items.remove(item)
    return ",".join(items)


def _record(resource_type: int, resource_name: str, name: str, value: str | None) -> VersionedRecord:
    return VersionedRecord(ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value), 0)
