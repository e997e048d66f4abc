"""ElectLeaders (API key 43): gives leadership to preferred replicas, or to any where records may be lost (KIP-183, KIP-460).

Versions: 0-2 (version 0 knows preferred leaders only). ACL: ALTER on Cluster. Quota: controller mutations.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

Result = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


@handler(ApiKey.ELECT_LEADERS, versions=(0, 2), listeners=(CONTROLLER,), forwarded=True)
def handle(context: RequestContext, request: ElectLeadersRequest, services: Services) -> Deferred[ElectLeadersResponse]:
    if request.timeout_ms < 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the time for the election was over before it began")
    return services.kraft.submit(lambda core: core.elect_leaders(request), "electLeaders")


def error_response(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The response as a whole, and every partition that was named, with the same error."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            Result(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=error.code, error_message=error.message) for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
