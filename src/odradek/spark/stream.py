"""Streaming queries: micro-batches between offsets that Spark keeps in its checkpoint."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from odradek.base.ids import TopicPartition
from odradek.client.consumer.blocking import Consumer
from odradek.spark.batch import RangePartition, open_consumer, partitions_of, read_range
from odradek.spark.options import ReadOptions
from odradek.spark.ranges import (
    DataLoss,
    OffsetRange,
    Offsets,
    StreamOffset,
    from_stream_offset,
    limited,
    resolve,
    to_stream_offset,
    within_log,
)

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver; `read` runs in the tasks, on a copy without the driver's consumer."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._consumer: Consumer | None = None
        self._available_now: Offsets | None = None
        self._newest: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_consumer": None, "_available_now": None, "_newest": None}

    # -- planning (driver) ------------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> StreamOffset:
        """Where a query without a checkpoint starts."""
        chosen = self._partitions()
        consumer = self._connected()
        start = resolve("startingOffsets", self._options.starting, consumer.beginning_offsets(chosen), consumer.end_offsets(chosen))
        return to_stream_offset(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """maxOffsetsPerTrigger."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Trigger.AvailableNow: what is there now, and nothing that comes later."""
        self._available_now = self._connected().end_offsets(self._partitions())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> StreamOffset:
        """The end of the next micro-batch."""
        begin = from_stream_offset(start)
        chosen = self._partitions()
        consumer = self._connected()
        end = self._available_now if self._available_now is not None else consumer.end_offsets(chosen)
        self._newest = end
        self._check_gone(begin, end)
        if isinstance(limit, ReadMaxRows):
            fresh = [partition for partition in end if partition not in begin]
            # Partitions that appeared since the last micro-batch are read from their beginning.
            begin |= consumer.beginning_offsets(fresh)
            end = limited(begin, end, limit.max_rows)
        # An end before the start (a topic created anew) must show as data loss when the batch is planned, not as going back.
        return to_stream_offset({partition: max(offset, begin.get(partition, 0)) for partition, offset in end.items()})

    def reportLatestOffset(self) -> StreamOffset | None:
        """The newest offsets seen, for the query's progress."""
        return None if self._newest is None else to_stream_offset(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task per partition with something new."""
        begin, stop = from_stream_offset(start), from_stream_offset(end)
        if begin == stop:
            return []
        consumer = self._connected()
        chosen = list(stop)
        earliest, latest = consumer.beginning_offsets(chosen), consumer.end_offsets(chosen)
        fresh = [partition for partition in stop if partition not in begin]
        if self._options.fail_on_data_loss:
            for partition in fresh:
                if earliest[partition] > 0:
                    raise DataLoss(f"{partition} is new to the query, and its first offset is {earliest[partition]} instead of 0")
        ranges = [OffsetRange(partition, begin.get(partition, earliest[partition]), stop[partition]) for partition in chosen]
        kept = within_log(ranges, earliest, latest, fail_on_data_loss=self._options.fail_on_data_loss)
        return [RangePartition(offset_range) for offset_range in kept]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the offsets are in Spark's checkpoint."""

    def stop(self) -> None:
        """Closes the driver's connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _check_gone(self, begin: Offsets, end: Offsets) -> None:
        gone = sorted(set(begin) - set(end))
        if gone and self._options.fail_on_data_loss:
            raise DataLoss(f"{', '.join(map(str, gone))} no longer exist{'s' if len(gone) == 1 else ''}")
        shrunk = [partition for partition, offset in end.items() if partition in begin and offset < begin[partition]]
        if shrunk and self._options.fail_on_data_loss:
            first = shrunk[0]
            raise DataLoss(
                f"{first} ends at offset {end[first]}, but was read up to {begin[first]} before; was the topic deleted and created again?"
            )

    def _partitions(self) -> list[TopicPartition]:
        return partitions_of(self._options, self._connected())

    def _connected(self) -> Consumer:
        if self._consumer is None:
            # Every trigger asks anew, so that new partitions are found.
            self._consumer = open_consumer(self._options, metadata_max_age_ms=5000)
        return self._consumer

    # -- reading (tasks) --------------------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range as Arrow batches."""
        return read_range(self._options, partition.offset_range) if isinstance(partition, RangePartition) else iter(())
