"""JoinGroup (11): becomes a member of a classic group, or stays one in the next generation.

The response waits until the group has rebalanced.
ACL: READ on the group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.coordinator.group.classic.group import join_error
from odradek.handlers.access import JOIN_GROUP, JOIN_GROUP_MATCH
from odradek.handlers.group.caller import caller_of
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

_NULL_PROTOCOL_SINCE = 7


def handle(context: RequestContext, request: JoinGroupRequest, broker: BrokerParts) -> Deferred[JoinGroupResponse] | JoinGroupResponse:
    if not context.allows(JOIN_GROUP, request.group_id):
        response = join_error(request.member_id, JOIN_GROUP.error)
        response.protocol_name = None if context.api_version >= _NULL_PROTOCOL_SINCE else ""
        return response
    if context.api_version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms

    def joined(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.protocol_name is None and context.api_version < _NULL_PROTOCOL_SINCE:
            response.protocol_name = ""
        return response

    return broker.groups.join_group(caller_of(context, JOIN_GROUP_MATCH), request).then(joined)


def error_response(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    response = join_error(request.member_id, error.code)
    response.protocol_name = ""
    return response
