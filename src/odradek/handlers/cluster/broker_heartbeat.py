"""BrokerHeartbeat (63), controller listener: operation of the active controller that also notes the connection of the heartbeats.

ACL: CLUSTER_ACTION on Cluster. Quota: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.controller.core import brokers
from odradek.handlers.scopes import LOOPBACK
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.result import ControllerResult
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: BrokerHeartbeatRequest, parts: ControllerParts) -> Deferred[BrokerHeartbeatResponse]:
    version = context.api_version
    connections = parts.heartbeat_connections if context.connection_id != LOOPBACK else None
    if connections is not None:
        connections.arrived(context.connection_id)

    def operation(controller: ControllerContext) -> ControllerResult[BrokerHeartbeatResponse]:
        result = brokers.broker_heartbeat(controller, request, version)
        if connections is not None:
            # Note the heartbeat now, not with the response, which may wait for the disk and the quorum while the broker is alive.
            connections.heard(request.broker_id, request.broker_epoch, context.connection_id)
        return result

    return parts.kraft.submit(operation, "broker_heartbeat", shown=False)
