"""DescribeLogDirs (API key 35): the log directories of this broker, their space, and the replicas in them (KIP-113, KIP-827, KIP-1066).

ACL: DESCRIBE on Cluster. Quota: request time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.metadata.features import cordoned_log_dirs_supported
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

_UNKNOWN_LAG = -1
Space = dict[str, tuple[int, int] | OSError]
"""Log directory -> (bytes in all, usable bytes)."""


def handle(context: RequestContext, request: DescribeLogDirsRequest, services: Services) -> Deferred[DescribeLogDirsResponse]:
    directories = [directory for directory in services.log_manager.directories if directory.takes_logs]
    answer: Deferred[DescribeLogDirsResponse] = Deferred()
    space: Space = {}

    def measure() -> None:
        for path in [directory.path for directory in directories if directory.online]:
            try:
                space[path] = services.disk.space(path)
            except OSError as error:
                space[path] = error

    def measured(job: Deferred[None]) -> None:
        if job.error is not None:
            answer.fail(job.error)
            return
        wanted = _wanted(request)
        results = [_describe(directory, wanted, space.get(directory.path), services) for directory in directories]
        answer.complete(DescribeLogDirsResponse(results=results))

    # A disk that hangs must not block the loop.
    services.replica_manager.run_job(measure).add_callback(measured)
    return answer


def _wanted(request: DescribeLogDirsRequest) -> set[TopicPartition] | None:
    if request.topics is None:
        return None
    return {TopicPartition(topic.topic, partition) for topic in request.topics for partition in topic.partitions}


def _describe(
    directory: LogDirectory, wanted: set[TopicPartition] | None, space: tuple[int, int] | OSError | None, services: Services
) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    if isinstance(space, OSError):
        logger.error("The space in log directory %s cannot be determined: %s", directory.path, space)
    if not directory.online or space is None or isinstance(space, OSError):
        return DescribeLogDirsResponse.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    for logs in (directory.logs, directory.future_logs):
        for topic_partition, log in logs.items():
            if wanted is None or topic_partition in wanted:
                topic = topics.get(topic_partition.topic)
                if topic is None:
                    topic = topics[topic_partition.topic] = DescribeLogDirsResponse.DescribeLogDirsTopic(name=topic_partition.topic)
                topic.partitions.append(
                    DescribeLogDirsResponse.DescribeLogDirsPartition(
                        partition_index=topic_partition.partition,
                        partition_size=log.size,
                        offset_lag=_lag(log, services),
                        is_future_key=log.is_future,
                    )
                )
    cordoned = directory.cordoned and cordoned_log_dirs_supported(services.metadata.image.features.metadata_version or 0)
    return DescribeLogDirsResponse.DescribeLogDirsResult(
        log_dir=directory.path, topics=list(topics.values()), total_bytes=space[0], usable_bytes=space[1], is_cordoned=cordoned
    )


def _lag(log: Log, services: Services) -> int:
    """How far a future log is behind the current one, and a current one behind the high watermark; -1 while the partition is not here."""
    partition = services.replica_manager.partitions.by_name.get(log.topic_partition)
    current = None if partition is None else partition.log
    if current is None:
        return _UNKNOWN_LAG
    return current.log_end_offset - log.log_end_offset if log.is_future else max(current.high_watermark - log.log_end_offset, 0)
