"""ConsumerGroupDescribe (69): state, epochs, members and assignments of groups of the consumer protocol (KIP-848).

UNSUPPORTED_VERSION for each group while the protocol is off (see ConsumerGroupHeartbeat).
ACL: DESCRIBE on each group and on the topics in it. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.repeats import answered
from odradek.coordinator.group.consumer.manager import failed_description
from odradek.handlers.access import CONSUMER_DESCRIBE_GROUP, CONSUMER_DESCRIBE_TOPIC
from odradek.handlers.group.consumer_group_heartbeat import serves_consumer_groups
from odradek.handlers.operations import authorized_operations
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts


Described = ConsumerGroupDescribeResponse.DescribedGroup

_SECRET_TOPIC = "The group has described topic(s) that the client is not authorized to describe."


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest, broker: BrokerParts) -> Entries[ConsumerGroupDescribeResponse]:
    asked = answered(request.group_ids)
    if not serves_consumer_groups(context.services):
        return error_response(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    denied = context.denied(CONSUMER_DESCRIBE_GROUP, asked)
    for group_id in asked:
        if group_id in denied:
            yield failed_description(group_id, CONSUMER_DESCRIBE_GROUP.error, None)
    for group in broker.groups.describe_consumer_groups([group_id for group_id in asked if group_id not in denied]):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group.group_id)
        if context.services.authorizer is not None and context.denied(CONSUMER_DESCRIBE_TOPIC, sorted(_topics_of(group))):
            yield failed_description(group.group_id, CONSUMER_DESCRIBE_TOPIC.error, _SECRET_TOPIC)
        else:
            yield group
    return ConsumerGroupDescribeResponse()


def _topics_of(group: Described) -> set[str]:
    return {
        partitions.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for partitions in assignment.topic_partitions
    }


def error_response(request: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    """Return a response with `error` for every group."""
    return ConsumerGroupDescribeResponse(groups=[failed_description(group_id, error.code, error.message) for group_id in request.group_ids])
