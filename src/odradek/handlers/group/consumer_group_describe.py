"""ConsumerGroupDescribe (69): state, epochs, members and assignments of groups of the consumer protocol (KIP-848).

UNSUPPORTED_VERSION for each group while the protocol is off (see ConsumerGroupHeartbeat).
ACL: DESCRIBE on each group and on the topics in it. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.consumer.manager import failed_description
from odradek.handlers.access import CONSUMER_DESCRIBE_GROUP, CONSUMER_DESCRIBE_TOPIC
from odradek.handlers.group.consumer_group_heartbeat import serves_consumer_groups
from odradek.handlers.operations import authorized_operations
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


Described = ConsumerGroupDescribeResponse.DescribedGroup


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest, services: Services) -> ConsumerGroupDescribeResponse:
    if not serves_consumer_groups(services):
        return error_response(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    refused = [
        failed_description(group_id, CONSUMER_DESCRIBE_GROUP.error, None)
        for group_id in request.group_ids
        if not context.allows(CONSUMER_DESCRIBE_GROUP, group_id)
    ]
    denied = {group.group_id for group in refused}
    described = services.groups.describe_consumer_groups([group_id for group_id in request.group_ids if group_id not in denied])
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group.group_id)
    if services.authorizer is not None:
        described = _without_secret_topics(context, described)
    return ConsumerGroupDescribeResponse(groups=refused + described)


def _without_secret_topics(context: RequestContext, groups: list[Described]) -> list[Described]:
    """A group with a topic that the client may not describe is not shown at all."""
    topics = {group.group_id: _topics_of(group) for group in groups}
    denied = context.denied(CONSUMER_DESCRIBE_TOPIC, sorted({topic for each in topics.values() for topic in each}))
    if not denied:
        return groups
    why = "The group has described topic(s) that the client is not authorized to describe."
    return [
        failed_description(group.group_id, CONSUMER_DESCRIBE_TOPIC.error, why) if topics[group.group_id] & denied else group
        for group in groups
    ]


def _topics_of(group: Described) -> set[str]:
    return {
        partitions.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for partitions in assignment.topic_partitions
    }


def error_response(request: ConsumerGroupDescribeRequest, error: KafkaError) -> ConsumerGroupDescribeResponse:
    """Every group with the same error."""
    return ConsumerGroupDescribeResponse(groups=[failed_description(group_id, error.code, error.message) for group_id in request.group_ids])
