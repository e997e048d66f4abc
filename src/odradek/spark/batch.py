"""Reading ranges of offsets as Arrow, and batch queries made of them."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.blocking import Consumer
from odradek.client.core.positions import OffsetOutOfRange
from odradek.records.arrow import decode_to_arrow
from odradek.records.batch import iter_headers
from odradek.records.visibility import AbortedTransactions
from odradek.spark.narrowing import Narrowing
from odradek.spark.options import ReadOptions, TimeSpec
from odradek.spark.planning import Planner, open_consumer
from odradek.spark.ranges import DataLoss, OffsetRange, Offsets, divided, in_order, within_log

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES = 16 * 1024 * 1024
"""Bytes per Fetch where the user does not say otherwise: large, because a task reads one partition from end to end; two are buffered."""

_COMPRESSED_STEP = 2 * 1024 * 1024
"""Compressed batches are decoded in steps of about this many bytes, so that what they unpack to stays of moderate size."""


class RangePartition(InputPartition):
    """One Spark task: a range of one partition."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(offset_range)
        self.offset_range = offset_range


def tasks(options: ReadOptions, ranges: list[OffsetRange]) -> list[InputPartition]:
    """One task a range, or more by minPartitions and maxRecordsPerPartition."""
    return [RangePartition(each) for each in divided(ranges, options.min_partitions, options.max_records_per_partition)]


class BatchReader(DataSourceReader):
    """One task per partition of the topics."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """The ranges to read, settled when the query is planned."""
        options = self._options
        planner = Planner(options)
        try:
            chosen = planner.partitions()
            earliest, latest = planner.earliest(chosen), planner.latest(chosen)
            start = planner.position("startingOffsets", options.starting, earliest, latest)
            end = planner.position("endingOffsets", options.ending, earliest, latest)
            wanted = self._narrowing.chosen(chosen)
            first_in_time = self._first_in_time(planner, wanted, latest)
        finally:
            planner.close()
        in_order(start, end)
        ranges = [self._narrowing.cut(OffsetRange(each, start[each], end[each]), first_in_time[each]) for each in wanted]
        kept = within_log(ranges, earliest, latest, fail_on_data_loss=options.fail_on_data_loss)
        return tasks(options, kept)

    def _first_in_time(self, planner: Planner, wanted: list[TopicPartition], latest: Offsets) -> Offsets:
        since_ms = self._narrowing.since_ms
        if since_ms is None:
            return dict.fromkeys(wanted, 0)
        return planner.position("timestamp", TimeSpec(since_ms, True), dict.fromkeys(wanted, 0), latest)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range as Arrow batches."""
        # Spark asks for one empty partition where `partitions` is empty.
        return read_range(self._options, partition.offset_range) if isinstance(partition, RangePartition) else iter(())


def read_range(options: ReadOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Fetches a range in large pieces, one ahead of the decoding; no Python runs per record.

    DataLoss, or with failOnDataLoss=false the rest, when records disappear meanwhile.
    """
    partition, start, end = offset_range
    position = start
    silence_ms = options.poll_timeout_ms
    with open_consumer(options, max_partition_fetch_bytes=FETCH_BYTES, fetch_max_bytes=FETCH_BYTES) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, start)
        while position < end:
            try:
                chunk = consumer.next_chunk(silence_ms)
            except OffsetOutOfRange:
                position = _after_loss(options, consumer, offset_range, position)
                continue
            if chunk is None:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{partition}: no data from offset {position} on within {silence_ms} ms")
            aborted = AbortedTransactions(chunk.aborted)
            for buffer in _steps(chunk.buffer):
                batch = decode_to_arrow(
                    buffer,
                    topic=partition.topic,
                    partition=partition.partition,
                    min_offset=chunk.offset,
                    max_offset=end,
                    include_headers=options.include_headers,
                    aborted=aborted,
                )
                if batch.num_rows:
                    yield without_empty_headers(batch) if options.include_headers else batch
            position = chunk.end_offset


def without_empty_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A record without headers has null in that column, as from the connector, not an empty array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = batch.schema.get_field_index("headers")
    headers = batch.column(index)
    present = pc.not_equal(pc.list_value_length(headers), 0)
    missing = len(present) - (present.true_count)
    if not missing:
        return batch
    masked = pa.Array.from_buffers(
        headers.type, len(headers), [present.buffers()[1], headers.buffers()[1]], missing, children=[headers.values]
    )
    return batch.set_column(index, batch.schema.field(index), masked)


def _after_loss(options: ReadOptions, consumer: Consumer, offset_range: OffsetRange, position: int) -> int:
    partition, _, end = offset_range
    first = consumer.beginning_offsets([partition])[partition]
    if options.fail_on_data_loss:
        raise DataLoss(f"{partition}: offset {position} disappeared while it was read; the log now starts at {first}")
    if position < first < end:
        consumer.seek(partition, first)
        return first
    return end


def _steps(buffer: memoryview) -> Iterator[memoryview]:
    start = 0
    for position, header in iter_headers(buffer):
        if header.is_compressed and position - start >= _COMPRESSED_STEP:
            yield buffer[start:position]
            start = position
    yield buffer[start:]
