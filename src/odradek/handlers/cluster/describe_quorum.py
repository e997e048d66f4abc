"""DescribeQuorum (55): voters and observers of the metadata quorum as its leader sees them (KIP-595, 836, 853).

ACL: DESCRIBE on Cluster. Quota: none.
Brokers forward the request to the active controller. Another controller answers NOT_LEADER_OR_FOLLOWER by partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.consensus.progress import ReplicaProgress
from odradek.controller.kraft.wire import PARTITION, TOPIC
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts

DIRECTORIES_SINCE = 2
"""First version with directory ids and nodes."""


def handle(context: RequestContext, request: DescribeQuorumRequest, parts: ControllerParts) -> DescribeQuorumResponse:
    node = parts.kraft
    with_directories = context.api_version >= DIRECTORIES_SINCE
    asked = [(topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    if asked != [(TOPIC, [PARTITION])]:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The request must name only {TOPIC}-{PARTITION}.")
        return _same_error(request, error)
    state = node.raft.leader_state()
    if state is None:
        return _same_error(request, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node is not the active controller."))
    now_ms, wall_ms = node.now_ms(), node.wall_ms()
    state.progress.forget_silent_observers(now_ms)

    def describe(progress: ReplicaProgress) -> DescribeQuorumResponse.ReplicaState:
        local = progress.key.id == node.node_id
        return DescribeQuorumResponse.ReplicaState(
            replica_id=progress.key.id,
            # Earlier versions have no field for directory ids (KIP-853).
            replica_directory_id=(progress.key.directory_id if with_directories else None) or ZERO_UUID,
            log_end_offset=node.log.end.offset if local else progress.end_offset,
            last_fetch_timestamp=wall_ms if local else _wall(progress.last_fetch_ms, now_ms, wall_ms),
            last_caught_up_timestamp=wall_ms if local else _wall(progress.last_caught_up_ms, now_ms, wall_ms),
        )

    data = DescribeQuorumResponse.PartitionData(
        partition_index=PARTITION,
        leader_id=state.leader_id,
        leader_epoch=state.epoch,
        high_watermark=-1 if state.progress.high_watermark is None else state.progress.high_watermark,
        current_voters=[describe(progress) for progress in state.progress.voters.values()],
        observers=[describe(progress) for progress in state.progress.observers.values()],
    )
    nodes = [
        DescribeQuorumResponse.Node(
            node_id=voter.id,
            listeners=[DescribeQuorumResponse.Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
        )
        for voter in node.raft.voters.current
        if with_directories
    ]
    return DescribeQuorumResponse(topics=[DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[data])], nodes=nodes)


def _wall(at_ms: int, now_ms: int, wall_ms: int) -> int:
    return -1 if at_ms < 0 else wall_ms - (now_ms - at_ms)


def _same_error(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """Return a response with `error` for every requested partition."""
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponse.PartitionData(
                        partition_index=partition.partition_index, error_code=error.code, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
