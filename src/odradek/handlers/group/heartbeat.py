"""Heartbeat (12): a member of a classic group reports that it is alive, and learns whether it must join again.

ACL: READ on the group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.handlers.access import HEARTBEAT
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(context: RequestContext, request: HeartbeatRequest, broker: BrokerParts) -> Deferred[HeartbeatResponse]:
    context.require(HEARTBEAT, request.group_id)
    return broker.groups.heartbeat(request)
