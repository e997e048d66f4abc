"""FetchSnapshot (59), controller listener: a chunk of a snapshot of the metadata log, not aligned to batches (KIP-630).

ACL: CLUSTER_ACTION on Cluster. Quota: none.
The chunk has at most controller.quorum.fetch.snapshot.max.bytes. Errors by partition: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.consensus import messages as raft
from odradek.consensus.voters import OffsetAndEpoch
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.handlers.cluster.quorum import ask, check_cluster, leader_endpoints
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: FetchSnapshotRequest, parts: ControllerParts) -> Deferred[FetchSnapshotResponse]:
    node = parts.kraft
    check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    if topic.name != TOPIC or partition.partition != PARTITION:
        unknown = FetchSnapshotResponse.PartitionSnapshot(index=partition.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        unknown.unaligned_records = b""
        answer: Deferred[FetchSnapshotResponse] = Deferred()
        answer.complete(FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(name=topic.name, partitions=[unknown])]))
        return answer

    def to_wire(answer: raft.FetchSnapshotResponse) -> FetchSnapshotResponse:
        data = b""
        if answer.max_bytes > 0:
            data = node.log.read_snapshot_bytes(answer.snapshot_id, answer.position, min(answer.max_bytes, node.fetch_snapshot_max_bytes))
        snapshot = FetchSnapshotResponse.PartitionSnapshot(
            index=PARTITION,
            error_code=answer.error,
            snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=answer.snapshot_id.offset, epoch=answer.snapshot_id.epoch),
            current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
            size=answer.size,
            position=answer.position,
            unaligned_records=data,
        )
        nodes = leader_endpoints(context, node, answer.leader_id, answer.endpoints, FetchSnapshotResponse.NodeEndpoint)
        return FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[snapshot])], node_endpoints=nodes)

    fetch = raft.FetchSnapshotRequest(
        replica(request.replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.position,
        request.max_bytes,
    )
    return ask(node, fetch, to_wire)
