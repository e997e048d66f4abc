"""Vote (52), versions 0-2, controller listener: a candidate of the metadata quorum asks for this replica's vote (KIP-595, 853, 996).

- ACL: ClusterAction on the cluster (not enforced yet: there is no authorizer).
- The vote is durable before the answer. Another cluster's id: INCONSISTENT_CLUSTER_ID; another topic: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.VOTE, versions=(0, 2), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: VoteRequest, services: Services) -> Deferred[VoteResponse]:
    return services.kraft.handle_vote(request)


def error_response(request: VoteRequest, error: KafkaError) -> VoteResponse:
    return VoteResponse(error_code=error.code)
