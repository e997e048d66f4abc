"""BrokerHeartbeat (63), controller listener: an operation of the active controller that also notes over which connection a broker beats.

ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.controller.core import brokers
from odradek.handlers.scopes import LOOPBACK
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from odradek.base.deferred import Deferred
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


def handle(context: RequestContext, request: BrokerHeartbeatRequest, services: Services) -> Deferred[BrokerHeartbeatResponse]:
    version = context.api_version
    answer = services.kraft.submit(lambda controller: brokers.broker_heartbeat(controller, request, version), "broker_heartbeat")
    connections = services.heartbeat_connections
    if connections is not None and context.connection_id != LOOPBACK:

        def answered(done: Deferred[BrokerHeartbeatResponse]) -> None:
            if done.error is None and done.result().error_code == ErrorCode.NONE:
                connections.heard(request.broker_id, request.broker_epoch, context.connection_id)

        answer.add_callback(answered)
    return answer
