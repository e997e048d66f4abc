"""Data source `odradek-log`: topics read from a broker's files, without a broker.

pyspark finds the source as `pyspark_odradek_log.DefaultSource`.
"""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.records.arrow import decode_to_arrow
from odradek.records.batch import iter_headers
from odradek.records.visibility import AbortedTransactions
from odradek.spark.batch import without_empty_headers
from odradek.spark.options import LogOptions, log_options, wants_headers
from odradek.spark.ranges import DataLoss, OffsetRange, Offsets, divided, resolve, within_log
from odradek.spark.source import HEADERS, ROW
from odradek.spark.worker_upkeep import SentToWorkers
from odradek.storage.offline import LogFiles, Transactions, end_of, find_logs, pieces, transactions

if TYPE_CHECKING:
    import pyarrow as pa

_INTERNAL = re.compile("__.*")


class LogPartition(InputPartition):
    """Task that reads offsets from files, with the aborted transactions in them."""

    def __init__(self, log: LogFiles, offset_range: OffsetRange, aborted: tuple[tuple[int, int], ...]) -> None:
        super().__init__(offset_range)
        self.log = log
        self.offset_range = offset_range
        self.aborted = aborted


class LogDataSource(DataSource):
    """Log directories of brokers, or copies of them, as DataFrames with the rows of the source `odradek`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "odradek-log"

    def schema(self) -> str:
        """Return the columns of the source `odradek`, as DDL."""
        return ROW + (HEADERS if wants_headers(self.options) else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the records that are in the files when the query is planned."""
        return LogReader(log_options(self.options))


class LogReader(SentToWorkers, DataSourceReader):
    """Reader of log directories, with one task or more per partition of the topics."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read. The offsets are fixed when the query is planned."""
        options = self._options
        logs = self._chosen(find_logs(options.directories))
        ends, aborted = self._ends(logs)
        starts = {partition: log.start for partition, log in logs.items()}
        begin = resolve("startingOffsets", options.starting, starts, ends)
        end = resolve("endingOffsets", options.ending, starts, ends)
        ranges = [OffsetRange(partition, begin[partition], end[partition]) for partition in sorted(logs)]
        kept = within_log(ranges, starts, ends, fail_on_data_loss=options.fail_on_data_loss)
        tasks = divided(kept, options.min_partitions, options.max_records_per_partition)
        return [LogPartition(logs[each.topic_partition], each, _within(aborted.get(each.topic_partition), each)) for each in tasks]

    def _chosen(self, found: dict[TopicPartition, LogFiles]) -> dict[TopicPartition, LogFiles]:
        options = self._options
        if options.assign is not None:
            wanted = set(options.assign)
        elif options.subscribe is not None:
            wanted = {each for each in found if each.topic in options.subscribe}
            missing = sorted(set(options.subscribe) - {each.topic for each in wanted})
            if missing:
                raise OdradekError(f"The log directories do not contain the topic {', '.join(missing)}")
        elif options.pattern is not None:
            wanted = {each for each in found if re.search(options.pattern, each.topic)}
        else:
            wanted = {each for each in found if not _INTERNAL.fullmatch(each.topic)}
        missing_partitions = sorted(wanted - set(found))
        if missing_partitions:
            raise OdradekError(f"The log directories do not contain {', '.join(map(str, missing_partitions))}")
        return {each: found[each] for each in sorted(wanted)}

    def _ends(self, logs: dict[TopicPartition, LogFiles]) -> tuple[Offsets, dict[TopicPartition, Transactions]]:
        ends: Offsets = {}
        aborted: dict[TopicPartition, Transactions] = {}
        for partition, log in logs.items():
            end = end_of(log)
            if not self._options.beyond_high_watermark:
                if log.high_watermark is None and end > log.start:
                    raise OdradekError(
                        f"The high watermark of {partition} is unknown: replication-offset-checkpoint beside {log.directory} does "
                        "not contain it. With the option beyondHighWatermark the whole files are read"
                    )
                end = min(end, log.high_watermark or log.start)
            if self._options.read_committed:
                aborted[partition] = transactions(log, end)
                end = aborted[partition].stable_end
            ends[partition] = max(end, log.start)
        return ends, aborted

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one range as Arrow batches."""
        # Spark passes one empty partition where `partitions` is empty.
        return self._read(partition) if isinstance(partition, LogPartition) else iter(())

    def _read(self, task: LogPartition) -> Iterator[pa.RecordBatch]:
        partition, start, end = task.offset_range
        aborted = AbortedTransactions(task.aborted)
        reached = start
        for piece in pieces(task.log, start):
            first, reached = _offsets(piece)
            if first >= end:
                break
            batch = decode_to_arrow(
                piece,
                topic=partition.topic,
                partition=partition.partition,
                min_offset=start,
                max_offset=end,
                include_headers=self._options.include_headers,
                aborted=aborted,
            )
            if batch.num_rows:
                yield without_empty_headers(batch) if self._options.include_headers else batch
            if reached >= end:
                return
        if reached < end and self._options.fail_on_data_loss:
            raise DataLoss(f"{partition}: the files end at {reached}, before offset {end}, where they ended when the query was planned")


def _within(known: Transactions | None, offset_range: OffsetRange) -> tuple[tuple[int, int], ...]:
    """Return (producer id, first offset) of the aborted transactions that overlap the range."""
    if known is None:
        return ()
    _, start, end = offset_range
    return tuple((each.producer_id, each.first_offset) for each in known.aborted if each.last_offset >= start and each.first_offset < end)


def _offsets(piece: bytes) -> tuple[int, int]:
    """Return the first offset of a chunk, and the offset after its last record."""
    found = [header for _, header in iter_headers(piece)]
    return found[0].base_offset, found[-1].next_offset
