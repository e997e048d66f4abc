"""DescribeGroups (15): state and members of classic groups.

ACL: DESCRIBE on each group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.access import DESCRIBE_GROUP
from odradek.handlers.group.caller import caller_of
from odradek.handlers.operations import authorized_operations
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


def handle(context: RequestContext, request: DescribeGroupsRequest, services: Services) -> DescribeGroupsResponse:
    refused = [_refused(group_id, DESCRIBE_GROUP.error) for group_id in request.groups if not context.allows(DESCRIBE_GROUP, group_id)]
    denied = {group.group_id for group in refused}
    described = services.groups.describe_groups(caller_of(context), [each for each in request.groups if each not in denied])
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=refused + described)


def error_response(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """Every group with the same error."""
    return DescribeGroupsResponse(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _refused(group_id: str, code: ErrorCode) -> DescribeGroupsResponse.DescribedGroup:
    return DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=code)
