"""AssignReplicasToDirs (API key 73): a broker tells in which log directories its replicas lie (KIP-858).

Versions: 0. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=(0, 0), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: AssignReplicasToDirsRequest, services: Services) -> Deferred[AssignReplicasToDirsResponse]:
    return services.kraft.submit(lambda core: core.assign_replicas_to_directories(request), "assignReplicasToDirs")
