"""AllocateProducerIds (API key 67): a block of 1,000 producer ids for a broker.

Versions: 0-0. ACL: CLUSTER_ACTION on Cluster. Quota: none.
Known gaps: ACLs are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: AllocateProducerIdsRequest, services: Services) -> Deferred[AllocateProducerIdsResponse]:
    return services.kraft.submit(lambda core: core.allocate_producer_ids(request), "allocateProducerIds")
