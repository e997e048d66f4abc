"""Metadata (API key 3): brokers, topics, partitions and their leaders. Creates missing topics that are asked for by name, if enabled.

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
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts, Services
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

Topic = MetadataResponse.MetadataResponseTopic

TOPIC_IDS_SINCE = 12
_FEW, _FEW_TOPICS = 100, 20
"""Largest numbers of partitions and topics of a response that is built at once.

Others take several loop iterations (`server.requests.long_answers`).
"""


def handle(context: RequestContext, request: MetadataRequest, broker: BrokerParts) -> Entries[MetadataResponse] | MetadataResponse:
    version = context.api_version
    image = context.services.metadata.image
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
        create = request.allow_auto_topic_creation and not by_id and context.services.config.auto_create_topics_enable
        if create and missing and not context.allows(access.METADATA_CREATION):
            uncreatable = context.denied(access.METADATA_TOPIC_CREATION, missing)
            refused += [_uncreatable_topic(name) for name in missing if name in uncreatable]
            missing = [name for name in missing if name not in uncreatable]
    if create:
        from odradek.handlers.admin.auto_creation import create_topics

        creatable = [name for name in missing if unknown_topic_error(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        create_topics(broker, creatable, context.client_id, context if context.meter is not None else None)
    found = metadata_topics(image, names, context.listener_name, hide_unreachable=version == 0, listener_errors=version >= 6)
    topics = chain(unknown_ids, _with_operations(context, request, chain(found, map(_missing_topic, missing))), refused)
    response = _of_cluster(context, request)
    if len(names) <= _FEW_TOPICS and _partitions(image, names) <= _FEW:
        # Nearly all responses are that small, and cost less when they are built at once.
        response.topics = [topic for topic in topics if topic is not None]
        return response
    return _in_turns(topics, response)


def _partitions(image: MetadataImage, names: list[str]) -> int:
    return sum([len(topic.partitions) for topic in map(image.topics.by_name.get, names) if topic is not None])


def _in_turns(topics: Iterator[Topic | None], response: MetadataResponse) -> Entries[MetadataResponse]:
    yield from topics
    return response


def _with_operations(context: RequestContext, request: MetadataRequest, topics: Iterator[Topic | None]) -> Iterator[Topic | None]:
    """Yield the topics, with the client's authorized operations if the request asks for them."""
    wanted = context.api_version >= 8 and request.include_topic_authorized_operations
    for topic in topics:
        if wanted and topic is not None:
            topic.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, topic.name or "")
        yield topic


def _of_cluster(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Return the response without topics."""
    version, services = context.api_version, context.services
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
    """Return a response with `error` for every topic of the request."""
    topics = [Topic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics or []]
    return MetadataResponse(topics=topics, error_code=error.code)


def any_alive_broker(image: MetadataImage, services: Services) -> int:
    """Return the broker that clients see as the controller, or -1 when no broker is alive.

    With KRaft any broker will do, since all brokers forward.
    """
    alive = [broker.broker_id for broker in image.cluster.alive_brokers()]
    if not alive:
        return -1
    return alive[0] if len(alive) == 1 else services.random.choice(alive)


def _check(asked: list[MetadataRequest.MetadataRequestTopic], version: int) -> None:
    """Raise KafkaError INVALID_REQUEST for an entry without name and id, and for null names or ids before version 12.

    Versions 10 and 11 have fields for topic ids but give them no meaning.
    """
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
    """Return the requested names without duplicates, the errors for unknown ids, and whether the request uses ids.

    In a request with ids, names are ignored.
    """
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
    """Return the entry of a denied topic. For a topic requested by id the entry does not reveal the name."""
    code = access.METADATA_TOPIC.error
    if by_id:
        return Topic(error_code=code, name=None, topic_id=image.topics.topic_id(name) or ZERO_UUID, partitions=[])
    return Topic(error_code=code, name=name, partitions=[])


def _uncreatable_topic(name: str) -> MetadataResponse.MetadataResponseTopic:
    return Topic(error_code=access.METADATA_TOPIC_CREATION.error, name=name, is_internal=is_internal(name), partitions=[])


def _missing_topic(name: str) -> MetadataResponse.MetadataResponseTopic:
    return Topic(error_code=unknown_topic_error(name), name=name, is_internal=is_internal(name))
