"""Metadata (API key 3): brokers, topics, partitions and their leaders; creates topics that are asked for by name where that is on.

ACL: DESCRIBE on Topic, CREATE on Topic or Cluster for automatic creation. Quota: request time, controller mutations.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.handlers import access
from odradek.handlers.operations import authorized_operations
from odradek.metadata.queries import metadata_topics, unknown_topic_error, with_listener
from odradek.metadata.topic_names import is_internal
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage
    from odradek.server.context import RequestContext
    from odradek.server.long_answers import Entries
    from odradek.server.services import Services

logger = logging.getLogger(__name__)

Topic = MetadataResponse.MetadataResponseTopic

TOPIC_IDS_SINCE = 12
_FEW, _FEW_TOPICS = 100, 20
"""Partitions and topics of an answer that is made at once; more are made in turns of the loop (`server.long_answers`)."""


def handle(context: RequestContext, request: MetadataRequest, services: Services) -> Entries[MetadataResponse] | MetadataResponse:
    version = context.api_version
    image = services.metadata.image
    asked = request.topics
    everything = asked is None or (version == 0 and not asked)
    _check(asked or [], version)
    unknown_ids: list[MetadataResponse.MetadataResponseTopic] = []
    by_id = False
    if everything:
        names = list(image.topics.by_name)
    else:
        names, unknown_ids, by_id = _names(image, asked or [])
    refused: list[MetadataResponse.MetadataResponseTopic] = []
    denied = context.denied(access.METADATA_ANY_TOPIC if everything else access.METADATA_TOPIC, names)
    if denied:
        refused = [] if everything else [_denied_topic(image, name, by_id=by_id) for name in names if name in denied]
        names = [name for name in names if name not in denied]
    missing: list[str] = []
    create = False
    if not everything:
        missing = [name for name in names if name not in image.topics.by_name]
        create = request.allow_auto_topic_creation and not by_id and services.config.auto_create_topics_enable
        if create and missing and not context.allows(access.METADATA_CREATION):
            uncreatable = context.denied(access.METADATA_TOPIC_CREATION, missing)
            refused += [_uncreatable_topic(name) for name in missing if name in uncreatable]
            missing = [name for name in missing if name not in uncreatable]
    if create:
        from odradek.handlers.admin.auto_creation import create_topics

        creatable = [name for name in missing if unknown_topic_error(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        create_topics(services, creatable, context.client_id, context if context.meter is not None else None)
    found = metadata_topics(image, names, context.listener_name, hide_unreachable=version == 0, listener_errors=version >= 6)
    topics = chain(unknown_ids, _with_operations(context, request, chain(found, map(_missing_topic, missing))), refused)
    response = _of_cluster(context, request, services)
    if len(names) <= _FEW_TOPICS and _partitions(image, names) <= _FEW:
        # Nearly all are such, and cost less at once.
        response.topics = [topic for topic in topics if topic is not None]
        return response
    return _in_turns(topics, response)


def _partitions(image: MetadataImage, names: list[str]) -> int:
    return sum([len(topic.partitions) for topic in map(image.topics.by_name.get, names) if topic is not None])


def _in_turns(topics: Iterator[Topic | None], response: MetadataResponse) -> Entries[MetadataResponse]:
    yield from topics
    return response


def _with_operations(context: RequestContext, request: MetadataRequest, topics: Iterator[Topic | None]) -> Iterator[Topic | None]:
    """Yield the topics with what the client may do with them, where it wants to know."""
    wanted = context.api_version >= 8 and request.include_topic_authorized_operations
    for topic in topics:
        if wanted and topic is not None:
            topic.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, topic.name or "")
        yield topic


def _of_cluster(context: RequestContext, request: MetadataRequest, services: Services) -> MetadataResponse:
    """Return the response without topics."""
    version = context.api_version
    response = MetadataResponse(cluster_id=services.cluster_id, topics=[])
    for broker, endpoint in with_listener(services.metadata.listed(services.clock.monotonic()), context.listener_name):
        response.brokers.append(
            MetadataResponse.MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        allowed = context.allows(access.METADATA_CLUSTER)
        response.cluster_authorized_operations = authorized_operations(context, ResourceType.CLUSTER) if allowed else 0
    response.controller_id = any_alive_broker(services.metadata.image, services)
    return response


def error_response(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """Every topic of the request with the same error."""
    topics = [Topic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics or []]
    return MetadataResponse(topics=topics, error_code=error.code)


def any_alive_broker(image: MetadataImage, services: Services) -> int:
    """What clients are told is the controller: with KRaft any broker will do, since all forward; -1 when none is alive."""
    alive = [broker.broker_id for broker in image.cluster.alive_brokers()]
    if not alive:
        return -1
    return alive[0] if len(alive) == 1 else services.random.choice(alive)


def _check(asked: list[MetadataRequest.MetadataRequestTopic], version: int) -> None:
    """Versions 10 and 11 have fields for topic ids but no meaning for them; an entry without name and id asks for nothing."""
    if version >= TOPIC_IDS_SINCE:
        for topic in asked:
            if topic.name is None and topic.topic_id == ZERO_UUID:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "A topic needs a name or an id")
        return
    for topic in asked:
        if topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}")


def _names(
    image: MetadataImage, asked: list[MetadataRequest.MetadataRequestTopic]
) -> tuple[list[str], list[MetadataResponse.MetadataResponseTopic], bool]:
    """The names asked for, each once; errors for unknown ids; whether the request goes by ids (then names in it do not count)."""
    ids = dict.fromkeys([topic.topic_id for topic in asked if topic.topic_id.int])
    if not ids:
        return list(dict.fromkeys([topic.name for topic in asked if topic.name is not None])), [], False
    known = [name for name in map(image.topics.topic_name, ids) if name is not None]
    unknown = [
        Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])
        for topic_id in ids
        if topic_id not in image.topics.by_id
    ]
    return known, unknown, True


def _denied_topic(image: MetadataImage, name: str, *, by_id: bool) -> MetadataResponse.MetadataResponseTopic:
    """Of a topic that was asked for by its id, not even the name is told."""
    code = access.METADATA_TOPIC.error
    if by_id:
        return Topic(error_code=code, name=None, topic_id=image.topics.topic_id(name) or ZERO_UUID, partitions=[])
    return Topic(error_code=code, name=name, partitions=[])


def _uncreatable_topic(name: str) -> MetadataResponse.MetadataResponseTopic:
    return Topic(error_code=access.METADATA_TOPIC_CREATION.error, name=name, is_internal=is_internal(name), partitions=[])


def _missing_topic(name: str) -> MetadataResponse.MetadataResponseTopic:
    return Topic(error_code=unknown_topic_error(name), name=name, is_internal=is_internal(name))
