"""Produce (API key 0): appends record batches.

- acks=0 gets no response. An error then closes the connection, so that the client looks for the leader again.
- After a request with acks=-1 has appended, the next Produce request of its connection may be served, while the first waits for the
  replicas (`Applied`).
- A transaction's first batch in a partition waits until the coordinator confirms that the partition is in the transaction. From version 12
  on the coordinator adds the partition (KIP-890).
- Versions from 3 are served. ApiVersions lists versions from 0, because old librdkafka takes a higher one as a broker without message
  format 2 (KAFKA-18659).

ACL: WRITE on Topic; WRITE on TransactionalId for transactional batches. Quota: produce bandwidth, request time.
Known gaps: null records are answered INVALID_RECORD; Kafka 4.3 does not respond to them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.handlers import access
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import records_view
from odradek.records.batch import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    TRANSACTIONAL_MASK,
    BatchHeader,
    iter_headers,
)
from odradek.records.compression import Compression
from odradek.replication.delayed_produce import Appends, PartitionAppend
from odradek.replication.verification import support_of_produce
from odradek.storage.append import AppendOrigin

if TYPE_CHECKING:
    from uuid import UUID

    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts
    from odradek.replication.replica_manager import ReplicaManager

ADMIN_CLIENT_ID = "__admin_client"
"""Client id that may write to internal topics (kafka.admin.AdminUtils)."""

COMPRESSION_MASK = 0x07
_NOTHING: frozenset[str] = frozenset()
_SHORTEST_RECORD = 14
_BATCH = struct.Struct(">8xi4xb4xh")
"""Batch length, magic and attributes."""

TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = ProduceResponse.PartitionProduceResponse


def handle(
    context: RequestContext, request: ProduceRequest, broker: BrokerParts
) -> ProduceResponse | Deferred[ProduceResponse | None] | None:
    version = context.api_version
    manager = broker.replica_manager
    entries: dict[TopicPartition, memoryview] = {}
    refused: dict[TopicPartition, PartitionAppend] = {}
    unknown_ids = False
    denied = _denied(context, request) if context.services.authorizer is not None else _NOTHING
    for topic in request.topic_data:
        name = topic.name
        if version >= 13:
            known = context.services.metadata.image.topics.topic_name(topic.topic_id)
            if known is None:
                unknown_ids = True
                continue
            name = known
        for partition in topic.partition_data:
            key = TopicPartition(name, partition.index)
            records = records_view(partition.records)
            error = access.PRODUCE_TOPIC.error if name in denied else check_records(records, version, request.transactional_id)
            if error is None:
                entries[key] = records
            else:
                refused[key] = PartitionAppend(key, manager.partitions.error(key, error))
    if entries:
        answer = manager.verified_appender.append(
            list(entries.items()),
            required_acks=request.acks,
            timeout_ms=request.timeout_ms,
            origin=AppendOrigin.CLIENT,
            transactional_id=request.transactional_id,
            support=support_of_produce(version),
            internal_topics_allowed=context.client_id == ADMIN_CLIENT_ID,
        )
        if isinstance(answer, Deferred):
            result: Deferred[ProduceResponse | None] = Applied() if isinstance(answer, Applied) else Deferred()
            _release_records(request)
            answer.add_callback(lambda appends: _complete_later(result, context, manager, request, refused, appends, unknown_ids))
            return result
    else:
        answer = []
    return _respond(context, manager, request, refused, answer, unknown_ids)


def _denied(context: RequestContext, request: ProduceRequest) -> frozenset[str]:
    """Return the topics to which the client may not write. Raises KafkaError when the client may not use its transactional id."""
    names: list[str] = []
    transactional = False
    for topic in request.topic_data:
        name = topic.name or context.services.metadata.image.topics.topic_name(topic.topic_id)
        for partition in topic.partition_data:
            records = records_view(partition.records)
            if len(records) >= HEADER_SIZE:
                _, magic, attributes = _BATCH.unpack_from(records)
                transactional = transactional or (magic == MAGIC_V2 and bool(attributes & TRANSACTIONAL_MASK))
            if name:
                names.append(name)
    if transactional and request.transactional_id is not None:
        context.require(access.PRODUCE_TRANSACTION, request.transactional_id)
    return context.denied(access.PRODUCE_TOPIC, names)


def _release_records(request: ProduceRequest) -> None:
    """Drop the records of a request that waits: they would keep the receive buffer alive, and the response needs only the names."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            partition.records = None


