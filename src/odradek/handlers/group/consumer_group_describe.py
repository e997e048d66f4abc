"""ConsumerGroupDescribe (69): state, epochs, members and assignments of groups of the consumer protocol (KIP-848).

UNSUPPORTED_VERSION for each group while the protocol is off (see ConsumerGroupHeartbeat).
ACL: DESCRIBE on each group and on the topics in it. Quota: request time.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.consumer.manager import failed_description
from odradek.handlers.group.consumer_group_heartbeat import serves_consumer_groups
from odradek.handlers.operations import GROUP_OPERATIONS
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest, services: Services) -> ConsumerGroupDescribeResponse:
    if not serves_consumer_groups(services):
        return error_response(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    described = services.groups.describe_consumer_groups(request.group_ids)
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=described)


def error_response(request: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    """Every group with the same error."""
    return ConsumerGroupDescribeResponse(groups=[failed_description(group_id, error.code, error.message) for group_id in request.group_ids])
