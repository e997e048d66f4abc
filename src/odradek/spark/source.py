"""Data source `odradek`; pyspark finds it as `pyspark_odradek.DefaultSource`.

Batch queries need Spark 4.0, streaming queries 4.2. Modules that need classes of newer releases are imported at their first use.
"""

from __future__ import annotations

import re

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from odradek.base.errors import OdradekError
from odradek.spark.options import read_options, wants_headers, write_options
from odradek.spark.worker_upkeep import keep_archives

ROW = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = ", headers array<struct<key: string, value: binary>>"


class OdradekDataSource(DataSource):
    """Kafka topics as DataFrames, without jars: options, row and sink columns are those of Spark's Kafka connector."""

    def __init__(self, options: dict[str, str]) -> None:
        """Store `options` of the reader or writer. Spark creates a source in a separate Python worker for each query that it plans."""
        super().__init__(options)
        keep_archives()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "odradek"

    def schema(self) -> str:
        """Return the connector's columns, as DDL."""
        return ROW + (HEADERS if wants_headers(self.options) else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader from startingOffsets to endingOffsets."""
        from odradek.spark.batch import BatchReader

        options = read_options(self.options, streaming=False)
        if options.push_filters:
            _needs_spark(4, 1, "The option pushFilters needs")
            from odradek.spark.filtered_batch import NarrowedBatchReader

            return NarrowedBatchReader(options)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of micro-batches."""
        _needs_spark(4, 2, "Streaming queries of this source need")
        from odradek.spark.stream import StreamReader

        return StreamReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that appends rows to topics, at least once, or with exactlyOnce exactly once."""
        from odradek.spark.sink import BatchWriter, check_columns

        if overwrite:
            raise ValueError("a topic can only be appended to: use mode('append')")
        options = write_options(self.options, streaming=False)
        check_columns(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer that appends each micro-batch to topics, at least once, or with exactlyOnce exactly once."""
        _needs_spark(4, 2, "Streaming queries with this sink need")
        from odradek.spark.sink import check_columns
        from odradek.spark.stream_sink import StreamWriter

        options = write_options(self.options, streaming=True)
        check_columns(schema, options.topic)
        return StreamWriter(options)


def _needs_spark(major: int, minor: int, what: str) -> None:
    """Raise OdradekError if pyspark is older than this version."""
    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    if found is not None and (int(found[1]), int(found[2])) < (major, minor):
        raise OdradekError(f"{what} Spark {major}.{minor} or newer, and this is {pyspark.__version__}")
