"""BrokerHeartbeat (API key 63): a broker lives, wants to be unfenced, or wants to go.

Versions: 0-2. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.BROKER_HEARTBEAT, versions=(0, 2), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: BrokerHeartbeatRequest, services: Services) -> Deferred[BrokerHeartbeatResponse]:
    return services.kraft.submit(lambda core: core.broker_heartbeat(request), "processBrokerHeartbeat")
