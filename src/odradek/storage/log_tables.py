"""Which logs a broker has: the current ones and those being moved, each also in the table of the log directory that holds it."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.ids import TopicPartition
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory


class LogTables:
    """Owned by the log manager; read and changed on the loop."""

    __slots__ = ("by_path", "current", "directories", "future")

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = directories
        self.by_path = {directory.path: directory for directory in directories}
        self.current: dict[TopicPartition, Log] = {}
        self.future: dict[TopicPartition, Log] = {}

    @property
    def online_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.online]

    def all_logs(self) -> list[Log]:
        """The current ones, then those being moved."""
        return [*self.current.values(), *self.future.values()]

    def get(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        return (self.future if future else self.current).get(topic_partition)

    def holds(self, log: Log) -> bool:
        """Whether this very log is there."""
        return log in (self.current.get(log.topic_partition), self.future.get(log.topic_partition))

    def put(self, log: Log) -> None:
        """Adds a log, in the place of another one of that partition if there is one. The log's name says whether it is being moved."""
        directory = self.by_path[log.parent_directory]
        for table in (self.future, directory.future_logs) if log.is_future else (self.current, directory.logs):
            table[log.topic_partition] = log

    def take(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        """Takes a log out of the tables, even when it was renamed since."""
        log = (self.future if future else self.current).pop(topic_partition, None)
        if log is not None:
            directory = self.by_path[log.parent_directory]
            (directory.future_logs if future else directory.logs).pop(topic_partition, None)
        return log

    def take_all(self, directory: LogDirectory) -> list[Log]:
        """Takes out everything that lies in a directory."""
        taken: list[Log] = []
        for table, mine in ((self.current, directory.logs), (self.future, directory.future_logs)):
            for topic_partition, log in mine.items():
                table.pop(topic_partition, None)
                taken.append(log)
            mine.clear()
        return taken
