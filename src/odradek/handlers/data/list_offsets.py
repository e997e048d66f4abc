"""ListOffsets (API key 2): offsets by timestamp, and special offsets.

ACL: DESCRIBE on Topic. Quota: request time.
Known gaps: remote storage is always empty, so the tiered positions (-5, -6) give offset -1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers import access
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.replication.fetch_params import check_isolation_level

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts

logger = logging.getLogger(__name__)

RequestTopic = ListOffsetsRequest.ListOffsetsTopic
RequestPartition = ListOffsetsRequest.ListOffsetsPartition
TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse


def handle(context: RequestContext, request: ListOffsetsRequest, broker: BrokerParts) -> Entries[ListOffsetsResponse]:
    check_isolation_level(request.isolation_level)
    denied = context.denied(access.LIST_OFFSETS_TOPIC, [topic.name for topic in request.topics])
    named: dict[str, list[RequestTopic]] = {}
    for topic in request.topics:
        if topic.partitions and topic.name not in denied:
            named.setdefault(topic.name, []).append(topic)
    for name, topics in named.items():
        times: dict[int, int] = {}
        for partition in _partitions(topics):
            times[partition.partition_index] = times.get(partition.partition_index, 0) + 1
            yield None
        answers: list[PartitionResponse] = []
        for partition in _partitions(topics):
            asked = times.pop(partition.partition_index, 0)
            if asked == 1:
                answers.append(_look_up(context, request, TopicPartition(name, partition.partition_index), partition, broker))
            elif asked:
                answers.append(_error(partition.partition_index, ErrorCode.INVALID_REQUEST))
            yield None
        yield TopicResponse(name=name, partitions=answers)
    yield from _refused([topic for topic in request.topics if topic.name in denied], access.LIST_OFFSETS_TOPIC.error)
    return ListOffsetsResponse()


def error_response(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """Return a response with `error` for every partition of the request."""
    return ListOffsetsResponse(topics=[topic for topic in _refused(request.topics, error.code) if topic is not None])


def _partitions(topics: list[RequestTopic]) -> Iterator[RequestPartition]:
    return chain.from_iterable(topic.partitions for topic in topics)


def _refused(topics: list[RequestTopic], code: ErrorCode) -> Iterator[TopicResponse | None]:
    """Yield the topics with an error for each partition, and None between partitions (`server.requests.long_answers`)."""
    for topic in topics:
        answers: list[PartitionResponse] = []
        for partition in topic.partitions:
            answers.append(_error(partition.partition_index, code))
            yield None
        yield TopicResponse(name=topic.name, partitions=answers)


def _look_up(
    context: RequestContext,
    request: ListOffsetsRequest,
    key: TopicPartition,
    partition: ListOffsetsRequest.ListOffsetsPartition,
    broker: BrokerParts,
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    try:
        found = broker.replica_manager.offsets.list_offset(
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
