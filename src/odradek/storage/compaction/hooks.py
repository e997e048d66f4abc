"""Interface between the log manager and the cleaner."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from odradek.base.ids import TopicPartition
from odradek.storage.log import Log


class CleanerHooks(Protocol):
    """Callbacks on the loop, implemented by `compaction.manager.CleanerManager` only. Directories are paths of log directories."""

    def truncated(self, log: Log) -> None:
        """Note that the log was truncated."""
        ...

    def removed(self, topic_partition: TopicPartition, directory: str) -> None:
        """Note that the partition's log in this directory is being deleted."""
        ...

    def moved(self, topic_partition: TopicPartition, source: str, target: str) -> None:
        """Note that the partition's log in `target` has replaced that in `source`."""
        ...

    def pause(self, topic_partition: TopicPartition, owner: str) -> None:
        """Keep the partition from being cleaned until the same owner calls `resume`. Idempotent."""
        ...

    def resume(self, topic_partition: TopicPartition, owner: str) -> None:
        """End this owner's `pause`, if there is one."""
        ...

    def uncleanable_in(self, directory: str) -> Collection[TopicPartition]:
        """Return the partitions of a log directory that cannot be compacted."""
        ...

    def directory_failed(self, directory: str) -> None:
        """Note that the directory goes offline; its logs are still known."""
        ...

    def may_delete(self, log: Log) -> bool:
        """Return whether the regular retention may delete segments of the log."""
        ...
