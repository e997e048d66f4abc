"""IncrementalAlterConfigs (API key 44): sets, deletes, appends to and subtracts from single values (KIP-339).

ACL: ALTER_CONFIGS on Cluster or on Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.controller.core.configs import Operation, incremental_alter_configs_error
from odradek.handlers.access import ALTER_LOGGERS
from odradek.handlers.admin.broker_loggers import alter_loggers
from odradek.handlers.admin.config_changes import (
    Change,
    answer_changes,
    check_broker,
    check_changes,
    check_node_id,
    check_resource_type,
    judge_values,
)
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest, broker: BrokerParts
) -> IncrementalAlterConfigsResponse | Deferred[IncrementalAlterConfigsResponse]:
    def check(change: Change) -> None:
        if change.type == RESOURCE_BROKER_LOGGER:
            context.require(ALTER_LOGGERS)
            check_node_id(change, context.services.node_id)
            alter_loggers(change.operations, validate_only=request.validate_only)
            change.done = True
            return
        check_resource_type(change)
        if change.type == RESOURCE_BROKER:
            check_broker(change, context)

    changes = [
        Change(
            resource.resource_type,
            resource.resource_name,
            [Operation(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    check_changes(changes, check)
    judged = judge_values(changes, context.services, replace=False)
    return answer_changes(context, broker, request, changes, judged, IncrementalAlterConfigsResponse)


error_response = incremental_alter_configs_error
