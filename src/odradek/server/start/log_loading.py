"""Loading of a broker's logs at its start: cleanly closed logs are opened, others are recovered."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.config.keys.log import NUM_RECOVERY_THREADS_PER_DATA_DIR
from odradek.server.cluster.publisher import BrokerSettings
from odradek.server.step import Step

if TYPE_CHECKING:
    from uuid import UUID

    from odradek.base.ids import TopicPartition
    from odradek.config.topic import TopicConfig
    from odradek.metadata.image import MetadataImage
    from odradek.metadata.registrations import PartitionRegistration
    from odradek.server.start.node import Node
    from odradek.server.upkeep.log_directories import LogDirectories
    from odradek.storage.loading import DirectoryLoading, LoadProgress
    from odradek.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S = 5.0


class LoadLogs(Step[None]):
    """Step that loads the logs of all directories in parallel, each with its own num.recovery.threads.per.data.dir threads.

    A log is set aside as stray when the metadata no longer has its topic, or its replica on this broker.
    """

    name = "logs"

    def __init__(self, node: Node, directories: LogDirectories, image: MetadataImage) -> None:
        self._node = node
        self._directories = directories
        self._image = image
        self._configs: dict[str, TopicConfig] = {}
        self._progress_at = node.clock.monotonic() + _PROGRESS_INTERVAL_S
        self._progress = node.recovery

    async def start(self) -> None:
        log_manager = self._directories.log_manager
        settings = BrokerSettings(self._node.services.dynamic_config, self._node.jobs.apart)
        reading = settings.prepare(self._image)
        if reading is not None:
            await reading
        settings.apply(self._image)
        for loading in await asyncio.gather(*[self._load(directory) for directory in log_manager.online_directories]):
            log_manager.adopt(loading, self._is_stray, self._assigned_directory)
        self._directories.raise_failure()
        log_manager.settle_moves(self._assigned_directory)
        self._directories.raise_failure()
        self._directories.loaded = True
        self._progress.clear()

    async def _load(self, directory: LogDirectory) -> DirectoryLoading:
        node = self._node
        loading = self._directories.log_manager.begin_loading(directory, self._topic_config, self._report)
        workers = node.services.dynamic_config[NUM_RECOVERY_THREADS_PER_DATA_DIR]
        # Each directory has a pool, so that a slow disk does not take threads from the others.
        with node.jobs.pool(workers) as run:
            await run(loading.open)
            await asyncio.gather(*[run(loading.work) for _ in range(workers)])
        return loading

    def _topic_config(self, topic_partition: TopicPartition) -> TopicConfig:
        topic = topic_partition.topic
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = self._node.services.dynamic_config.topic_config(self._image.configs.topic(topic))
        return config

    def _replica_here(self, topic_partition: TopicPartition, topic_id: UUID | None) -> PartitionRegistration | None:
        """Return the partition if the metadata has a replica of it on this broker, else None."""
        partition = None if topic_id is None else self._image.topics.partition_by_id(topic_id, topic_partition.partition)
        return partition if partition is not None and self._node.config.node_id in partition.replicas else None

    def _is_stray(self, topic_partition: TopicPartition, topic_id: UUID | None) -> bool:
        return self._replica_here(topic_partition, topic_id) is None

    def _assigned_directory(self, topic_partition: TopicPartition, topic_id: UUID | None) -> UUID | None:
        partition = self._replica_here(topic_partition, topic_id)
        return None if partition is None else partition.directory(self._node.config.node_id)

    def _report(self, progress: LoadProgress) -> None:
        """Log the progress of loading every `_PROGRESS_INTERVAL_S` seconds. Runs in the loading threads."""
        self._progress[progress.directory] = progress
        now = self._node.clock.monotonic()
        if now >= self._progress_at:
            self._progress_at = now + _PROGRESS_INTERVAL_S
            logger.info(
                "loading %s: log %d of %d (%s), segment %d of %d, %.0f MB/s",
                progress.directory,
                progress.done + 1,
                progress.total,
                progress.log,
                progress.segments_done,
                progress.segments_total,
                progress.bytes_per_second / 1e6,
            )
