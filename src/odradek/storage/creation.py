"""Creation of the logs of new partitions in another thread.

A log takes six file system calls, which last a millisecond on a busy disk.
"""

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
    """Logs to create in one executor call.

    The log manager begins and finishes the creation on the loop. In between, `run` is called once, in any thread.
    """

    __slots__ = ("_make", "failed", "made", "planned")

    def __init__(self, planned: list[tuple[LogDirectory, WantedLog]], make: Callable[[LogDirectory, WantedLog], Log]) -> None:
        self.planned = planned
        self._make = make
        self.made: list[tuple[LogDirectory, Log]] = []
        self.failed: list[tuple[LogDirectory, OSError]] = []
        """At most one error for each directory: after the first error `run` creates no more logs there."""

    def run(self) -> None:
        """Create the logs in order.

        Errors other than OSError are ignored here; `LogManager.create_log` meets them again.
        """
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
