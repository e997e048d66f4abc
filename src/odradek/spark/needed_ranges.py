"""Part of the topics that a batch query needs. Pure: no IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.spark.ranges import OffsetRange


class Narrowing(NamedTuple):
    """Part of the topics that contains all rows that match the filters."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int | None = None
    since_ms: int | None = None
    """Unix milliseconds: records before the first record at or after this time are not needed."""

    def chosen(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that may contain matching rows."""
        return [
            each
            for each in partitions
            if (self.topics is None or each.topic in self.topics) and (self.partitions is None or each.partition in self.partitions)
        ]

    def needed_part(self, offset_range: OffsetRange, first_in_time: int) -> OffsetRange:
        """Return the needed part of a range, which may be empty. `first_in_time` is the offset for `since_ms`, 0 without `since_ms`."""
        end = offset_range.end if self.end is None else min(offset_range.end, self.end)
        return OffsetRange(offset_range.topic_partition, max(offset_range.start, self.start, first_in_time), end)
