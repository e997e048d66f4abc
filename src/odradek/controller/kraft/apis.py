"""The Raft APIs of a node: requests of peers as they come off the wire, answered as Kafka answers them.

Errors of the whole request are raised as KafkaError, for the top-level error code: INCONSISTENT_CLUSTER_ID for another cluster's id,
INVALID_REQUEST where the request is not about partition 0 of the metadata topic alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from odradek.consensus import messages as raft
from odradek.consensus.progress import ReplicaProgress
from odradek.consensus.voters import Endpoint, OffsetAndEpoch
from odradek.controller.kraft.wire import PARTITION, TOPIC, only_partition, replica
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from odradek.controller.kraft.node import KRaftNode

A = TypeVar("A", bound=raft.Response)
W = TypeVar("W")


def _check_cluster(node: KRaftNode, cluster_id: str | None) -> None:
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {node.cluster_id}.")


def _check_topic(name: str, partition: int) -> None:
    if name != TOPIC or partition != PARTITION:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Only {TOPIC}-{PARTITION} is replicated by Raft.")


def _ask(node: KRaftNode, request: raft.Request, to_wire: Callable[[A], W]) -> Deferred[W]:
    """The core's answer, put into the wire's form."""
    answer: Deferred[W] = Deferred()

    def answered(deferred: Deferred[raft.Response]) -> None:
        try:
            answer.complete(to_wire(cast(A, deferred.result())))
        except Exception as error:
            answer.fail(error)

    node.request(request).add_callback(answered)
    return answer


def _leader(node: KRaftNode, leader_id: int, endpoints: tuple[Endpoint, ...], kind: Callable[..., W]) -> list[W]:
    """The `node_endpoints` of an answer: where the leader is, when that is known."""
    endpoint = node.endpoint_for_peers(endpoints) if endpoints else None
    return [] if endpoint is None else [kind(node_id=leader_id, host=endpoint.host, port=endpoint.port)]


# Vote ----------------------------------------------------------------------------------------------------------------------


def handle_vote(node: KRaftNode, request: VoteRequest) -> Deferred[VoteResponse]:
    """Whether this replica votes for the candidate; the vote is durable before the answer."""
    _check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    _check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.VoteResponse) -> VoteResponse:
        data = VoteResponse.PartitionData(
            partition_index=PARTITION,
            error_code=answer.error,
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
            vote_granted=answer.granted,
        )
        nodes = _leader(node, answer.leader_id, answer.endpoints, VoteResponse.NodeEndpoint)
        return VoteResponse(topics=[VoteResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes)

    vote = raft.VoteRequest(
        replica(request.voter_id, partition.voter_directory_id),
        replica(partition.replica_id, partition.replica_directory_id),
        partition.replica_epoch,
        partition.last_offset,
        partition.last_offset_epoch,
        partition.pre_vote,
    )
    return _ask(node, vote, to_wire)


# BeginQuorumEpoch, EndQuorumEpoch ------------------------------------------------------------------------------------------


def handle_begin_quorum_epoch(node: KRaftNode, request: BeginQuorumEpochRequest) -> Deferred[BeginQuorumEpochResponse]:
    """A new leader makes itself known."""
    _check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    _check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.BeginQuorumEpochResponse) -> BeginQuorumEpochResponse:
        data = BeginQuorumEpochResponse.PartitionData(
            partition_index=PARTITION, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        nodes = _leader(node, answer.leader_id, answer.endpoints, BeginQuorumEpochResponse.NodeEndpoint)
        return BeginQuorumEpochResponse(
            topics=[BeginQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes
        )

    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
    voter = replica(request.voter_id, partition.voter_directory_id)
    return _ask(node, raft.BeginQuorumEpochRequest(voter, partition.leader_id, partition.leader_epoch, endpoints), to_wire)


def handle_end_quorum_epoch(node: KRaftNode, request: EndQuorumEpochRequest) -> Deferred[EndQuorumEpochResponse]:
    """The leader steps down and asks for an election."""
    _check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    _check_topic(topic.topic_name, partition.partition_index)

    def to_wire(answer: raft.EndQuorumEpochResponse) -> EndQuorumEpochResponse:
        data = EndQuorumEpochResponse.PartitionData(
            partition_index=PARTITION, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
        )
        nodes = _leader(node, answer.leader_id, answer.endpoints, EndQuorumEpochResponse.NodeEndpoint)
        return EndQuorumEpochResponse(topics=[EndQuorumEpochResponse.TopicData(topic_name=TOPIC, partitions=[data])], node_endpoints=nodes)

    preferred = [replica(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates]
    preferred = preferred or [replica(each, None) for each in partition.preferred_successors]
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.leader_endpoints)
    return _ask(node, raft.EndQuorumEpochRequest(partition.leader_id, partition.leader_epoch, tuple(preferred), endpoints), to_wire)


# Fetch ---------------------------------------------------------------------------------------------------------------------


def handle_fetch(node: KRaftNode, request: FetchRequest) -> Deferred[FetchResponse]:
    """Records of the metadata log, for voters and observers; waits at the log's end for up to max_wait_ms."""
    _check_cluster(node, request.cluster_id)
    topic = only_partition(request.topics, "Exactly one topic is expected.")
    partition = only_partition(topic.partitions, "Exactly one partition is expected.")
    if topic.topic_id not in (METADATA_TOPIC_ID, ZERO_UUID) or (topic.topic_id == ZERO_UUID and topic.topic != TOPIC):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Only {TOPIC} is replicated by Raft.")
    _check_topic(TOPIC, partition.partition)
    max_bytes = max(0, min(request.max_bytes, node.fetch_max_bytes))

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
            # Who is no replica sees what is committed.
            end = node.log.end.offset if reader.id >= 0 else max(answer.high_watermark, 0)
            data.records = node.log.read(answer.read_from, up_to=end, max_bytes=max_bytes)
        topic_response = FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data])
        nodes = _leader(node, answer.leader_id, answer.endpoints, FetchResponse.NodeEndpoint)
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
    return _ask(node, fetch, to_wire)