def error_response(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """Return a response with `error` for every partition of the request. Raises ProtocolError with acks=0, which closes the connection."""
    if request.acks == 0:
        raise ProtocolError(f"a produce request with acks=0 failed with {error}")
    return ProduceResponse(
        responses=[
            TopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionResponse(index=partition.index, error_code=error.code, base_offset=-1, error_message=error.message)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def check_records(records: memoryview, version: int, transactional_id: str | None) -> ErrorCode | None:
    """Check the records of a partition: exactly one batch of magic 2, with zstd from version 7 on (ProduceRequest.validateRecords).

    Return the partition's error or None. Raises KafkaError for the whole request: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for a transactional
    batch without a transactional id, CORRUPT_MESSAGE when the first batch has no plausible header.
    """
    if len(records) >= HEADER_SIZE:
        length, magic, attributes = _BATCH.unpack_from(records)
        if magic == MAGIC_V2 and length + LOG_OVERHEAD == len(records):
            if attributes & TRANSACTIONAL_MASK and transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if version < 7 and attributes & COMPRESSION_MASK == Compression.ZSTD:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            return None
    _check_prefix(records)
    headers: list[BatchHeader] = []
    try:
        headers += [header for _, header in iter_headers(records)]
    except (KafkaError, ProtocolError):
        return ErrorCode.CORRUPT_MESSAGE
    if not headers or headers[0].magic != MAGIC_V2 or len(headers) > 1:
        return ErrorCode.INVALID_RECORD
    if headers[0].is_transactional and transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if version < 7 and headers[0].attributes & COMPRESSION_MASK == Compression.ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return None


def _check_prefix(records: memoryview) -> None:
    # If Kafka cannot skip the batch (ByteBufferLogInputStream), it refuses the whole request, because it searches for transactional batches
    # first.
    if len(records) < LOG_OVERHEAD:
        return
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < _SHORTEST_RECORD:
        message = f"Record size {length} is less than the minimum record overhead ({_SHORTEST_RECORD})"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
    if len(records) < HEADER_SIZE_UP_TO_MAGIC:
        return
    magic = int.from_bytes(records[MAGIC_OFFSET : MAGIC_OFFSET + 1], "big", signed=True)
    if not 0 <= magic <= MAGIC_V2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")


def _complete_later(
    result: Deferred[ProduceResponse | None],
    context: RequestContext,
    manager: ReplicaManager,
    request: ProduceRequest,
    refused: dict[TopicPartition, PartitionAppend],
    appends: Deferred[Appends],
    unknown_ids: bool,
) -> None:
    try:
        response = _respond(context, manager, request, refused, appends.result(), unknown_ids)
    except Exception as error:
        result.fail(error)
        return
    result.complete(response)


def _respond(
    context: RequestContext,
    manager: ReplicaManager,
    request: ProduceRequest,
    refused: dict[TopicPartition, PartitionAppend],
    appends: Appends,
    unknown_ids: bool,
) -> ProduceResponse | None:
    if context.meter is not None:
        context.meter.produced(request.acks)
    if request.acks == 0:
        failed = unknown_ids or bool(refused) or any(append.error is not ErrorCode.NONE for append in appends)
        if failed:
            raise ProtocolError("a produce request with acks=0 failed for some of its partitions")
        return None
    endpoints: dict[int, ProduceResponse.NodeEndpoint] = {}
    if len(appends) == 1 and not refused and len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        # The most frequent case: one batch for one partition.
        topic = request.topic_data[0]
        answered = [_partition_response(context, manager, appends[0], endpoints)]
        only = TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answered)
        return ProduceResponse(responses=[only], node_endpoints=list(endpoints.values()))
    by_partition = refused
    for append in appends:
        by_partition[append.topic_partition] = append
    responses = _in_order(context, manager, request, by_partition, endpoints)
    return ProduceResponse(responses=responses, node_endpoints=list(endpoints.values()))


def _in_order(
    context: RequestContext,
    manager: ReplicaManager,
    request: ProduceRequest,
    by_partition: dict[TopicPartition, PartitionAppend],
    endpoints: dict[int, ProduceResponse.NodeEndpoint],
) -> list[ProduceResponse.TopicProduceResponse]:
    version = context.api_version
    topics = context.services.metadata.image.topics
    responses: dict[str | UUID, ProduceResponse.TopicProduceResponse] = {}
    for topic in request.topic_data:
        name: str | None = topic.name if version < 13 else topics.topic_name(topic.topic_id)
        # A topic named twice has one entry in the response, with the partitions of both.
        key = topic.name if version < 13 else topic.topic_id
        earlier = responses.get(key)
        answered: list[ProduceResponse.PartitionProduceResponse] = [] if earlier is None else earlier.partition_responses
        for partition in topic.partition_data:
            # A partition named twice has one entry, at its first position. The last records of the partition count.
            if name is None:
                answered.append(PartitionResponse(index=partition.index, error_code=ErrorCode.UNKNOWN_TOPIC_ID, base_offset=-1))
                continue
            outcome = by_partition.pop(TopicPartition(name, partition.index), None)
            if outcome is not None:
                answered.append(_partition_response(context, manager, outcome, endpoints))
        if answered and earlier is None:
            responses[key] = TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answered)
    return list(responses.values())


def _partition_response(
    context: RequestContext, manager: ReplicaManager, append: PartitionAppend, endpoints: dict[int, ProduceResponse.NodeEndpoint]
) -> ProduceResponse.PartitionProduceResponse:
    response = PartitionResponse(
        index=append.topic_partition.partition,
        error_code=append.error,
        base_offset=append.base_offset,
        log_append_time_ms=append.log_append_time_ms,
        log_start_offset=append.log_start_offset,
    )
    if append.error is ErrorCode.NONE:
        return response
    response.error_message = append.error_message
    if append.record_errors:
        response.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in append.record_errors
        ]
    if append.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.api_version >= 10:
        leader = manager.current_leader(append.topic_partition, context.listener_name)
        response.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        if leader.host is not None:
            endpoints[leader.leader_id] = ProduceResponse.NodeEndpoint(
                node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack
            )
    return response
