"""Streaming queries: micro-batches between offsets that Spark keeps in its checkpoint."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.spark.batch import RangePartition, read_range, tasks
from odradek.spark.options import ReadOptions
from odradek.spark.planning import Planner
from odradek.spark.ranges import (
    DataLoss,
    OffsetRange,
    Offsets,
    StreamOffset,
    TopicIds,
    from_stream_offset,
    ids_of,
    limited,
    made_again,
    to_stream_offset,
    within_log,
)
from odradek.spark.worker_upkeep import SentToWorkers

if TYPE_CHECKING:
    import pyarrow as pa


logger = logging.getLogger(__name__)


class _Ends(NamedTuple):
    """Current ends of the partitions that a query reads."""

    offsets: Offsets
    ids: TopicIds
    missing: list[str]


def _without(offsets: Offsets, topics: Container[str]) -> Offsets:
    return {partition: offset for partition, offset in offsets.items() if partition.topic not in topics}


def _no_longer(partitions: Sequence[TopicPartition]) -> str:
    return f"{', '.join(map(str, partitions))} no longer exist{'s' if len(partitions) == 1 else ''}"


class StreamReader(SentToWorkers, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a streaming query: plans micro-batches in the driver.

    `read` runs in the tasks, on a copy without the driver's connections.
    """

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._planner: Planner | None = None
        self._available_now: _Ends | None = None
        self._newest: _Ends | None = None
        self._triggered_at: float | None = None

    def __reduce__(self) -> tuple[type[StreamReader], tuple[ReadOptions], dict[str, Any]]:
        return type(self), (self._options,), {}

    # -- planning (driver) ------------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> StreamOffset:
        """Return the start offsets of a query without a checkpoint."""
        planner = self._connected()
        chosen, ids, _ = planner.all_partitions()
        start = planner.position("startingOffsets", self._options.starting, planner.earliest(chosen), planner.latest(chosen))
        return to_stream_offset(start, ids)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return maxOffsetsPerTrigger as a limit.

        Spark takes one limit from a Python source, so `latestOffset` applies minOffsetsPerTrigger.
        """
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current ends as the end of the query (Trigger.AvailableNow)."""
        planner = self._connected()
        found = planner.selection()
        self._available_now = _Ends(planner.of_existing(planner.latest, found.partitions), found.ids, found.missing)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch, or `start` when there is to be no micro-batch yet."""
        begin, known = from_stream_offset(start), ids_of(start)
        planner = self._connected()
        ends = self._newest = self._available_now or self._ends(planner, begin, known)
        renewed = made_again(known, ends.ids)
        self._check_gone(begin, ends, renewed)
        begin = _without(begin, renewed)
        end = dict(ends.offsets)
        # A deleted partition keeps its offset, in case the topic only seemed to be deleted. A topic that is created again has another id.
        gone = {partition: offset for partition, offset in begin.items() if partition not in end}
        fresh = [partition for partition in end if partition not in begin]
        if fresh and (isinstance(limit, ReadMaxRows) or self._options.min_offsets_per_trigger is not None):
            # Partitions that appeared since the last micro-batch are read from their beginning.
            begin |= planner.of_existing(planner.earliest, fresh)
        if self._is_too_early(begin, end):
            return dict(start)
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        # With failOnDataLoss=false the offset of a log that has become shorter moves back to its end: later records are read from there.
        return to_stream_offset(gone | end, {**known, **ends.ids})

    def _ends(self, planner: Planner, begin: Offsets, known: TopicIds) -> _Ends:
        found = planner.selection()
        before = _without(begin, made_again(known, found.ids))
        ends = planner.of_existing(lambda there: planner.latest_since(there, before), found.partitions)
        return _Ends(ends, found.ids, found.missing)

    def _is_too_early(self, begin: Offsets, end: Offsets) -> bool:
        """Return whether fewer than minOffsetsPerTrigger offsets are there and maxTriggerDelay is not over.

        Always False with AvailableNow, which has to end.
        """
        fewest = self._options.min_offsets_per_trigger
        if fewest is None or self._available_now is not None:
            return False
        now = self._clock()
        waited = self._triggered_at is None or now - self._triggered_at >= self._options.max_trigger_delay_ms / 1000
        if not waited and sum(max(0, offset - begin.get(partition, offset)) for partition, offset in end.items()) < fewest:
            return True
        self._triggered_at = now
        return False

    def reportLatestOffset(self) -> StreamOffset | None:
        """Return the newest known offsets, for the query's progress."""
        return None if self._newest is None else to_stream_offset(self._newest.offsets, self._newest.ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task per partition with new records, or more by minPartitions and maxRecordsPerPartition."""
        stop, wanted = from_stream_offset(end), ids_of(end)
        begin = _without(from_stream_offset(start), made_again(ids_of(start), wanted))
        moved = [partition for partition in stop if begin.get(partition) != stop[partition]]
        if not moved:
            return []
        planner = self._connected()
        chosen, ids = self._not_deleted(planner, moved, wanted)
        earliest, latest = (planner.of_existing(ask, chosen) for ask in (planner.earliest, planner.latest))
        gone = [partition for partition in chosen if partition not in earliest or partition not in latest]
        self._report_deleted(gone, _no_longer(gone))
        chosen = [partition for partition in chosen if partition not in gone]
        fresh = [partition for partition in chosen if partition not in begin]
        if self._options.fail_on_data_loss:
            for partition in fresh:
                if earliest[partition] > 0:
                    raise DataLoss(f"{partition} is new to the query, and its first offset is {earliest[partition]} instead of 0")
        ranges = [OffsetRange(partition, begin.get(partition, earliest[partition]), stop[partition]) for partition in chosen]
        kept = within_log(ranges, earliest, latest, fail_on_data_loss=self._options.fail_on_data_loss)
        return tasks(self._options, kept, ids)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the end of a finished micro-batch to the group, with commitOffsets.

        A failure is only a warning, because the query's position is in Spark's checkpoint.
        """
        if self._options.commit_offsets:
            try:
                offsets = from_stream_offset(end)
                if self._newest is not None:
                    offsets = {partition: offset for partition, offset in offsets.items() if partition in self._newest.offsets}
                self._connected().commit(offsets)
            except KafkaError as error:
                logger.warning("Offsets of the query could not be committed for group %s: %s", self._options.client["group.id"], error)

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None

    def _check_gone(self, begin: Offsets, ends: _Ends, renewed: Mapping[str, str]) -> None:
        """Raise DataLoss for partitions of `begin` that can no longer be read. Raise KafkaError for a topic that never existed."""
        if not self._options.fail_on_data_loss:
            return
        if renewed:
            raise DataLoss("; ".join(renewed.values()))
        end = ends.offsets
        gone = sorted(set(begin) - set(end))
        if gone:
            raise DataLoss(_no_longer(gone))
        if ends.missing:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{', '.join(ends.missing)}, which the query is to read")
        shrunk = [partition for partition, offset in end.items() if partition in begin and offset < begin[partition]]
        if shrunk:
            first = shrunk[0]
            raise DataLoss(
                f"{first} ends at offset {end[first]}, but the query has already read up to {begin[first]}; was the topic deleted "
                "and created again?"
            )

    def _not_deleted(self, planner: Planner, partitions: list[TopicPartition], wanted: TopicIds) -> tuple[list[TopicPartition], TopicIds]:
        """Return the partitions that were not deleted since the micro-batch was planned, and the ids of their topics.

        Raises DataLoss for a deleted partition unless failOnDataLoss=false. The deletion can be long ago, as a restarted query repeats its
        last micro-batch.
        """
        found = planner.of_topics({each.topic for each in partitions})
        renewed = made_again(wanted, found.ids)
        there = [each for each in found.partitions if each.topic not in renewed]
        gone = sorted(set(partitions) - set(there))
        self._report_deleted(gone, "; ".join(renewed.values()) or _no_longer(gone))
        return [each for each in partitions if each not in gone], found.ids

    def _report_deleted(self, gone: Sequence[TopicPartition], why: str) -> None:
        """Raise DataLoss for deleted partitions, or log them with failOnDataLoss=false."""
        if gone and self._options.fail_on_data_loss:
            raise DataLoss(why)
        if gone:
            logger.warning("Skipped, with failOnDataLoss=false: %s", why)

    def _connected(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    # -- reading (tasks) --------------------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one range as Arrow batches."""
        return read_range(self._options, partition.offset_range, partition.topic_id) if isinstance(partition, RangePartition) else iter(())
