"""DescribeGroups (15): state and members of classic groups.

ACL: DESCRIBE on each group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.repeats import answered
from odradek.handlers.access import DESCRIBE_GROUP
from odradek.handlers.group.caller import caller_of
from odradek.handlers.operations import authorized_operations
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts


def handle(context: RequestContext, request: DescribeGroupsRequest, broker: BrokerParts) -> Entries[DescribeGroupsResponse]:
    asked = answered(request.groups)
    denied = context.denied(DESCRIBE_GROUP, asked)
    for group_id in asked:
        if group_id in denied:
            yield _refused(group_id, DESCRIBE_GROUP.error)
    for group in broker.groups.describe_groups(caller_of(context), [each for each in asked if each not in denied]):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group.group_id)
        yield group
    return DescribeGroupsResponse()


def error_response(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """Return a response with `error` for every group."""
    return DescribeGroupsResponse(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _refused(group_id: str, code: ErrorCode) -> DescribeGroupsResponse.DescribedGroup:
    return DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=code)
