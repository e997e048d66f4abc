"""The logs of new partitions are made in another thread: six calls of the file system each, which take a millisecond on a busy disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory


class WantedLog(NamedTuple):
    """Arguments of `LogManager.create_log`."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    config: TopicConfig
    directory_id: UUID | None = None
    is_new: bool = False


class LogCreation:
    """Begun and finished by the log manager on the loop; `run` is called in between, once, in any thread."""

    __slots__ = ("_make", "failed", "made", "planned")

    def __init__(self, planned: list[tuple[LogDirectory, WantedLog]], make: Callable[[LogDirectory, WantedLog], Log]) -> None:
        self.planned = planned
        self._make = make
        self.made: list[tuple[LogDirectory, Log]] = []
        self.failed: list[tuple[LogDirectory, OSError]] = []
        """At most one for each directory: nothing is tried after it there."""

    def run(self) -> None:
        """Makes the logs, in their order. What goes wrong otherwise than by the disk comes up again in `LogManager.create_log`."""
        failed: set[str] = set()
        for directory, wanted in self.planned:
            if directory.path in failed:
                continue
            try:
                self.made.append((directory, self._make(directory, wanted)))
            except OSError as error:
                failed.add(directory.path)
                self.failed.append((directory, error))
            except Exception:
                continue
