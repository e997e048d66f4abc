"""OffsetCommit (8): commits the offsets of a group or of a consumer without a group; since version 10 by topic ids.

ACL: READ on the group and on each topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.service import commit_error
from odradek.handlers.access import OFFSET_COMMIT_GROUP, OFFSET_COMMIT_TOPIC
from odradek.handlers.group.caller import caller_of
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

RequestTopic = OffsetCommitRequest.OffsetCommitRequestTopic
ResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic
ResponsePartition = OffsetCommitResponse.OffsetCommitResponsePartition

_TOPIC_IDS_SINCE = 10


def handle(
    context: RequestContext, request: OffsetCommitRequest, broker: BrokerParts
) -> Deferred[OffsetCommitResponse] | OffsetCommitResponse:
    context.require(OFFSET_COMMIT_GROUP, request.group_id)
    image = context.services.metadata.image
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    refused: list[ResponseTopic] = []
    valid: list[RequestTopic] = []
    named = [image.topics.topic_name(topic.topic_id) if by_id else topic.name for topic in request.topics]
    denied = context.denied(OFFSET_COMMIT_TOPIC, [name for name in named if name is not None])
    for topic, name in zip(request.topics, named, strict=True):
        if name in denied:
            refused.append(_refusal(topic, [each.partition_index for each in topic.partitions], OFFSET_COMMIT_TOPIC.error))
            continue
        found = image.topics.by_id.get(topic.topic_id) if by_id else image.topics.by_name.get(topic.name)
        if found is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(_refusal(topic, [partition.partition_index for partition in topic.partitions], code))
            continue
        # Add the id to a request by name: the record says to which topic of that name the offsets belong.
        topic.name, topic.topic_id = found.name, found.topic_id
        known = found.partitions
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in known]
        if missing:
            refused.append(_refusal(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [each for each in topic.partitions if each.partition_index in known]
        if topic.partitions:
            valid.append(topic)
    if not valid:
        return OffsetCommitResponse(topics=refused)
    request.topics = valid
    committed = broker.groups.commit_offsets(caller_of(context), request)
    return committed if not refused else _merged(refused, committed)


def error_response(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """Return a response with `error` for every partition."""
    return commit_error(request, error.code)


def _refusal(topic: RequestTopic, partitions: list[int], code: ErrorCode) -> ResponseTopic:
    return ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[ResponsePartition(partition_index=partition, error_code=code) for partition in partitions],
    )


def _merged(refused: list[ResponseTopic], committed: Deferred[OffsetCommitResponse]) -> Deferred[OffsetCommitResponse]:
    def merge(response: OffsetCommitResponse) -> OffsetCommitResponse:
        topics = {(topic.name, topic.topic_id): topic for topic in refused}
        for topic in response.topics:
            known = topics.setdefault((topic.name, topic.topic_id), topic)
            if known is not topic:
                known.partitions += topic.partitions
        return OffsetCommitResponse(topics=list(topics.values()))

    return committed.then(merge)
