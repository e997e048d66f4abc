"""IncrementalAlterConfigs (API key 44): sets, deletes, appends to and subtracts from single values (KIP-339).

Versions: 0-1. ACL: ALTER_CONFIGS on Cluster or on Topic. Quota: request time.
Known gaps: ACLs and quotas are not enforced yet; groups and client metrics are refused with INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.configs import Operation
from odradek.handlers.admin.broker_loggers import alter_loggers
from odradek.handlers.admin.config_changes import Change, check_broker_change, check_changes, check_node_id, check_resource_type
from odradek.handlers.registration import BROKER, CONTROLLER, handler
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from odradek.protocol.schema import Message
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

Answers = dict[tuple[int, str], tuple[int, str | None]]
"""(type, name) of a resource -> error code and message."""


@handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), listeners=(CONTROLLER,), forwarded=True)
def handle_on_controller(
    context: RequestContext, request: IncrementalAlterConfigsRequest, services: Services
) -> Deferred[IncrementalAlterConfigsResponse]:
    return services.kraft.submit(lambda core: core.incremental_alter_configs(request), "incrementalAlterConfigs")


@handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), listeners=(BROKER,))
def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest, services: Services
) -> IncrementalAlterConfigsResponse | Deferred[IncrementalAlterConfigsResponse]:
    def check(change: Change) -> None:
        if change.type == RESOURCE_BROKER_LOGGER:
            check_node_id(change, services)
            alter_loggers(change.operations, validate_only=request.validate_only)
            change.done = True
            return
        check_resource_type(change)
        if change.type == RESOURCE_BROKER:
            check_broker_change(change, services, replace=False)

    changes = [
        Change(
            resource.resource_type,
            resource.resource_name,
            [Operation(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    check_changes(changes, check)
    left = [resource for resource, change in zip(request.resources, changes, strict=True) if change.error is None and not change.done]
    if not left:
        return _response(changes, {})
    answer: Deferred[IncrementalAlterConfigsResponse] = Deferred()

    def answered(done: Deferred[Message]) -> None:
        answers: Answers = {}
        if done.error is None:
            for each in cast(IncrementalAlterConfigsResponse, done.result()).responses:
                answers[each.resource_type, each.resource_name] = each.error_code, each.error_message
        else:
            error = done.error if isinstance(done.error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            answers = {(resource.resource_type, resource.resource_name): (error.code, error.message) for resource in left}
        answer.complete(_response(changes, answers))

    remaining = IncrementalAlterConfigsRequest(resources=left, validate_only=request.validate_only)
    services.forwarder.ask(context, remaining).add_callback(answered)
    return answer


def _response(changes: Sequence[Change], answers: Answers) -> IncrementalAlterConfigsResponse:
    """What was found here, and where nothing was, the controller's answer."""
    response = IncrementalAlterConfigsResponse()
    for change in changes:
        if change.error is not None:
            code, message = int(change.error.code), change.error.message
        elif change.done:
            code, message = int(ErrorCode.NONE), None
        else:
            code, message = answers.get((change.type, change.name), (int(ErrorCode.UNKNOWN_SERVER_ERROR), None))
        response.responses.append(
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=change.type, resource_name=change.name
            )
        )
    return response


def error_response(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """Every resource of the request with the same error."""
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=error.code, error_message=error.message, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )
