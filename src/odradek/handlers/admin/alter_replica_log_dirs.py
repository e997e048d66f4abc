"""AlterReplicaLogDirs (API key 34): moves replicas to other log directories of this broker (KIP-113).

ACL: ALTER on Cluster. Quota: request time; replica.alter.log.dirs.io.max.bytes.per.second for the copying.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.text import printable
from odradek.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

logger = logging.getLogger(__name__)

_MOST_LINES = 10
"""Largest number of log lines per request."""


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest, broker: BrokerParts) -> AlterReplicaLogDirsResponse:
    # If a partition is named twice the last directory counts.
    wanted = {
        TopicPartition(topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    refusals: list[str] = []
    codes = {topic_partition: _alter(topic_partition, path, broker, refusals) for topic_partition, path in wanted.items()}
    for line in refusals[:_MOST_LINES]:
        logger.warning("%s", line)
    if len(refusals) > _MOST_LINES:
        logger.warning("%d more replicas of the same request cannot move", len(refusals) - _MOST_LINES)
    return _response(codes)


def _alter(topic_partition: TopicPartition, path: str, broker: BrokerParts, refusals: list[str]) -> ErrorCode:
    """Begin to move a replica, and return the error code for the response. A refusal is also added to `refusals`, with its reason."""
    try:
        broker.replica_manager.alter_log_dir(topic_partition, path)
    except KafkaError as error:
        refusals.append(printable(f"{topic_partition} cannot move to {path}: {error}") if len(refusals) < _MOST_LINES else "")
        # NOT_LEADER_OR_FOLLOWER would make a client try another broker, which cannot help.
        return ErrorCode.REPLICA_NOT_AVAILABLE if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER else error.code
    return ErrorCode.NONE


def _response(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = {}
    for (name, partition), code in codes.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=name)
        topic.partitions.append(AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def error_response(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """Return a response with `error` for every partition of the request."""
    return _response(
        {
            TopicPartition(topic.name, partition): error.code
            for directory in request.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }
    )
