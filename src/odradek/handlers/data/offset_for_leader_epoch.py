"""OffsetForLeaderEpoch (API key 23): end offset of a leader epoch, by which followers and consumers detect truncation (KIP-101, KIP-320).

ACL: CLUSTER_ACTION on Cluster, or DESCRIBE on Topic. Quota: request time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers import access
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts

logger = logging.getLogger(__name__)

TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest, broker: BrokerParts) -> Entries[OffsetForLeaderEpochResponse]:
    denied: frozenset[str] = frozenset()
    if not context.allows(access.EPOCHS_AS_FOLLOWER):
        denied = context.denied(access.EPOCHS_TOPIC, [topic.topic for topic in request.topics])
    for topic in request.topics:
        if topic.topic not in denied:
            found: list[EpochEndOffset] = []
            for partition in topic.partitions:
                found.append(_look_up(topic.topic, partition, broker))
                yield None
            yield TopicResult(topic=topic.topic, partitions=found)
    yield from _refused([topic for topic in request.topics if topic.topic in denied], access.EPOCHS_TOPIC.error)
    return OffsetForLeaderEpochResponse()


def error_response(request: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    """Return a response with `error` for every partition of the request."""
    return OffsetForLeaderEpochResponse(topics=[topic for topic in _refused(request.topics, error.code) if topic is not None])


def _refused(topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic], code: ErrorCode) -> Iterator[TopicResult | None]:
    """Yield the topics with an error for each partition, and None between partitions (`server.requests.long_answers`)."""
    for topic in topics:
        answers: list[EpochEndOffset] = []
        for partition in topic.partitions:
            answers.append(EpochEndOffset(partition=partition.partition, error_code=code))
            yield None
        yield TopicResult(topic=topic.topic, partitions=answers)


def _look_up(
    topic: str, partition: OffsetForLeaderEpochRequest.OffsetForLeaderPartition, broker: BrokerParts
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    key = TopicPartition(topic, partition.partition)
    try:
        epoch, end_offset = broker.replica_manager.offsets.epoch_end(key, partition.current_leader_epoch, partition.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=key.partition, error_code=error.code)
    except Exception:
        logger.exception("OffsetForLeaderEpoch of %s failed", key)
        return EpochEndOffset(partition=key.partition, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return EpochEndOffset(partition=key.partition, leader_epoch=epoch, end_offset=end_offset)
