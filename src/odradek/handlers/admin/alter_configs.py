"""AlterConfigs (API key 33): replaces whole configurations (KIP-133; superseded by IncrementalAlterConfigs).

ACL: ALTER_CONFIGS on Cluster or on Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.controller.core.configs import SET, Operation, alter_configs_error
from odradek.handlers.admin.config_changes import Change, answer_changes, check_broker, check_changes, check_resource_type, judge_values
from odradek.metadata.image import RESOURCE_BROKER
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(
    context: RequestContext, request: AlterConfigsRequest, broker: BrokerParts
) -> AlterConfigsResponse | Deferred[AlterConfigsResponse]:
    def check(change: Change) -> None:
        check_resource_type(change)
        if change.type == RESOURCE_BROKER:
            check_broker(change, context)

    changes = [
        Change(
            resource.resource_type,
            resource.resource_name,
            [Operation(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    check_changes(changes, check)
    judged = judge_values(changes, context.services, replace=True)
    return answer_changes(context, broker, request, changes, judged, AlterConfigsResponse)


error_response = alter_configs_error
