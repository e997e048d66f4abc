"""EndQuorumEpoch (54), versions 0-1, controller listener: the leader of the metadata quorum steps down (KIP-595, 853).

- ACL: ClusterAction on the cluster (not enforced yet: there is no authorizer).
- The first of the preferred candidates stands at once, the others after a growing back-off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.END_QUORUM_EPOCH, versions=(0, 1), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: EndQuorumEpochRequest, services: Services) -> Deferred[EndQuorumEpochResponse]:
    return services.kraft.handle_end_quorum_epoch(request)


def error_response(request: EndQuorumEpochRequest, error: KafkaError) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(error_code=error.code)
