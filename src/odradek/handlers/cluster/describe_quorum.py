"""DescribeQuorum (55), versions 0-2: voters and observers of the metadata quorum as its leader sees them (KIP-595, 836, 853).

- ACL: Describe on the cluster (not enforced yet: there is no authorizer).
- Brokers forward it to the active controller; another controller answers NOT_LEADER_OR_FOLLOWER by partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

DIRECTORIES_SINCE = 2
"""The version that tells directory ids and nodes; earlier ones cannot carry them (KIP-853)."""


@handler(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: DescribeQuorumRequest, services: Services) -> DescribeQuorumResponse:
    response = services.kraft.handle_describe_quorum(request)
    if context.api_version < DIRECTORIES_SINCE:
        response.nodes = []
        for partition in (partition for topic in response.topics for partition in topic.partitions):
            for replica in (*partition.current_voters, *partition.observers):
                replica.replica_directory_id = ZERO_UUID
    return response


def error_response(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
