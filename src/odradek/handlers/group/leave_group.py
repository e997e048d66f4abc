"""LeaveGroup (13): members leave a classic group, or are removed from it; since version 3 several in one request.

ACL: READ on the group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.access import LEAVE_GROUP
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

_BATCHED_SINCE = 3


def handle(context: RequestContext, request: LeaveGroupRequest, broker: BrokerParts) -> Deferred[LeaveGroupResponse]:
    context.require(LEAVE_GROUP, request.group_id)
    if context.api_version >= _BATCHED_SINCE:
        return broker.groups.leave_group(request)
    request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]

    def left(response: LeaveGroupResponse) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=response.error_code or (response.members[0].error_code if response.members else 0))

    return broker.groups.leave_group(request).then(left)
