"""AlterPartition (API key 56): a leader proposes an ISR.

Versions: 2-3. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.ALTER_PARTITION, versions=(2, 3), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: AlterPartitionRequest, services: Services) -> Deferred[AlterPartitionResponse]:
    return services.kraft.submit(lambda core: core.alter_partition(request, context.api_version), "alterPartition")
