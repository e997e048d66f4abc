"""DescribeTopicPartitions (API key 75): topics page by page, with eligible leader replicas (KIP-966).

ACL: DESCRIBE on Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.keys.cluster import MAX_REQUEST_PARTITION_SIZE_LIMIT
from odradek.handlers.access import TOPIC_PARTITIONS
from odradek.handlers.operations import authorized_operations
from odradek.metadata.queries import describe_topics
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


DescribedTopic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest, broker: BrokerParts) -> DescribeTopicPartitionsResponse:
    image = context.services.metadata.image
    cursor = request.cursor
    first_topic = "" if cursor is None else cursor.topic_name
    everything = not request.topics
    asked = set(image.topics.by_name) if everything else {topic.name for topic in request.topics}
    names = {name for name in asked if name >= first_topic}
    if cursor is not None and not everything and first_topic not in names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The requested topics do not contain the cursor's topic {first_topic}")
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The cursor's partition {cursor.partition_index} is not valid")
    denied = context.denied(TOPIC_PARTITIONS, names)
    limit = max(min(context.services.config[MAX_REQUEST_PARTITION_SIZE_LIMIT], request.response_partition_limit), 1)
    response = describe_topics(
        image,
        sorted(names - denied),
        context.listener_name,
        first_topic=first_topic,
        first_partition=0 if cursor is None else cursor.partition_index,
        limit=limit,
        only_existing=everything,
    )
    for topic in response.topics:
        topic.topic_authorized_operations = authorized_operations(context, ResourceType.TOPIC, topic.name or "")
    if not everything:
        response.topics += [DescribedTopic(error_code=TOPIC_PARTITIONS.error, name=name) for name in sorted(denied)]
    return response


def error_response(request: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    """Return a response with `error` for every topic of the request."""
    return DescribeTopicPartitionsResponse(topics=[DescribedTopic(error_code=error.code, name=topic.name) for topic in request.topics])
