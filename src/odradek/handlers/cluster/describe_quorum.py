"""DescribeQuorum (55), versions 0-2: voters and observers of the metadata quorum as its leader sees them (KIP-595, 836, 853).

- ACL: Describe on the cluster (not enforced yet: there is no authorizer).
- Brokers forward it to the active controller; another controller answers NOT_LEADER_OR_FOLLOWER by partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: DescribeQuorumRequest, services: Services) -> DescribeQuorumResponse:
    return services.kraft.handle_describe_quorum(request)


def error_response(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
