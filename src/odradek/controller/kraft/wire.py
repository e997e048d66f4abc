"""Raft's messages on the wire. Received messages lose their topic and partition, sent messages get them (RaftUtil)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError, code_of
from odradek.base.ids import METADATA_TOPIC_ID, ZERO_UUID
from odradek.consensus import messages as raft
from odradek.consensus.messages import FetchedRecords, Outbound
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey
from odradek.controller.kraft.records import control_updates, directory_or_none
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from odradek.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.protocol.schema import Message
from odradek.records.batch import check_crc, iter_headers

if TYPE_CHECKING:
    from odradek.controller.kraft.node import KRaftNode

TOPIC = "__cluster_metadata"
PARTITION = 0

T = TypeVar("T")


class RaftChannel(Protocol):
    """Channel to other nodes of the quorum over the controller listener, in the highest version that both nodes know."""

    def send(self, node_id: int, host: str, port: int, api_key: ApiKey, request: Message) -> Deferred[Message]:
        """Send a request; never raise. `node_id` < 0 means unknown.

        The Deferred gets the response, or fails when the connection is lost or the request times out.
        """
        ...


def only_partition(topics: Sequence[T], error: str) -> T:
    """Return the only element. Raises KafkaError INVALID_REQUEST for none or several.

    An empty list brought Kafka down before (CVE-2026-83525).
    """
    if len(topics) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error)
    return topics[0]


def replica(node_id: int, directory_id: object) -> ReplicaKey:
    from uuid import UUID

    return ReplicaKey(node_id, directory_or_none(directory_id) if isinstance(directory_id, UUID) else None)


# Requests ------------------------------------------------------------------------------------------------------------------


def send(node: KRaftNode, channel: RaftChannel, message: Outbound) -> Deferred[raft.Response]:
    """Send a message of the core; return its response in the core's terms.

    The Deferred fails when the address is unknown or no response comes.
    """
    if message.destination < 0:
        host, port = node.bootstrap_server(message.destination)
    elif message.endpoints:
        _, host, port = node.endpoint_for_peers(message.endpoints)
    else:
        return Deferred.failed(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The address of node {message.destination} is not known."))
    api_key, request = _encode(node, message.request)

    def failed(error: BaseException) -> raft.Response:
        if isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION and isinstance(message.request, raft.VoteRequest):
            # Versions before 2 have no pre-votes. The core must not count such a voter as unreachable.
            return raft.VoteResponse(error.code, -1, -1)
        raise error

    return channel.send(message.destination, host, port, api_key, request).then(lambda response: _decode(node, response), failed)


def _encode(node: KRaftNode, request: raft.Request) -> tuple[ApiKey, Message]:
    if isinstance(request, raft.VoteRequest):
        return ApiKey.VOTE, _encode_vote(node, request)
    if isinstance(request, raft.BeginQuorumEpochRequest):
        return ApiKey.BEGIN_QUORUM_EPOCH, _encode_begin(node, request)
    if isinstance(request, raft.EndQuorumEpochRequest):
        return ApiKey.END_QUORUM_EPOCH, _encode_end(node, request)
    if isinstance(request, raft.FetchRequest):
        return ApiKey.FETCH, _encode_fetch(node, request)
    return ApiKey.FETCH_SNAPSHOT, _encode_fetch_snapshot(node, request)


def _encode_vote(node: KRaftNode, request: raft.VoteRequest) -> VoteRequest:
    partition = VoteRequest.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.replica.id,
        replica_directory_id=request.replica.directory_id or ZERO_UUID,
        voter_directory_id=request.voter.directory_id or ZERO_UUID,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = VoteRequest.TopicData(topic_name=TOPIC, partitions=[partition])
    return VoteRequest(cluster_id=node.cluster_id, voter_id=request.voter.id, topics=[topic])


def _encode_begin(node: KRaftNode, request: raft.BeginQuorumEpochRequest) -> BeginQuorumEpochRequest:
    partition = BeginQuorumEpochRequest.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter.directory_id or ZERO_UUID,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return BeginQuorumEpochRequest(
        cluster_id=node.cluster_id,
        voter_id=request.voter.id,
        topics=[BeginQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            BeginQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in request.endpoints
        ],
    )


def _encode_end(node: KRaftNode, request: raft.EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    partition = EndQuorumEpochRequest.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.preferred],
        preferred_candidates=[
            EndQuorumEpochRequest.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id or ZERO_UUID)
            for key in request.preferred
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=node.cluster_id,
        topics=[EndQuorumEpochRequest.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            EndQuorumEpochRequest.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in request.endpoints
        ],
    )


def _encode_fetch(node: KRaftNode, request: raft.FetchRequest) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        replica_directory_id=request.replica.directory_id or ZERO_UUID,
        high_watermark=request.high_watermark,
    )
    return FetchRequest(
        cluster_id=node.cluster_id,
        replica_state=FetchRequest.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=node.fetch_max_bytes,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _encode_fetch_snapshot(node: KRaftNode, request: raft.FetchSnapshotRequest) -> FetchSnapshotRequest:
    partition = FetchSnapshotRequest.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=FetchSnapshotRequest.SnapshotId(end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id or ZERO_UUID,
    )
    return FetchSnapshotRequest(
        cluster_id=node.cluster_id,
        replica_id=request.replica.id,
        max_bytes=min(request.max_bytes, node.fetch_snapshot_max_bytes),
        topics=[FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


# Responses -----------------------------------------------------------------------------------------------------------------


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


def _endpoints_of(node: KRaftNode, leader_id: int, endpoints: Sequence[_NodeEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(node.listener_name, each.host, each.port) for each in endpoints if each.node_id == leader_id)


def _decode(node: KRaftNode, response: Message) -> raft.Response:
    """Return a response in the core's terms.

    Raises KafkaError for a top-level error, ProtocolError for a response to another kind of request.
    """
    if isinstance(response, FetchResponse):
        return _decode_fetch(node, response)
    if isinstance(response, FetchSnapshotResponse):
        return _decode_fetch_snapshot(node, response)
    if not isinstance(response, VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse):
        raise ProtocolError(f"a response of type {type(response).__name__} to a Raft request")
    if response.error_code != ErrorCode.NONE:
        if isinstance(response, VoteResponse) and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            return raft.VoteResponse(ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        raise KafkaError(code_of(response.error_code))
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise ProtocolError("a Raft response must be about one partition")
    partition = response.topics[0].partitions[0]
    error = code_of(partition.error_code)
    endpoints = _endpoints_of(node, partition.leader_id, response.node_endpoints)
    if isinstance(partition, VoteResponse.PartitionData):
        return raft.VoteResponse(error, partition.leader_id, partition.leader_epoch, partition.vote_granted, endpoints)
    kind = raft.BeginQuorumEpochResponse if isinstance(response, BeginQuorumEpochResponse) else raft.EndQuorumEpochResponse
    return kind(error, partition.leader_id, partition.leader_epoch, endpoints)


def _decode_fetch(node: KRaftNode, response: FetchResponse) -> raft.FetchResponse:
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(code_of(response.error_code))
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise ProtocolError("a Raft fetch response must be about one partition")
    partition = response.responses[0].partitions[0]
    leader = partition.current_leader
    diverging = partition.diverging_epoch
    snapshot = partition.snapshot_id
    data = partition.records
    return raft.FetchResponse(
        code_of(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.end_offset >= 0 and diverging.epoch >= 0 else None,
        snapshot_id=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 and snapshot.epoch >= 0 else None,
        records=fetched_records(bytes(data)) if isinstance(data, bytes | bytearray | memoryview) and len(data) else None,
        endpoints=_endpoints_of(node, leader.leader_id, response.node_endpoints),
    )


def fetched_records(data: bytes) -> FetchedRecords | None:
    """Return the whole batches at the front of `data`, or None without a whole batch.

    Raises KafkaError CORRUPT_MESSAGE for a wrong CRC.
    """
    first = last = None
    end = 0
    for position, header in iter_headers(data):
        if not check_crc(data, position, header):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a fetched metadata batch at offset {header.base_offset} has a wrong CRC")
        first = header if first is None else first
        last = header
        end = position + header.size
    if first is None or last is None:
        return None
    whole = data[:end]
    return FetchedRecords(whole, first.base_offset, last.next_offset, last.partition_leader_epoch, tuple(control_updates(whole)))


def _decode_fetch_snapshot(node: KRaftNode, response: FetchSnapshotResponse) -> raft.FetchSnapshotResponse:
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(code_of(response.error_code))
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise ProtocolError("a FetchSnapshot response must be about one partition")
    partition = response.topics[0].partitions[0]
    leader = partition.current_leader
    data = partition.unaligned_records
    return raft.FetchSnapshotResponse(
        code_of(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.size,
        partition.position,
        data=bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b"",
        endpoints=_endpoints_of(node, leader.leader_id, response.node_endpoints),
    )
