"""Fetch (1), controller listener: the metadata log, for voters, brokers and other observers (KIP-595).

ACL: CLUSTER_ACTION on Cluster. Quota: none.
The request has exactly one topic and partition, `__cluster_metadata`-0, and no session. The response has at most
controller.quorum.fetch.max.bytes and waits up to max_wait_ms at the end of the log. Diverging epoch and snapshot id tell a replica how to
repair its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import METADATA_TOPIC_ID
from odradek.consensus import messages as raft
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.handlers.cluster.quorum import ask, check_cluster, check_topic, leader_endpoints
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts


def handle(context: RequestContext, request: FetchRequest, parts: ControllerParts) -> Deferred[FetchResponse]:
    node = parts.kraft
    check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    if topic.topic_id != METADATA_TOPIC_ID:
        # Versions before 13 have no topic id. Kafka refuses them too.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Only {TOPIC} is replicated by Raft.")
    check_topic(TOPIC, partition.partition)
    if request.max_bytes < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request.max_bytes} is not a valid number of bytes.")
    max_bytes = min(request.max_bytes, node.fetch_max_bytes)

    def to_wire(answer: raft.FetchResponse) -> FetchResponse:
        data = FetchResponse.PartitionData(
            partition_index=PARTITION,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
            current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
            records=b"",
        )
        if answer.diverging is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=answer.diverging.epoch, end_offset=answer.diverging.offset)
        if answer.snapshot_id is not None:
            data.snapshot_id = FetchResponse.SnapshotId(end_offset=answer.snapshot_id.offset, epoch=answer.snapshot_id.epoch)
        if answer.read_from is not None:
            # A reader that is not a replica sees only committed records.
            end = node.log.end.offset if reader.id >= 0 else max(answer.high_watermark, 0)
            data.records = node.log.read(answer.read_from, up_to=end, max_bytes=max_bytes)
        topic_response = FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
        nodes = leader_endpoints(context, node, answer.leader_id, answer.endpoints, FetchResponse.NodeEndpoint)
        return FetchResponse(responses=[topic_response], node_endpoints=nodes)

    replica_id = request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
    reader = replica(replica_id, partition.replica_directory_id)
    fetch = raft.FetchRequest(
        reader,
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        request.max_wait_ms,
        partition.high_watermark,
    )
    return ask(node, fetch, to_wire)
