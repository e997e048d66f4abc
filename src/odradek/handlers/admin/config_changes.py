"""AlterConfigs and IncrementalAlterConfigs on a broker (kafka.server.ConfigAdminManager).

1. This broker refuses resources and keys that are named twice, and null values.
2. The broker that a change of broker keys is for checks the values, because only that broker knows its configuration file. Before that it
   refuses clients that may not alter the cluster's configuration. A check may open a file that the value names, follow a reference or
   compile an expression. The response must not reveal what the check found. (Kafka's broker checks the values first.) The check runs in a
   thread, since a file may be slow.
3. The other changes go to the controller, which authorizes each resource. The responses are put in the order of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.config.broker import BROKER_CONFIG
from odradek.controller.core.configs import DELETE, Operation, new_value
from odradek.handlers.access import ALTER_CLUSTER_CONFIGS, ALTER_LOGGERS
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts, Services
    from odradek.protocol.schema import Message

Request = AlterConfigsRequest | IncrementalAlterConfigsRequest
Response = TypeVar("Response", AlterConfigsResponse, IncrementalAlterConfigsResponse)
Outcomes = dict[tuple[int, str], tuple[int, str | None]]
"""Error code and message by (type, name) of a resource."""

_INTEGER = re.compile(r"[+-]?\d{1,10}")
"""Form of a text that Java parses as an int. The range is not checked."""


class Change:
    """Requested change of one resource. `error` is set when this broker refuses the change, `done` when this broker has made it."""

    __slots__ = ("done", "error", "name", "operations", "type")

    def __init__(self, type: int, name: str, operations: Sequence[Operation]) -> None:
        self.type = type
        self.name = name
        self.operations = operations
        self.error: KafkaError | None = None
        self.done = False

    @property
    def open(self) -> bool:
        """Return whether the controller has to decide the change."""
        return self.error is None and not self.done


def check_changes(changes: Sequence[Change], check: Callable[[Change], None]) -> None:
    """Mark the changes that this broker refuses. `check` raises KafkaError for a single change, and reads no values.

    `judge_values` comes next.
    """
    seen: dict[tuple[int, str], Change] = {}
    for change in changes:
        first = seen.setdefault((change.type, change.name), change)
        if first is not change:
            first.error = change.error = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    for change in changes:
        if change.error is None:
            try:
                _check_form(change)
                check(change)
            except KafkaError as error:
                change.error = error


def _check_form(change: Change) -> None:
    names = [operation.name for operation in change.operations]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [operation.name for operation in change.operations if operation.value is None and operation.operation != DELETE]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def check_resource_type(change: Change) -> None:
    """Raise KafkaError INVALID_REQUEST for a resource type that the controller does not know."""
    if change.type not in (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {change.type}")


def check_node_id(change: Change, node_id: int) -> None:
    """Raise KafkaError INVALID_REQUEST when the resource is not this node."""
    if _INTEGER.fullmatch(change.name) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {change.name}")
    if int(change.name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {change.name}")


def check_broker(change: Change, context: RequestContext) -> None:
    """Raise KafkaError for a change of broker keys that the client may not make or that is for another broker."""
    if not context.allows(ALTER_LOGGERS if context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS else ALTER_CLUSTER_CONFIGS):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if change.name:
        check_node_id(change, context.services.node_id)


def judge_values(changes: Sequence[Change], services: Services, *, replace: bool) -> Deferred[None]:
    """Mark, among the open changes of broker keys, those with values that this broker cannot apply.

    With `replace` keys that are not named return to their defaults.
    """
    wanted: list[tuple[Change, dict[str, str]]] = []
    for change in changes:
        if change.open and change.type == RESOURCE_BROKER:
            try:
                wanted.append((change, _settings(change, services.dynamic_config, replace=replace)))
            except KafkaError as error:
                change.error = error
    if not wanted:
        return Deferred.of(None)
    return services.jobs.apart(lambda: _judge(wanted, services.dynamic_config))


def _settings(change: Change, dynamic: DynamicBrokerConfig, *, replace: bool) -> dict[str, str]:
    """Return the resulting settings of this broker, or of all brokers, after the change."""
    settings: Mapping[str, str] = {} if replace else dynamic.node if change.name else dynamic.cluster
    wanted = dict(settings)
    for operation in change.operations:
        value = new_value(BROKER_CONFIG, settings, operation)
        if value is None:
            wanted.pop(operation.name, None)
        else:
            wanted[operation.name] = value
    return wanted


def _judge(wanted: Sequence[tuple[Change, Mapping[str, str]]], dynamic: DynamicBrokerConfig) -> None:
    """Run `DynamicBrokerConfig.check`, which opens files, in a thread."""
    for change, settings in wanted:
        try:
            dynamic.check(settings, for_node=bool(change.name))
        except ConfigError as error:
            change.error = KafkaError(ErrorCode.INVALID_REQUEST, str(error))


def answer_changes(
    context: RequestContext,
    broker: BrokerParts,
    request: Request,
    changes: Sequence[Change],
    judged: Deferred[None],
    response: type[Response],
) -> Response | Deferred[Response]:
    """Return the response to `changes`, those of `request`, once they are judged. The controller decides the open ones."""
    if judged.done:
        judged.result()
        return _ask_controller(context, broker, request, changes, response)
    answer: Deferred[Response] = Deferred()

    def go_on(done: Deferred[None]) -> None:
        if done.error is not None:
            answer.fail(done.error)
            return
        asked = _ask_controller(context, broker, request, changes, response)
        if isinstance(asked, Deferred):
            asked.into(answer)
        else:
            answer.complete(asked)

    judged.add_callback(go_on)
    return answer


def _ask_controller(
    context: RequestContext, broker: BrokerParts, request: Request, changes: Sequence[Change], response: type[Response]
) -> Response | Deferred[Response]:
    left: list[Any] = [resource for resource, change in zip(request.resources, changes, strict=True) if change.open]
    rest = type(request)(resources=left, validate_only=request.validate_only)
    if not left:
        return _respond(changes, {}, response)

    def answered(message: Message) -> Response:
        outcomes: Outcomes = {}
        for each in cast(Response, message).responses:
            outcomes[each.resource_type, each.resource_name] = each.error_code, each.error_message
        return _respond(changes, outcomes, response)

    def failed(problem: BaseException) -> Response:
        error = problem if isinstance(problem, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes: Outcomes = {(each.resource_type, each.resource_name): (error.code, error.message) for each in rest.resources}
        return _respond(changes, outcomes, response)

    return broker.forwarder.ask(context, rest).then(answered, failed)


def _respond(changes: Sequence[Change], outcomes: Outcomes, response: type[Response]) -> Response:
    answer = response()
    for change in changes:
        row = response.AlterConfigsResourceResponse(resource_type=change.type, resource_name=change.name)
        row.error_code, row.error_message = _outcome(change, outcomes)
        answer.responses.append(row)  # pyright: ignore[reportArgumentType] - each response has rows of its own class
    return answer


def _outcome(change: Change, outcomes: Outcomes) -> tuple[int, str | None]:
    """Return this broker's outcome of the change, or else the controller's."""
    if change.error is not None:
        return change.error.code, change.error.message
    if change.done:
        return ErrorCode.NONE, None
    return outcomes.get((change.type, change.name), (ErrorCode.UNKNOWN_SERVER_ERROR, None))
