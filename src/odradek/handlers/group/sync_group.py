"""SyncGroup (14): the leader of a classic group sends the assignment, and each member fetches its part.

The response waits until the leader's assignment is stored.
ACL: READ on the group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.handlers.access import SYNC_GROUP
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

_PROTOCOL_SINCE = 5


def handle(context: RequestContext, request: SyncGroupRequest, broker: BrokerParts) -> Deferred[SyncGroupResponse] | SyncGroupResponse:
    if context.api_version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    context.require(SYNC_GROUP, request.group_id)
    return broker.groups.sync_group(request)
