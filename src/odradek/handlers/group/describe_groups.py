"""DescribeGroups (15): state and members of classic groups.

ACL: DESCRIBE on each group. Quota: request time.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.group.caller import caller_of
from odradek.handlers.operations import GROUP_OPERATIONS
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


def handle(context: RequestContext, request: DescribeGroupsRequest, services: Services) -> DescribeGroupsResponse:
    described = services.groups.describe_groups(caller_of(context), request.groups)
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=described)


def error_response(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """Every group with the same error."""
    return DescribeGroupsResponse(
        groups=[DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.groups]
    )
