"""Writing rows to topics, at least once: a task that is repeated writes its rows again, as with the connector."""

# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from odradek.base.ids import TopicPartition
from odradek.client.config import PRODUCER_CONFIG, ClientConfig, Setting
from odradek.client.core.partitioner import StickyPartitioner, partition_for_key
from odradek.client.producer.blocking import Producer
from odradek.client.producer.engine import sender_config
from odradek.client.producer.futures import RecordFuture
from odradek.records.arrow import encode_from_arrow
from odradek.records.batch import read_header
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
    config = ClientConfig(PRODUCER_CONFIG, settings)
    rows = 0
    futures: list[RecordFuture] = []
    with Producer(settings) as producer:
        router = _Router(options, config, producer)
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
    """Splits rows by topic and partition and hands them to the producer as whole record batches, without Python per row where it can."""

    def __init__(self, options: WriteOptions, config: ClientConfig, producer: Producer) -> None:
        self._topic = options.topic
        self._producer = producer
        sending = sender_config(config)
        self._compression, self._level = sending.compression, sending.compression_level
        self._batch_bytes = min(config.integer("batch.size"), config.integer("max.request.size"))
        self._rng = random.Random()
        self._sticky: dict[str, StickyPartitioner] = {}

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
        import pyarrow.compute as pc

        partitions = self._producer.partitions_for(topic)
        numbers = self._numbers(batch, len(partitions))
        rows = batch.select([name for name in ("key", "value", "headers") if name in batch.schema.names])
        if numbers is None:
            return self._send_anywhere(topic, rows, partitions)
        futures: list[RecordFuture] = []
        for number in numbers.unique().to_pylist():
            mask = numbers.is_null() if number is None else pc.equal(numbers, number)
            chosen = rows.filter(mask)
            if number is None:
                futures += self._send_anywhere(topic, chosen, partitions)
            elif number not in partitions:
                raise ValueError(f"Topic {topic} has partitions 0 to {len(partitions) - 1}, but a row asks for {number}")
            else:
                futures += self._send_partition(TopicPartition(topic, number), chosen)
        return futures

    def _numbers(self, batch: pa.RecordBatch, count: int) -> pa.Array | None:
        """The partition of each row: the column's, else by key, else null; None when no row has either."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = batch.schema.names
        asked = batch.column("partition").cast(pa.int32()) if "partition" in names else None
        by_key: pa.Array | None = None
        if "key" in names and batch.column("key").null_count < batch.num_rows and (asked is None or asked.null_count):
            keys = batch.column("key").cast(pa.binary()).dictionary_encode()
            hashed = pa.array([partition_for_key(key, count) for key in keys.dictionary.to_pylist()], pa.int32())
            by_key = hashed.take(keys.indices)
        if asked is None:
            return by_key
        return asked if by_key is None else pc.coalesce(asked, by_key)

    def _send_anywhere(self, topic: str, rows: pa.RecordBatch, partitions: list[int]) -> list[RecordFuture]:
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartitioner(self._batch_bytes, self._rng)
        stamp = _now_ms()
        return [
            self._queue(TopicPartition(topic, sticky.choose(partitions, len(payload))), payload, stamp)
            for payload in self._encoded(rows, stamp)
        ]

    def _send_partition(self, target: TopicPartition, rows: pa.RecordBatch) -> list[RecordFuture]:
        stamp = _now_ms()
        return [self._queue(target, payload, stamp) for payload in self._encoded(rows, stamp)]

    def _encoded(self, rows: pa.RecordBatch, stamp: int) -> list[bytes]:
        return encode_from_arrow(
            rows, max_batch_bytes=self._batch_bytes, default_timestamp_ms=stamp, compression=self._compression, level=self._level
        )

    def _queue(self, target: TopicPartition, payload: bytes, stamp: int) -> RecordFuture:
        return self._producer.send_encoded(target, payload, read_header(payload).record_count, stamp)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
