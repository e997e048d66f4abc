"""DescribeLogDirs (API key 35): log directories of this broker, with their space and replicas (KIP-113, KIP-827, KIP-1066).

ACL: DESCRIBE on Cluster. Quota: request time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.metadata.features import cordoned_log_dirs_supported
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

Result = DescribeLogDirsResponse.DescribeLogDirsResult
_UNKNOWN_LAG = -1
Space = dict[str, tuple[int, int] | OSError]
"""(total bytes, usable bytes) or the error, by log directory."""


def handle(context: RequestContext, request: DescribeLogDirsRequest, broker: BrokerParts) -> Entries[DescribeLogDirsResponse]:
    directories = [directory for directory in broker.log_manager.directories if directory.takes_logs]
    space: Space = {}

    def measure() -> None:
        for path in [directory.path for directory in directories if directory.online]:
            try:
                space[path] = context.services.disk.space(path)
            except OSError as error:
                space[path] = error

    # A disk that hangs must not block the event loop.
    yield broker.replica_manager.run_job(measure)
    wanted: set[TopicPartition] = set()
    for asked in request.topics or ():
        for partition in asked.partitions:
            wanted.add(TopicPartition(asked.topic, partition))
            yield None
    image = context.services.metadata.image
    cordons = cordoned_log_dirs_supported(image.features.metadata_version or 0)
    for directory in directories:
        named = None if request.topics is None else wanted
        yield from _describe(directory, named, space.get(directory.path), broker.replica_manager, cordons=cordons)
    return DescribeLogDirsResponse()


def _describe(
    directory: LogDirectory,
    wanted: set[TopicPartition] | None,
    space: tuple[int, int] | OSError | None,
    manager: ReplicaManager,
    *,
    cordons: bool,
) -> Iterator[Result | None]:
    """Yield the result for the directory, and None between replicas (`server.requests.long_answers`)."""
    if isinstance(space, OSError):
        logger.error("The free space of log directory %s cannot be determined: %s", directory.path, space)
    if not directory.online or space is None or isinstance(space, OSError):
        yield Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
        return
    topics: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    # Copy the items: replicas may be added and removed between two steps.
    for topic_partition, log in [*directory.logs.items(), *directory.future_logs.items()]:
        if wanted is None or topic_partition in wanted:
            topic = topics.get(topic_partition.topic)
            if topic is None:
                topic = topics[topic_partition.topic] = DescribeLogDirsResponse.DescribeLogDirsTopic(name=topic_partition.topic)
            topic.partitions.append(
                DescribeLogDirsResponse.DescribeLogDirsPartition(
                    partition_index=topic_partition.partition,
                    partition_size=log.size,
                    offset_lag=_lag(log, manager),
                    is_future_key=log.is_future,
                )
            )
        yield None
    cordoned = directory.cordoned and cordons
    yield Result(log_dir=directory.path, topics=list(topics.values()), total_bytes=space[0], usable_bytes=space[1], is_cordoned=cordoned)


def _lag(log: Log, manager: ReplicaManager) -> int:
    """Return the lag in offsets: of a future log behind the current log, of a current log behind the high watermark.

    Return -1 when this broker does not host the partition.
    """
    partition = manager.partitions.by_name.get(log.topic_partition)
    current = None if partition is None else partition.log
    if current is None:
        return _UNKNOWN_LAG
    return current.log_end_offset - log.log_end_offset if log.is_future else max(current.high_watermark - log.log_end_offset, 0)
