"""Writing rows to topics, at least once: a task that is repeated writes its rows again, as with the connector."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from odradek.client.config import Setting
from odradek.client.producer.blocking import Producer
from odradek.client.producer.futures import RecordFuture
from odradek.spark.options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 512 * 1024
"""batch.size where the user does not set it: rows come in thousands, and large batches cost the broker less."""


class Written(WriterCommitMessage):
    """What a task reports: rows acknowledged."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def check_columns(schema: StructType, topic_option: str | None) -> None:
    """ValueError, naming the column, when the rows are not what the sink takes. Other columns are not written, as in the connector."""
    columns = {field.name: field.dataType for field in schema.fields}
    text_or_bytes = (StringType, BinaryType)
    if "value" not in columns:
        raise ValueError("Required column 'value' (string or binary) is missing")
    if topic_option is None and "topic" not in columns:
        raise ValueError("No topic: set the option topic, or give the rows a column 'topic'")
    for name in ("value", "key"):
        if name in columns and not isinstance(columns[name], text_or_bytes):
            raise ValueError(f"Column '{name}' must be string or binary, not {columns[name].simpleString()}: cast it")
    if topic_option is None and not isinstance(columns["topic"], StringType):
        raise ValueError(f"Column 'topic' must be a string, not {columns['topic'].simpleString()}")
    if "partition" in columns and not isinstance(columns["partition"], IntegerType):
        raise ValueError(f"Column 'partition' must be an int, not {columns['partition'].simpleString()}")
    if "headers" in columns and not _is_headers(columns["headers"]):
        raise ValueError(f"Column 'headers' must be array<struct<key:string,value:binary>>, not {columns['headers'].simpleString()}")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"key", "value"} and isinstance(fields["key"], StringType) and isinstance(fields["value"], BinaryType)


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("odradek")`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task; returns when all are acknowledged."""
        return write_rows(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("odradek")`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows of a micro-batch; returns when all are acknowledged."""
        return write_rows(self._options, iterator)


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Sends all rows and waits for their acknowledgement; KafkaError of the first that was not accepted."""
    settings: dict[str, Setting] = dict(options.client)
    settings.setdefault("client.id", "odradek-spark")
    settings.setdefault("batch.size", str(_BATCH_BYTES))
    settings.setdefault("linger.ms", "0")
    rows = 0
    futures: list[RecordFuture] = []
    with Producer(settings) as producer:
        router = _Router(options, producer)
        for batch in batches:
            rows += batch.num_rows
            futures += router.send(batch)
            futures = _unfinished(futures)
        producer.flush()
        for future in futures:
            future.result()
    return Written(rows)


def _unfinished(futures: list[RecordFuture]) -> list[RecordFuture]:
    """Raises the error of any that failed; forgets those that are acknowledged."""
    left: list[RecordFuture] = []
    for future in futures:
        if future.done():
            future.result()
        else:
            left.append(future)
    return left


class _Router:
    """Hands rows to the producer by topic, without Python per row."""

    def __init__(self, options: WriteOptions, producer: Producer) -> None:
        self._topic = options.topic
        self._producer = producer

    def send(self, batch: pa.RecordBatch) -> list[RecordFuture]:
        import pyarrow.compute as pc

        if batch.num_rows == 0:
            return []
        if self._topic is not None:
            return self._send_topic(self._topic, batch)
        topics = batch.column("topic")
        if topics.null_count:
            raise ValueError("A row has no topic (null); use the option topic to set one for all rows")
        futures: list[RecordFuture] = []
        for name in topics.unique().to_pylist():
            futures += self._send_topic(name, batch.filter(pc.equal(topics, name)))
        return futures

    def _send_topic(self, topic: str, batch: pa.RecordBatch) -> list[RecordFuture]:
        rows = batch.select([name for name in ("key", "value", "headers", "partition") if name in batch.schema.names])
        return self._producer.send_batch(topic, rows)
