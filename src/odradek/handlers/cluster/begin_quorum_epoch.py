"""BeginQuorumEpoch (53), versions 0-1, controller listener: a new leader of the metadata quorum makes itself known (KIP-595, 853).

- ACL: ClusterAction on the cluster (not enforced yet: there is no authorizer).
- Errors by partition: FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_VOTER_KEY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.BEGIN_QUORUM_EPOCH, versions=(0, 1), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: BeginQuorumEpochRequest, services: Services) -> Deferred[BeginQuorumEpochResponse]:
    return services.kraft.handle_begin_quorum_epoch(request)


def error_response(request: BeginQuorumEpochRequest, error: KafkaError) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(error_code=error.code)
