"""EndQuorumEpoch (54), controller listener: resignation of the leader of the metadata quorum (KIP-595, 853).

ACL: CLUSTER_ACTION on Cluster. Quota: none.
The first of the preferred candidates stands for election at once, the others after a growing back-off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.consensus import messages as raft
from odradek.consensus.voters import Endpoint
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.handlers.cluster.quorum import ask, check_cluster, check_topic, leader_endpoints
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: EndQuorumEpochRequest, parts: ControllerParts) -> Deferred[EndQuorumEpochResponse]:
    node = parts.kraft
    check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.EndQuorumEpochResponse) -> EndQuorumEpochResponse:
        data = EndQuorumEpochResponse.PartitionData(
            partition_index=PARTITION, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        nodes = leader_endpoints(context, node, answer.leader_id, answer.endpoints, EndQuorumEpochResponse.NodeEndpoint)
        return EndQuorumEpochResponse(topics=[EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes)

    preferred = [replica(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates]
    preferred = preferred or [replica(each, None) for each in partition.preferred_successors]
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
    return ask(node, raft.EndQuorumEpochRequest(partition.leader_id, partition.leader_epoch, tuple(preferred), endpoints), to_wire)
