"""The data source `odradek`; pyspark finds it as `pyspark_odradek.DefaultSource`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from odradek.spark.options import read_options, wants_headers, write_options

ROW = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = ", headers array<struct<key: string, value: binary>>"


class OdradekDataSource(DataSource):
    """Kafka topics as DataFrames, without jars: options, row and sink columns are those of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return "odradek"

    def schema(self) -> str:
        """The connector's row, as DDL."""
        return ROW + (HEADERS if wants_headers(self.options) else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads from startingOffsets to endingOffsets."""
        from odradek.spark.batch import BatchReader, NarrowedBatchReader

        options = read_options(self.options, streaming=False)
        return NarrowedBatchReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Reads micro-batches without end."""
        from odradek.spark.stream import StreamReader

        return StreamReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Appends rows to topics, at least once, or by choice exactly once."""
        from odradek.spark.sink import BatchWriter, check_columns

        if overwrite:
            raise ValueError("a topic can only be appended to: use mode('append')")
        options = write_options(self.options, streaming=False)
        check_columns(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Appends the rows of every micro-batch to topics, at least once, or by choice exactly once."""
        from odradek.spark.sink import StreamWriter, check_columns

        options = write_options(self.options, streaming=True)
        check_columns(schema, options.topic)
        return StreamWriter(options)
