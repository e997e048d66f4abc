"""OffsetDelete (47): deletes offsets of a group in topics to which no member of the group is subscribed.

ACL: DELETE on the group, READ on each topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.handlers.access import DELETE_OFFSETS_GROUP, DELETE_OFFSETS_TOPIC
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

RequestTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic
ResponseTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
ResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(
    context: RequestContext, request: OffsetDeleteRequest, broker: BrokerParts
) -> Deferred[OffsetDeleteResponse] | OffsetDeleteResponse:
    context.require(DELETE_OFFSETS_GROUP, request.group_id)
    denied = context.denied(DELETE_OFFSETS_TOPIC, [topic.name for topic in request.topics])
    topics = context.services.metadata.image.topics
    refused: list[ResponseTopic] = []
    valid: list[RequestTopic] = []
    for topic in request.topics:
        found = topics.by_name.get(topic.name)
        numbers = [each.partition_index for each in topic.partitions]
        code = DELETE_OFFSETS_TOPIC.error if topic.name in denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = numbers if found is None or topic.name in denied else [number for number in numbers if number not in found.partitions]
        if missing:
            refused.append(
                ResponseTopic(
                    name=topic.name,
                    partitions=[ResponsePartition(partition_index=each, error_code=code) for each in missing],
                )
            )
        present = [each for each in topic.partitions if each.partition_index not in missing]
        if present:
            valid.append(RequestTopic(name=topic.name, partitions=present))
    if not valid and refused:
        return OffsetDeleteResponse(topics=refused)
    request.topics = valid
    deleted = broker.groups.delete_offsets(request)
    return deleted if not refused else _merged(refused, deleted)


def _merged(refused: list[ResponseTopic], deleted: Deferred[OffsetDeleteResponse]) -> Deferred[OffsetDeleteResponse]:
    def merge(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            # An error of the whole group is the whole response; it has no topics.
            return response
        topics = {topic.name: topic for topic in refused}
        for topic in response.topics:
            known = topics.setdefault(topic.name, topic)
            if known is not topic:
                known.partitions += topic.partitions
        return OffsetDeleteResponse(topics=list(topics.values()))

    return deleted.then(merge)
