"""The part of the topics that a batch query needs. Pure: no IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.spark.ranges import OffsetRange


class Narrowing(NamedTuple):
    """The part of the topics in which all rows are that fulfil the conditions."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int | None = None
    since_ms: int | None = None
    """No record before the first one of this time is wanted."""

    def chosen(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those in which there may be such rows."""
        return [
            each
            for each in partitions
            if (self.topics is None or each.topic in self.topics) and (self.partitions is None or each.partition in self.partitions)
        ]

    def cut(self, offset_range: OffsetRange, first_in_time: int) -> OffsetRange:
        """What is left of a range; it may be empty. `first_in_time` is the offset that belongs to `since_ms`, 0 without that."""
        end = offset_range.end if self.end is None else min(offset_range.end, self.end)
        return OffsetRange(offset_range.topic_partition, max(offset_range.start, self.start, first_in_time), end)
