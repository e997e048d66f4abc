"""AlterConfigs (API key 33): replaces whole configurations (KIP-133; superseded by IncrementalAlterConfigs).

Versions: 0-2. ACL: ALTER_CONFIGS on Cluster or on Topic. Quota: request time.
Known gaps: ACLs and quotas are not enforced yet; groups and client metrics are refused with INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.configs import SET, Operation
from odradek.handlers.admin.config_changes import Change, check_broker_change, check_changes, check_resource_type
from odradek.handlers.registration import BROKER, CONTROLLER, handler
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from odradek.protocol.schema import Message
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

Answers = dict[tuple[int, str], tuple[int, str | None]]
"""(type, name) of a resource -> error code and message."""


@handler(ApiKey.ALTER_CONFIGS, versions=(0, 2), listeners=(CONTROLLER,), forwarded=True)
def handle_on_controller(context: RequestContext, request: AlterConfigsRequest, services: Services) -> Deferred[AlterConfigsResponse]:
    return services.kraft.submit(lambda core: core.alter_configs(request), "alterConfigs")


@handler(ApiKey.ALTER_CONFIGS, versions=(0, 2), listeners=(BROKER,))
def handle(
    context: RequestContext, request: AlterConfigsRequest, services: Services
) -> AlterConfigsResponse | Deferred[AlterConfigsResponse]:
    def check(change: Change) -> None:
        check_resource_type(change)
        if change.type == RESOURCE_BROKER:
            check_broker_change(change, services, replace=True)

    changes = [
        Change(
            resource.resource_type,
            resource.resource_name,
            [Operation(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    check_changes(changes, check)
    left = [resource for resource, change in zip(request.resources, changes, strict=True) if change.error is None]
    if not left:
        return _response(changes, {})
    answer: Deferred[AlterConfigsResponse] = Deferred()

    def answered(done: Deferred[Message]) -> None:
        answers: Answers = {}
        if done.error is None:
            for each in cast(AlterConfigsResponse, done.result()).responses:
                answers[each.resource_type, each.resource_name] = each.error_code, each.error_message
        else:
            error = done.error if isinstance(done.error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            answers = {(resource.resource_type, resource.resource_name): (error.code, error.message) for resource in left}
        answer.complete(_response(changes, answers))

    remaining = AlterConfigsRequest(resources=left, validate_only=request.validate_only)
    services.forwarder.ask(context, remaining).add_callback(answered)
    return answer


def _response(changes: Sequence[Change], answers: Answers) -> AlterConfigsResponse:
    """What was found here, and where nothing was, the controller's answer."""
    response = AlterConfigsResponse()
    for change in changes:
        if change.error is not None:
            code, message = int(change.error.code), change.error.message
        else:
            code, message = answers.get((change.type, change.name), (int(ErrorCode.UNKNOWN_SERVER_ERROR), None))
        response.responses.append(
            AlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=change.type, resource_name=change.name
            )
        )
    return response


def error_response(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """Every resource of the request with the same error."""
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=error.code, error_message=error.message, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )
