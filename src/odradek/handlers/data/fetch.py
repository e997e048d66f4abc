"""Fetch (API key 1) on broker listeners: records for consumers and followers.

ACL: READ on Topic; CLUSTER_ACTION on Cluster for followers. Quota: fetch bandwidth, request time, leader replication throttle.

A fetch waits up to max_wait_ms for min_bytes, which are computed from positions. The response contains slices of segment files, which the
network reads as the socket drains. The response in a follower's session contains what has changed (`replication.subscriptions`). A consumer
that names its rack may be directed to a nearer replica (`replication.selector`). A client that has used up a quota gets an empty response,
which the quota does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers import access
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.replication.fetch_params import FetchParams, FetchPartition, isolation_for
from odradek.replication.fetch_session import FetchContext, PartitionKey
from odradek.replication.reader import PartitionRead, Reads

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts
    from odradek.metadata.image import TopicsImage
    from odradek.network.chunks import Chunk
    from odradek.replication.replica_manager import ReplicaManager

TopicResponse = FetchResponse.FetchableTopicResponse
PartitionResponse = FetchResponse.PartitionData

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors of partitions that are found before anything is read."""
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def handle(context: RequestContext, request: FetchRequest, broker: BrokerParts) -> FetchResponse | Deferred[FetchResponse]:
    version = context.api_version
    replica_id, replica_epoch = request.replica_id, -1
    if version >= 15:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0 and context.measured is not None:
        context.measured = context.measured.other
    isolation = isolation_for(replica_id, request.isolation_level)
    topics = context.services.metadata.image.topics
    manager = broker.replica_manager
    fetch: FetchContext = manager.fetch_sessions.context(
        request.session_id,
        request.session_epoch,
        _wanted(request, version, topics),
        _forgotten(request, version),
        uses_topic_ids=version >= 13,
        privileged=replica_id >= 0,
        asker=(replica_id, replica_epoch, manager.cluster.alive_broker_epoch(replica_id)),
    )
    known: list[FetchPartition] = []
    unknown: Reads = []
    for partition in fetch.partitions:
        if partition.topic is None:
            name = topics.topic_name(partition.topic_id)
            if name is None:
                unknown.append((partition, PartitionRead(ErrorCode.UNKNOWN_TOPIC_ID)))
                continue
            fetch.name(partition, name)
        known.append(partition)
    if context.services.authorizer is not None:
        if replica_id >= 0:
            if not context.allows(access.FETCH_AS_FOLLOWER):
                everything = [partition for partition, _ in unknown] + known
                refused: Reads = [(partition, PartitionRead(access.FETCH_AS_FOLLOWER.error)) for partition in everything]
                return _respond(context, manager, fetch, refused, with_leaders=False)
        else:
            denied = context.denied(access.FETCH_TOPIC, [partition.topic or "" for partition in known])
            if denied:
                unknown += [(partition, PartitionRead(access.FETCH_TOPIC.error)) for partition in known if partition.topic in denied]
                known = [partition for partition in known if partition.topic not in denied]
    session = fetch.subscription
    if not known and (session is None or not session.has_clean):
        return _respond(context, manager, fetch, unknown, with_leaders=replica_id < 0)
    max_bytes = min(request.max_bytes, manager.fetch_max_bytes)
    if context.meter is not None and replica_id < 0:
        max_bytes = int(min(max_bytes, context.meter.most_to_fetch()))
    params = FetchParams(
        replica_id,
        isolation,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        replica_epoch=replica_epoch,
        leader_only=replica_id >= 0 or (replica_id == -1 and version < 11),
        client_rack=request.rack_id if version >= 11 else "",
        listener=context.listener_name,
    )
    reads = manager.reader.fetch(params, known) if session is None else manager.reader.fetch_in_session(params, known, session)
    if isinstance(reads, Deferred):
        result: Deferred[FetchResponse] = Deferred()
        reads.add_callback(lambda later: _complete_later(result, context, manager, fetch, later, unknown, replica_id < 0))
        return result
    return _respond(context, manager, fetch, reads + unknown if unknown else reads, with_leaders=replica_id < 0)


def error_response(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """Return a response with the error at the top level and, for requests without topic ids, for each partition."""
    return FetchResponse(
        error_code=error.code,
        session_id=request.session_id,
        responses=[
            TopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_error(partition.partition, error.code, aborted=[]) for partition in topic.partitions],
            )
            for topic in request.topics
            if topic.topic
        ],
    )


def _wanted(request: FetchRequest, version: int, topics: TopicsImage) -> dict[PartitionKey, FetchPartition]:
    wanted: dict[PartitionKey, FetchPartition] = {}
    for topic in request.topics:
        topic_id = topic.topic_id
        name: str | None = topic.topic
        key: int | str = topic.topic
        if version >= 13:
            name = topics.topic_name(topic_id)
            key = topic_id.int
        for partition in topic.partitions:
            wanted[(key, partition.partition)] = FetchPartition(
                name,
                topic_id,
                partition.partition,
                fetch_offset=partition.fetch_offset,
                max_bytes=partition.partition_max_bytes,
                log_start_offset=partition.log_start_offset,
                # Any negative epoch means "none".
                current_leader_epoch=max(partition.current_leader_epoch, -1),
                last_fetched_epoch=max(partition.last_fetched_epoch, -1),
            )
    return wanted


def _forgotten(request: FetchRequest, version: int) -> Sequence[PartitionKey]:
    forgotten = request.forgotten_topics_data
    if not forgotten:
        return ()
    if version >= 13:
        return [(topic.topic_id.int, partition) for topic in forgotten for partition in topic.partitions]
    return [(topic.topic, partition) for topic in forgotten for partition in topic.partitions]