def handle_fetch_snapshot(node: KRaftNode, request: FetchSnapshotRequest) -> Deferred[FetchSnapshotResponse]:
    """A piece of a snapshot, not aligned to batches."""
    _check_cluster(node, request.cluster_id)
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
        nodes = _leader(node, answer.leader_id, answer.endpoints, FetchSnapshotResponse.NodeEndpoint)
        return FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(name=TOPIC, partitions=[snapshot])], node_endpoints=nodes)

    fetch = raft.FetchSnapshotRequest(
        replica(request.replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.position,
        request.max_bytes,
    )
    return _ask(node, fetch, to_wire)


# DescribeQuorum ------------------------------------------------------------------------------------------------------------


def handle_describe_quorum(node: KRaftNode, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Voters and observers as the leader sees them; others answer NOT_LEADER_OR_FOLLOWER and whom they take for the leader."""
    asked = [(topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in request.topics]
    if asked != [(TOPIC, [PARTITION])]:
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Only {TOPIC}-{PARTITION}, once, can be described.")
        return _describe_error(request, error)
    state = node.raft.leader_state()
    if state is None:
        return _describe_error(request, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node is not the active controller."))
    now_ms, wall_ms = node.now_ms(), node.wall_ms()
    state.progress.forget_silent_observers(now_ms)

    def describe(progress: ReplicaProgress) -> DescribeQuorumResponse.ReplicaState:
        local = progress.key.id == node.node_id
        return DescribeQuorumResponse.ReplicaState(
            replica_id=progress.key.id,
            replica_directory_id=progress.key.directory_id or ZERO_UUID,
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
    ]
    return DescribeQuorumResponse(topics=[DescribeQuorumResponse.TopicData(topic_name=TOPIC, partitions=[data])], nodes=nodes)


def _wall(at_ms: int, now_ms: int, wall_ms: int) -> int:
    return -1 if at_ms < 0 else wall_ms - (now_ms - at_ms)


def _describe_error(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """Whatever was asked for, with the same error."""
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
