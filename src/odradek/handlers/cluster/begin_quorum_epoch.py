"""BeginQuorumEpoch (53), controller listener: announcement of a new leader of the metadata quorum (KIP-595, 853).

ACL: CLUSTER_ACTION on Cluster. Quota: none.
Errors by partition: FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_VOTER_KEY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.consensus import messages as raft
from odradek.consensus.voters import Endpoint
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.handlers.cluster.quorum import ask, check_cluster, check_topic, leader_endpoints
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: BeginQuorumEpochRequest, parts: ControllerParts) -> Deferred[BeginQuorumEpochResponse]:
    node = parts.kraft
    check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.BeginQuorumEpochResponse) -> BeginQuorumEpochResponse:
        data = BeginQuorumEpochResponse.PartitionData(
            partition_index=PARTITION, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        nodes = leader_endpoints(context, node, answer.leader_id, answer.endpoints, BeginQuorumEpochResponse.NodeEndpoint)
        return BeginQuorumEpochResponse(
            topics=[BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes
        )

    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
    voter = replica(request.voter_id, partition.voter_directory_id)
    return ask(node, raft.BeginQuorumEpochRequest(voter, partition.leader_id, partition.leader_epoch, endpoints), to_wire)
