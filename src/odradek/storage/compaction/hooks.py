"""What the log manager tells the cleaner, and asks it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from odradek.base.ids import TopicPartition
from odradek.storage.log import Log


class CleanerHooks(Protocol):
    """Called on the loop; `compaction.manager.CleanerManager` is the only one there is. Directories are log directories, by path."""

    def truncated(self, log: Log) -> None:
        """The log was cut."""
        ...

    def removed(self, topic_partition: TopicPartition, directory: str) -> None:
        """The log of the partition in this directory is being deleted."""
        ...

    def moved(self, topic_partition: TopicPartition, source: str, target: str) -> None:
        """The log of the partition in `target` has taken the place of that in `source`."""
        ...

    def pause(self, topic_partition: TopicPartition, owner: str) -> None:
        """The partition is not cleaned until the same owner calls `resume`; idempotent."""
        ...

    def resume(self, topic_partition: TopicPartition, owner: str) -> None:
        """Takes the `pause` of this owner back, if there is one."""
        ...

    def uncleanable_in(self, directory: str) -> Collection[TopicPartition]:
        """The partitions of a log directory that cannot be compacted."""
        ...

    def directory_failed(self, directory: str) -> None:
        """The directory goes offline; its logs are still known."""
        ...

    def may_delete(self, log: Log) -> bool:
        """Whether the regular retention may shorten the log."""
        ...
