"""DeleteRecords (API key 21): raises the log start offset of partitions, which deletes the records before it (KIP-107).

ACL: DELETE on Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers.access import DELETE_RECORDS
from odradek.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.replication.delete_records import INVALID_LOW_WATERMARK, Deletions

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult


def handle(context: RequestContext, request: DeleteRecordsRequest, broker: BrokerParts) -> Deferred[DeleteRecordsResponse]:
    # If a partition is named twice the last offset counts, as in Kafka.
    denied = context.denied(DELETE_RECORDS, [topic.name for topic in request.topics])
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        if topic.name not in denied
        for partition in topic.partitions
    }
    refused = _refused([topic for topic in request.topics if topic.name in denied], DELETE_RECORDS.error)
    deleted = broker.replica_manager.deleter.delete_records(offsets, request.timeout_ms)
    return deleted.then(lambda deletions: _response(deletions, refused))


def _response(deletions: Deletions, refused: list[TopicResult]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsResponse.DeleteRecordsTopicResult] = {}
    for key, deletion in deletions.items():
        topic = topics.get(key.topic)
        if topic is None:
            topic = topics[key.topic] = TopicResult(name=key.topic, partitions=[])
        topic.partitions.append(
            PartitionResult(partition_index=key.partition, low_watermark=deletion.low_watermark, error_code=deletion.error)
        )
    return DeleteRecordsResponse(topics=list(topics.values()) + refused)


def error_response(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """Return a response with `error` for every partition of the request."""
    return DeleteRecordsResponse(topics=_refused(request.topics, error.code))


def _refused(topics: list[DeleteRecordsRequest.DeleteRecordsTopic], code: ErrorCode) -> list[TopicResult]:
    """Return results with the error for all partitions, with one result per topic, as in Kafka."""
    found: dict[str, TopicResult] = {}
    for topic in topics:
        result = found.setdefault(topic.name, TopicResult(name=topic.name, partitions=[]))
        result.partitions += [
            PartitionResult(partition_index=each.partition_index, low_watermark=INVALID_LOW_WATERMARK, error_code=code)
            for each in topic.partitions
        ]
    return list(found.values())
