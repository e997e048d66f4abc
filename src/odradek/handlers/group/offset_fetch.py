"""OffsetFetch (9): offsets that a group has committed; since version 8 of several groups, since 10 by topic ids.

ACL: DESCRIBE on the group and on each topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.repeats import Repeats
from odradek.handlers.access import OFFSET_FETCH_ANY_TOPIC, OFFSET_FETCH_GROUP, OFFSET_FETCH_TOPIC
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts
    from odradek.metadata.image import MetadataImage

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopic = OffsetFetchRequest.OffsetFetchRequestTopics
Group = OffsetFetchResponse.OffsetFetchResponseGroup
Topic = OffsetFetchResponse.OffsetFetchResponseTopics
Partition = OffsetFetchResponse.OffsetFetchResponsePartitions

_ERROR_CODE_SINCE = 2
_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NO_OFFSET = -1


def handle(
    context: RequestContext, request: OffsetFetchRequest, broker: BrokerParts
) -> Entries[OffsetFetchResponse] | Deferred[OffsetFetchResponse]:
    version = context.api_version
    repeats = Repeats()
    if version >= _GROUPS_SINCE:
        return _groups(context, request, broker, repeats)
    group = _without_repeats(_single(request), repeats)
    fetched = _fetch(context, group, broker, require_stable=request.require_stable, by_id=False)
    return fetched.then(lambda found: _old_response(request, found, version))


def _groups(context: RequestContext, request: OffsetFetchRequest, broker: BrokerParts, repeats: Repeats) -> Entries[OffsetFetchResponse]:
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    for group in request.groups:
        if group.topics is None and not repeats.answered(group.group_id):
            continue
        asked = _without_repeats(group, repeats)
        yield _fetch(context, asked, broker, require_stable=request.require_stable, by_id=by_id)
    return OffsetFetchResponse()


def _without_repeats(group: RequestGroup, repeats: Repeats) -> RequestGroup:
    """Drop repetitions of a partition beyond the limit of `base.repeats`, because the metadata of a committed offset may be long."""
    for topic in group.topics or ():
        name = (group.group_id, topic.name, topic.topic_id)
        topic.partition_indexes = [index for index in topic.partition_indexes if repeats.answered((name, index))]
    return group


def error_response(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """Return a response with the error for every group and, before version 8, for every partition.

    Version 1 has no other field for an error.
    """
    return OffsetFetchResponse(
        error_code=error.code,
        groups=[Group(group_id=group.group_id, topics=[], error_code=error.code) for group in request.groups],
        topics=[_old_topic(_failed_topic(topic, error.code)) for topic in _single(request).topics or ()],
    )


def _single(request: OffsetFetchRequest) -> RequestGroup:
    topics = None
    if request.topics is not None:
        topics = [RequestTopic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
    return RequestGroup(group_id=request.group_id, topics=topics)


def _fetch(context: RequestContext, group: RequestGroup, broker: BrokerParts, *, require_stable: bool, by_id: bool) -> Deferred[Group]:
    if not context.allows(OFFSET_FETCH_GROUP, group.group_id):
        return Deferred.of(Group(group_id=group.group_id, topics=[], error_code=OFFSET_FETCH_GROUP.error))
    if not by_id and context.services.authorizer is None:
        return broker.groups.fetch_offsets(group, require_stable=require_stable)
    image = context.services.metadata.image
    unknown: list[Topic] = []
    if group.topics is not None:
        known: list[RequestTopic] = []
        for topic in group.topics:
            name = image.topics.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                unknown.append(_failed_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                topic.name = name
                known.append(topic)
        denied = context.denied(OFFSET_FETCH_TOPIC, [topic.name for topic in known])
        if denied:
            unknown += [_failed_topic(topic, OFFSET_FETCH_TOPIC.error) for topic in known if topic.name in denied]
            known = [topic for topic in known if topic.name not in denied]
        group = RequestGroup(group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=known)

    def fetched(response: Group) -> Group:
        if not response.error_code:
            if group.topics is None:
                hidden = context.denied(OFFSET_FETCH_ANY_TOPIC, [topic.name for topic in response.topics])
                shown = [topic for topic in response.topics if topic.name not in hidden]
                response.topics = _with_ids(shown, image) if by_id else shown
            else:
                response.topics += unknown
        return response

    return broker.groups.fetch_offsets(group, require_stable=require_stable).then(fetched)


def _with_ids(topics: list[Topic], image: MetadataImage) -> list[Topic]:
    """Return the topics with their ids. Deleted topics are left out, because no id names them."""
    found: list[Topic] = []
    for topic in topics:
        topic_id = image.topics.topic_id(topic.name)
        if topic_id is not None:
            topic.topic_id = topic_id
            found.append(topic)
    return found


def _failed_topic(topic: RequestTopic, code: ErrorCode) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            Partition(partition_index=partition, committed_offset=_NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=code)
            for partition in topic.partition_indexes
        ],
    )


def _old_response(request: OffsetFetchRequest, group: Group, version: int) -> OffsetFetchResponse:
    """Return the response for a single group. In version 1 only partitions have errors."""
    topics = group.topics
    if group.error_code and version < _ERROR_CODE_SINCE:
        code = ErrorCode(group.error_code)
        topics = [_failed_topic(topic, code) for topic in _single(request).topics or ()]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[_old_topic(topic) for topic in topics],
    )


def _old_topic(topic: Topic) -> OffsetFetchResponse.OffsetFetchResponseTopic:
    return OffsetFetchResponse.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponse.OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