def _complete_later(
    result: Deferred[FetchResponse],
    context: RequestContext,
    manager: ReplicaManager,
    fetch: FetchContext,
    reads: Deferred[Reads],
    unknown: Reads,
    with_leaders: bool,
) -> None:
    try:
        result.complete(_respond(context, manager, fetch, reads.result() + unknown, with_leaders=with_leaders))
    except Exception as error:
        result.fail(error)


def _respond(context: RequestContext, manager: ReplicaManager, fetch: FetchContext, reads: Reads, *, with_leaders: bool) -> FetchResponse:
    """Return the response. Without `with_leaders` it names no leaders: followers learn them from the controller."""
    meter = context.meter
    if meter is not None:
        if not with_leaders:
            meter.exempt = True
        elif meter.fetched(_size(context, manager, fetch, reads)):
            return _postponed(fetch, reads)
    error, session_id, named = fetch.respond(_unknown_last(reads))
    if error is not ErrorCode.NONE:
        for _, read in reads:
            read.release()
    if not with_leaders and (quota := manager.leader_quota) is not None:
        sent = sum([read.size for partition, read in named if quota.holds_for(partition.topic, partition.partition)])
        quota.record(sent, int(context.services.clock.monotonic() * 1000))
    responses: list[FetchResponse.FetchableTopicResponse] = []
    endpoints: dict[int, FetchResponse.NodeEndpoint] = {}
    last: FetchPartition | None = None
    for partition, read in named:
        traffic = read.traffic
        if traffic is not None:
            if with_leaders:
                traffic.bytes_out += read.size
            else:
                traffic.replication_bytes_out += read.size
                if read.reassigning:
                    traffic.reassignment_bytes_out += read.size
        data = _partition_response(context, manager, partition, read, endpoints)
        # Neighbouring partitions of one topic share an entry; the session decides the order of the partitions.
        if last is not None and last.topic == partition.topic and last.topic_id == partition.topic_id:
            responses[-1].partitions.append(data)
        else:
            responses.append(TopicResponse(topic=partition.topic or "", topic_id=partition.topic_id, partitions=[data]))
        last = partition
    nodes = list(endpoints.values()) if with_leaders else []
    return FetchResponse(error_code=error, session_id=session_id, responses=responses, node_endpoints=nodes)


def _size(context: RequestContext, manager: ReplicaManager, fetch: FetchContext, reads: Reads) -> int:
    """Return the bytes of the response without its header, including the size field before it (FetchResponse.sizeOf)."""
    by_topic = groupby(fetch.would_tell(reads), key=lambda pair: (pair[0].topic or "", pair[0].topic_id))
    topics = [
        TopicResponse(topic=name, topic_id=topic_id, partitions=[_partition_response(context, manager, *pair, {}) for pair in pairs])
        for (name, topic_id), pairs in by_topic
    ]
    chunks = FetchResponse(responses=topics).encode_chunks(context.api_version)
    return 4 + sum([_length(chunk) for chunk in chunks])


def _length(chunk: Chunk) -> int:
    return len(chunk) if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.size


def _postponed(fetch: FetchContext, reads: Reads) -> FetchResponse:
    """Return an empty response for a client that has to wait because of its quota, and release what was read."""
    for _, read in reads:
        read.release()
    error, session_id = fetch.postpone()
    return FetchResponse(error_code=error, session_id=session_id)


def _unknown_last(reads: Reads) -> Reads:
    # Kafka sets these partitions aside before it reads, and a session orders its partitions as in its responses.
    if all(read.error is ErrorCode.NONE for _, read in reads):
        return reads
    return sorted(reads, key=lambda pair: pair[1].error in _UNKNOWN)


def _partition_response(
    context: RequestContext,
    manager: ReplicaManager,
    partition: FetchPartition,
    read: PartitionRead,
    endpoints: dict[int, FetchResponse.NodeEndpoint],
) -> FetchResponse.PartitionData:
    error = read.error
    if error is not ErrorCode.NONE:
        data = _error(partition.partition, error)
        if error is ErrorCode.KAFKA_STORAGE_ERROR and context.api_version <= 5:
            # These clients do not know the code; NOT_LEADER_OR_FOLLOWER makes them look for the leader.
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error in _MOVED and context.api_version >= 16:
            _name_leader(context, manager, partition, data, endpoints)
        return data
    data = PartitionResponse(
        partition_index=partition.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=read.preferred_read_replica,
        records=read.slices,
    )
    if read.aborted is not None:
        data.aborted_transactions = [
            FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in read.aborted
        ]
    if read.diverging_epoch is not None:
        epoch, end_offset = read.diverging_epoch
        data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _error(partition: int, error: ErrorCode, aborted: list[FetchResponse.AbortedTransaction] | None = None) -> FetchResponse.PartitionData:
    # Like Kafka, set an empty list for failures before the read, and null for errors of the read.
    if error in _UNKNOWN:
        aborted = []
    return PartitionResponse(partition_index=partition, error_code=error, high_watermark=-1, aborted_transactions=aborted, records=b"")


def _name_leader(
    context: RequestContext,
    manager: ReplicaManager,
    partition: FetchPartition,
    data: FetchResponse.PartitionData,
    endpoints: dict[int, FetchResponse.NodeEndpoint],
) -> None:
    leader = manager.current_leader(partition.topic_partition, context.listener_name)
    data.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
    if leader.host is not None:
        endpoints[leader.leader_id] = FetchResponse.NodeEndpoint(
            node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack
        )
