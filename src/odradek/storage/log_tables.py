"""Tables of a broker's logs: current logs and future logs, each also in the table of its log directory."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.ids import TopicPartition
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory


class LogTables:
    """Tables owned by the log manager; read and changed on the loop."""

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
        """Return the current logs, then the future logs."""
        return [*self.current.values(), *self.future.values()]

    def get(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        return (self.future if future else self.current).get(topic_partition)

    def holds(self, log: Log) -> bool:
        """Return whether this log object is in the tables."""
        return log in (self.current.get(log.topic_partition), self.future.get(log.topic_partition))

    def put(self, log: Log) -> None:
        """Add a log, replacing another log of the same partition. The name of the log's directory decides whether it is a future log."""
        directory = self.by_path[log.parent_directory]
        for table in (self.future, directory.future_logs) if log.is_future else (self.current, directory.logs):
            table[log.topic_partition] = log

    def take(self, topic_partition: TopicPartition, *, future: bool = False) -> Log | None:
        """Remove and return a log, even when it was renamed since it was added."""
        log = (self.future if future else self.current).pop(topic_partition, None)
        if log is not None:
            directory = self.by_path[log.parent_directory]
            (directory.future_logs if future else directory.logs).pop(topic_partition, None)
        return log

    def take_all(self, directory: LogDirectory) -> list[Log]:
        """Remove and return all logs of a directory."""
        taken: list[Log] = []
        for table, mine in ((self.current, directory.logs), (self.future, directory.future_logs)):
            for topic_partition, log in mine.items():
                table.pop(topic_partition, None)
                taken.append(log)
            mine.clear()
        return taken
