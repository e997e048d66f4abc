"""ListOffsets (API key 2): offsets by timestamp and the special positions.

ACL: DESCRIBE on Topic. Quota: request time.
Known gaps: nothing is ever in remote storage, so the tiered positions (-5, -6) answer offset -1.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers import access
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.replication.fetch_params import check_isolation_level

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

logger = logging.getLogger(__name__)

TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse


def handle(context: RequestContext, request: ListOffsetsRequest, services: Services) -> ListOffsetsResponse:
    check_isolation_level(request.isolation_level)
    denied = context.denied(access.LIST_OFFSETS_TOPIC, [topic.name for topic in request.topics])
    refused = [topic for topic in request.topics if topic.name in denied]
    duplicates = _duplicates(request)
    answered: set[TopicPartition] = set()
    responses: dict[str, ListOffsetsResponse.ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        if not topic.partitions or topic.name in denied:
            continue
        response = responses.get(topic.name)
        if response is None:
            response = responses[topic.name] = TopicResponse(name=topic.name, partitions=[])
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if key in answered:
                continue
            answered.add(key)
            if key in duplicates:
                response.partitions.append(_error(partition.partition_index, ErrorCode.INVALID_REQUEST))
            else:
                response.partitions.append(_look_up(context, request, key, partition, services))
    return ListOffsetsResponse(topics=list(responses.values()) + _refused(refused, access.LIST_OFFSETS_TOPIC.error))


def error_response(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """Every partition of the request with the same error."""
    return ListOffsetsResponse(topics=_refused(request.topics, error.code))


def _refused(topics: list[ListOffsetsRequest.ListOffsetsTopic], code: ErrorCode) -> list[ListOffsetsResponse.ListOffsetsTopicResponse]:
    return [
        TopicResponse(name=topic.name, partitions=[_error(partition.partition_index, code) for partition in topic.partitions])
        for topic in topics
    ]


def _duplicates(request: ListOffsetsRequest) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


def _look_up(
    context: RequestContext,
    request: ListOffsetsRequest,
    key: TopicPartition,
    partition: ListOffsetsRequest.ListOffsetsPartition,
    services: Services,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    try:
        found = services.replica_manager.offsets.list_offset(
            key,
            partition.timestamp,
            current_leader_epoch=partition.current_leader_epoch,
            replica_id=request.replica_id,
            isolation_level=request.isolation_level,
            version=context.api_version,
        )
    except KafkaError as error:
        return _error(key.partition, error.code)
    except Exception:
        logger.exception("ListOffsets of %s at %d failed", key, partition.timestamp)
        return _error(key.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
    response = PartitionResponse(partition_index=key.partition, timestamp=found.timestamp, offset=found.offset)
    if context.api_version >= 4:
        response.leader_epoch = found.leader_epoch
    return response


def _error(partition: int, error: ErrorCode) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    return PartitionResponse(partition_index=partition, error_code=error)
