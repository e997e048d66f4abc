"""Vote (52), controller listener: request of a candidate of the metadata quorum for this replica's vote (KIP-595, 853, 996).

ACL: CLUSTER_ACTION on Cluster. Quota: none.
The vote is durable before the response. The id of another cluster is answered INCONSISTENT_CLUSTER_ID, another topic INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.consensus import messages as raft
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.handlers.cluster.quorum import ask, check_cluster, check_topic, leader_endpoints
from odradek.protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: VoteRequest, parts: ControllerParts) -> Deferred[VoteResponse]:
    node = parts.kraft
    check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.VoteResponse) -> VoteResponse:
        data = VoteResponse.PartitionData(
            partition_index=PARTITION,
            error_code=answer.error,
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
            vote_granted=answer.granted,
        )
        nodes = leader_endpoints(context, node, answer.leader_id, answer.endpoints, VoteResponse.NodeEndpoint)
        return VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes)

    vote = raft.VoteRequest(
        replica(request.voter_id, partition.voter_directory_id),
        replica(partition.replica_id, partition.replica_directory_id),
        partition.replica_epoch,
        partition.last_offset,
        partition.last_offset_epoch,
        partition.pre_vote,
    )
    return ask(node, vote, to_wire)
