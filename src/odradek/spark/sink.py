"""Sink that writes rows to topics: exactly once, or as the connector at least once, where a repeated task writes its rows again."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from odradek.base.errors import OdradekError
from odradek.client.producer.blocking import Producer
from odradek.client.producer.futures import RecordFuture
from odradek.client.settings.config import Setting
from odradek.spark import exactly_once
from odradek.spark.decisions import OUTSIDE_OF_QUERIES, Sink, TaskId
from odradek.spark.exactly_once import PreparedRows
from odradek.spark.options import WriteOptions
from odradek.spark.read_ahead import read_ahead
from odradek.spark.worker_upkeep import SentToWorkers, keep_archives

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
"""Property of a task in which Spark stores the id of its query."""

_BATCH_BYTES = 512 * 1024
"""batch.size unless the user sets it: rows come in thousands, and large batches cost the broker less."""


class Written(WriterCommitMessage):
    """Result of a task: acknowledged rows, and with exactlyOnce its sink and its open transaction."""

    def __init__(self, rows: int, sink: Sink | None = None, prepared: PreparedRows | None = None) -> None:
        self.rows = rows
        self.sink = sink
        self.prepared = prepared

    @property
    def app_id(self) -> str | None:
        """Name of the sink."""
        return None if self.sink is None else self.sink.app_id


def check_columns(schema: StructType, topic_option: str | None) -> None:
    """Raise ValueError, which names the column, when the sink cannot write these columns.

    Other columns are ignored, as in the connector.
    """
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


class BatchWriter(SentToWorkers, DataSourceArrowWriter):
    """Writer of `df.write.format("odradek")`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run = uuid4().hex[:8]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, and return when all are acknowledged."""
        options = self._options
        if not options.exactly_once:
            return write_rows(options, iterator)
        assert options.app_id is not None
        context = task_context()
        # Within `foreachBatch` the query's id is set.
        sink = Sink(options.app_id, context.getLocalProperty(QUERY_ID) or OUTSIDE_OF_QUERIES)
        return prepare_rows(options, sink, TaskId(self._run, options.version, context.partitionId(), context.attemptNumber()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible, with exactlyOnce."""
        commit_rows(self._options, self._options.version, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the rows of all tasks, with exactlyOnce."""
        abort_rows(self._options, self._options.version, messages)


def task_context() -> TaskContext:
    """Return the context of the running task. Raises OdradekError outside of a task."""
    context = TaskContext.get()
    if context is None:
        raise OdradekError("exactlyOnce works in the tasks of Spark only")
    return context


def commit_rows(options: WriteOptions, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Make the rows of all tasks of a batch visible. Without exactlyOnce the rows are visible already."""
    sink, prepared = _prepared(messages)
    if sink is not None:
        exactly_once.commit(_client_settings(options), sink, batch, prepared)


def abort_rows(options: WriteOptions, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort the rows of all tasks of a batch. Without exactlyOnce the rows stay."""
    sink, prepared = _prepared(messages)
    if sink is not None:
        exactly_once.abort(_client_settings(options), sink, batch, prepared)


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> tuple[Sink | None, list[PreparedRows]]:
    written = [each for each in messages if isinstance(each, Written)]
    sinks = {each.sink for each in written if each.sink is not None}
    return sinks.pop() if sinks else None, [each.prepared for each in written if each.prepared is not None]


def write_rows(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send all rows and wait for their acknowledgement. Raises the KafkaError of the first row that was refused."""
    keep_archives()
    with Producer(_client_settings(options)) as producer:
        return Written(_send_rows(_Router(options, producer), producer, batches))


def prepare_rows(options: WriteOptions, sink: Sink, task: TaskId, batches: Iterator[pa.RecordBatch]) -> Written:
    """Send all rows in a transaction and leave the transaction open for the driver.

    Raises the KafkaError of the first row that was refused.
    """
    keep_archives()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written(0, sink)
    settings = exactly_once.transactional_settings(_client_settings(options), sink.transactional_id(task))
    with Producer(settings) as producer:  # Closing aborts an unprepared transaction.
        producer.init_transactions()
        producer.begin_transaction()
        router = _Router(options, producer)
        rows = _send_rows(router, producer, chain([first], batches))
        transaction = producer.prepare_transaction()
    assert transaction is not None
    return Written(rows, sink, PreparedRows(min(router.topics), transaction))


def _client_settings(options: WriteOptions) -> dict[str, Setting]:
    settings: dict[str, Setting] = dict(options.client)
    settings.setdefault("client.id", "odradek-spark")
    settings.setdefault("batch.size", str(_BATCH_BYTES))
    settings.setdefault("linger.ms", "0")
    return settings


def _send_rows(router: _Router, producer: Producer, batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    futures: list[RecordFuture] = []
    for batch in read_ahead(iter(batches)):
        rows += batch.num_rows
        futures += router.send(batch)
        futures = _unfinished(futures)
    producer.flush()
    for future in futures:
        future.result()
    return rows


def _unfinished(futures: list[RecordFuture]) -> list[RecordFuture]:
    """Return the futures that are not done. Raises the error of a future that failed."""
    left: list[RecordFuture] = []
    for future in futures:
        if future.done():
            future.result()
        else:
            left.append(future)
    return left


def _check_headers(headers: pa.ListArray) -> None:
    """Raise ValueError for a null header or a header without a key. A row without headers has null in the column."""
    there = headers.flatten()
    if there.null_count or there.field("key").null_count:
        raise ValueError("A row has a header that is null, or a header with a null key")


class _Router:
    """Router of rows to the producer by topic, without Python per row."""

    def __init__(self, options: WriteOptions, producer: Producer) -> None:
        self._topic = options.topic
        self._producer = producer
        self.topics: set[str] = set()
        """Topics to which rows were sent."""

    def send(self, batch: pa.RecordBatch) -> list[RecordFuture]:
        import pyarrow.compute as pc

        if batch.num_rows == 0:
            return []
        if "headers" in batch.schema.names:
            _check_headers(batch.column("headers"))
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
        self.topics.add(topic)
        rows = batch.select([name for name in ("key", "value", "headers", "partition") if name in batch.schema.names])
        return self._producer.send_batch(topic, rows)
