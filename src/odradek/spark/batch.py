"""Batch queries, and the reader of offset ranges as Arrow."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, uuid_from_string
from odradek.client.consumer.blocking import Consumer
from odradek.client.core.positions import Chunk, OffsetOutOfRange, TopicRecreated
from odradek.records.arrow import decode_to_arrow
from odradek.records.batch import iter_headers
from odradek.records.visibility import AbortedTransactions
from odradek.spark.needed_ranges import Narrowing
from odradek.spark.options import ReadOptions, TimeSpec
from odradek.spark.planning import Planner, open_consumer
from odradek.spark.ranges import DataLoss, OffsetRange, Offsets, TopicIds, divided, in_order, within_log
from odradek.spark.worker_clients import Lease, worker_clients
from odradek.spark.worker_upkeep import SentToWorkers, exempt_current_objects, keep_archives

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FETCH_BYTES = 16 * 1024 * 1024
"""Bytes per Fetch unless the user sets a number: large, because a task reads one partition from end to end; two responses are buffered."""

_STEP = 2 * 1024 * 1024
"""Approximate bytes of batches that are decoded at once.

Small steps use less memory in Spark and the worker, and fit the processor's caches.
"""


class RangePartition(InputPartition):
    """Spark task that reads a range of one partition.

    `topic_id` is the topic's id in Kafka's text form, None from brokers without topic ids.
    """

    def __init__(self, offset_range: OffsetRange, topic_id: str | None = None) -> None:
        super().__init__(offset_range)
        self.offset_range = offset_range
        self.topic_id = topic_id


def tasks(options: ReadOptions, ranges: list[OffsetRange], ids: TopicIds) -> list[InputPartition]:
    """Return one task per range, or more by minPartitions and maxRecordsPerPartition."""
    return [
        RangePartition(each, ids.get(each.topic_partition.topic))
        for each in divided(ranges, options.min_partitions, options.max_records_per_partition)
    ]


class BatchReader(SentToWorkers, DataSourceReader):
    """Reader of a batch query, with one task per partition of the topics."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read. The offsets are fixed when the query is planned."""
        options = self._options
        planner = Planner(options)
        try:
            chosen, ids, _ = planner.all_partitions()
            earliest, latest = planner.earliest(chosen), planner.latest(chosen)
            start = planner.position("startingOffsets", options.starting, earliest, latest)
            end = planner.position("endingOffsets", options.ending, earliest, latest)
            wanted = self._narrowing.chosen(chosen)
            first_in_time = self._first_in_time(planner, wanted, latest)
        finally:
            planner.close()
        in_order(start, end)
        ranges = [self._narrowing.needed_part(OffsetRange(each, start[each], end[each]), first_in_time[each]) for each in wanted]
        kept = within_log(ranges, earliest, latest, fail_on_data_loss=options.fail_on_data_loss)
        return tasks(options, kept, ids)

    def _first_in_time(self, planner: Planner, wanted: list[TopicPartition], latest: Offsets) -> Offsets:
        since_ms = self._narrowing.since_ms
        if since_ms is None:
            return dict.fromkeys(wanted, 0)
        return planner.position("timestamp", TimeSpec(since_ms, True), dict.fromkeys(wanted, 0), latest)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one range as Arrow batches."""
        # Spark passes one empty partition where `partitions` is empty.
        return read_range(self._options, partition.offset_range, partition.topic_id) if isinstance(partition, RangePartition) else iter(())


def read_range(options: ReadOptions, offset_range: OffsetRange, topic_id: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches. Chunks are large, one is fetched ahead of the decoding, and no Python runs per record.

    Raises DataLoss when records disappear during the read, or the topic has another id than `topic_id`. With failOnDataLoss=false yields
    the remaining records instead.
    """
    with _Fetching(options, offset_range, topic_id) as fetching:
        partition, _, end = offset_range
        while (chunk := fetching.next_chunk()) is not None:
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


class _Fetching:
    """Fetcher of the chunks of a range, with a consumer of the worker."""

    def __init__(self, options: ReadOptions, offset_range: OffsetRange, topic_id: str | None) -> None:
        keep_archives()
        self._options = options
        self._range = offset_range
        self._topic_id = None if topic_id is None else uuid_from_string(topic_id)
        self._position = offset_range.start
        self._key = tuple(sorted(options.client.items()))
        self._lease = self._begin()

    def __enter__(self) -> _Fetching:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._position >= self._range.end:
            worker_clients.give_back(self._key, self._lease)
            exempt_current_objects()
        else:
            self._lease.consumer.close()

    def next_chunk(self) -> Chunk | None:
        """Return the next batches, None at the end of the range."""
        while self._position < self._range.end:
            try:
                chunk = self._lease.consumer.next_chunk(self._options.poll_timeout_ms)
            except TopicRecreated:
                self._lost(f"topic {self._range.topic_partition.topic} was deleted and created again")
                break
            except OffsetOutOfRange:
                self._position = _after_loss(self._options, self._lease.consumer, self._range, self._position)
            except KafkaError as error:
                # A consumer from an earlier task may have outdated state: retry once with a fresh consumer before the task fails.
                if self._lease.fresh:
                    if not self._is_gone():
                        raise
                    break
                logger.info("A client that was used earlier is replaced: %s", error)
                self._lease.consumer.close()
                self._lease = self._begin(fresh=True)
            else:
                if chunk is None and self._is_gone():
                    break
                if chunk is None:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"{self._range.topic_partition}: no data from offset {self._position} on within {self._options.poll_timeout_ms} ms",
                    )
                self._position = chunk.end_offset
                return chunk
        return None

    def _is_gone(self) -> bool:
        """Return whether the partition is gone.

        Raises DataLoss if it is, unless failOnDataLoss=false lets the task end with the records so far.
        """
        topic, number = partition = self._range.topic_partition
        found = self._lease.consumer.list_topics().get(topic)
        if found is not None and number in found.partitions:
            return False
        self._lost(f"{partition} no longer exists")
        return True

    def _lost(self, what: str) -> None:
        """Raise DataLoss for the rest of the range, or log the loss with failOnDataLoss=false."""
        read = f"{what}: {self._range.topic_partition} was read up to offset {self._position} of {self._range.end}"
        if self._options.fail_on_data_loss:
            raise DataLoss(read)
        logger.warning("Skipped, with failOnDataLoss=false: %s", read)

    def _begin(self, *, fresh: bool = False) -> Lease:
        lease = worker_clients.take(self._key, self._open, fresh=fresh)
        try:
            # Set the end, so that no Fetch beyond the range waits at the broker and delays the next task.
            lease.consumer.assign_range(self._range.topic_partition, self._position, self._range.end, self._topic_id)
        except BaseException:
            lease.consumer.close()
            raise
        return lease

    def _open(self) -> Consumer:
        return open_consumer(self._options, max_partition_fetch_bytes=FETCH_BYTES, fetch_max_bytes=FETCH_BYTES)


def without_empty_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with null for empty headers, as the connector does."""
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
    for position, _ in iter_headers(buffer):
        if position - start >= _STEP:
            yield buffer[start:position]
            start = position
    yield buffer[start:]
