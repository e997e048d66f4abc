"""Asyncio producer.

async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
    metadata = await producer.send_and_wait("topic", b"value", key=b"key")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.outgoing import Outgoing, checked_batch, checked_partition, checked_record, checked_timestamp, checked_values
from odradek.client.core.transactions import PreparedTransaction
from odradek.client.metrics import MetricName
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.futures import RecordFuture, reachable_after_an_error
from odradek.client.producer.hooks import Delivered, Given, Hooks, producer_settings
from odradek.client.producer.transactions import GivenOffsets
from odradek.client.types import ArrowRows, ConsumerGroupMetadata, Content, HeadersInput, ProducerRecord, RecordMetadata, encode_content

P = ParamSpec("P")
T = TypeVar("T")


class AsyncProducer:
    """Producer for asyncio, which sends records in batches in the background.

    By default sending is idempotent: without duplicates or reordering.
    """

    _encoded_at_once = 8
    """Number of batches of rows that one executor call encodes."""

    def __init__(self, config: Mapping[str, Given] | None = None, /, **settings: Given) -> None:
        """Check the settings: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        self._settings = producer_settings(config, settings)
        self._engine: ProducerEngine | None = None

    async def start(self) -> Self:
        """Start the sender. The producer opens connections when it needs them."""
        if self._engine is None:
            self._engine = ProducerEngine(self._settings.config, hooks=self._settings.hooks)
        self._engine.cluster.origin.check()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(timeout_s=None if error is None else 0)

    @property
    def engine(self) -> ProducerEngine:
        """Running engine. Raises OdradekError before `start`, in a forked child and in another event loop."""
        engine = self._engine
        if engine is None:
            raise OdradekError("the producer is not started: use `async with`, or await start()")
        engine.cluster.origin.check()
        return engine

    async def send(
        self,
        topic: str,
        value: Content = None,
        *,
        key: Content = None,
        partition: int | None = None,
        headers: HeadersInput = None,
        timestamp: int | None = None,
        on_delivery: Delivered | None = None,
    ) -> RecordFuture:
        """Queue a record and return its future. Awaiting the future gives the RecordMetadata, or raises the KafkaError of a refused record.

        Waits up to max.block.ms for metadata and for free memory in buffer.memory. `timestamp` is Unix milliseconds (default: the current
        time).

        The client's event loop calls `on_delivery(metadata, error)` once, for the records of a partition in their order. `on_delivery` must
        not block. Any exception from `on_delivery` is logged. An error that send() itself raises is not passed to `on_delivery`.

        Raises TypeError for content, headers, partition or timestamp of a wrong type. Raises ValueError for text that UTF-8 cannot encode
        and for numbers out of range (64 bits for a timestamp). In both cases the record is not sent. Raises OdradekError in a forked child,
        and in another event loop than that of `start`.
        """
        engine = self.engine
        if engine.hooks is not None:
            return await self._send_hooked(engine.hooks, ProducerRecord(topic, value, key, partition, headers, timestamp), on_delivery)
        if timestamp is not None:
            timestamp = checked_timestamp(timestamp)
        if key is not None and type(key) is not bytes:
            key = encode_content(key)
        if type(value) is str:
            value = value.encode()
        if partition is None and headers is None:
            if on_delivery is not None:
                ticket = engine.gather_told(topic, key, value, timestamp, on_delivery)
            elif key is not None:
                ticket = engine.gather(topic, key, value, timestamp)
            else:
                gatherer = engine.gatherers.get(topic)
                ticket = None if gatherer is None else gatherer.take(None, value, timestamp)
            if ticket is not None:
                return cast(RecordFuture, ticket)
        record = checked_record(value, key, partition, headers, timestamp)
        deadline = engine.deadline_ms()
        info = engine.cluster.known_topic(topic, partition) or await self._topic(topic, partition)
        return await self._queue(info, record, on_delivery, deadline)

    async def _send_hooked(self, hooks: Hooks, given: ProducerRecord, on_delivery: Delivered | None) -> RecordFuture:
        engine = self.engine
        deadline = engine.deadline_ms()
        record = hooks.intercepted(given)
        try:
            if hooks.may_block(record):
                ready = await self._apart(hooks.serialized, record)
            else:
                ready = hooks.serialized(record)
            checked = checked_record(ready.value, ready.key, ready.partition, ready.headers, ready.timestamp)
            told = hooks.told(on_delivery)
            info = await self._topic(ready.topic, checked.partition)
            partition = hooks.partition(record, ready, info, engine.cluster.view)
            return await self._queue(info, checked._replace(partition=partition), told, deadline)
        except BaseException as error:
            hooks.not_sent(record, error)
            raise

    async def _queue(self, info: TopicInfo, record: Outgoing, told: Delivered | None, deadline: int) -> RecordFuture:
        engine = self.engine
        while (taken := engine.append(info, record, told)) is None:
            await self._wait_for_room(deadline)
        future, wake = taken
        if wake:
            self._wake()
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: Content = None,
        *,
        key: Content = None,
        partition: int | None = None,
        headers: HeadersInput = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Queue a record as `send` does, wait for the acknowledgement and return the record's metadata."""
        return await (await self.send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp))

    async def send_many(
        self, topic: str, values: Sequence[Content], *, partition: int | None = None, timestamp: int | None = None
    ) -> list[RecordFuture]:
        """Queue many records without keys and headers. The cost is a few operations per batch instead of per record.

        Return one future per run of records that went into the same batch, in order; it has the metadata of the run's first record. With
        serializers, interceptors or partitioner.class the call is the same as `send` for each record, with one future per record.

        Raises TypeError, ValueError and KafkaError (MESSAGE_TOO_LARGE) as `send` does, before the first record is queued. With serializers,
        interceptors or partitioner.class the error comes when the call reaches the record. After an error, `sent_before(error)` returns the
        futures of the records that were queued before. The same holds when buffer.memory stays full (KafkaError) and when the call is
        cancelled.
        """
        engine = self.engine
        futures: list[RecordFuture] = []
        if engine.hooks is not None:
            with reachable_after_an_error(futures):
                for value in values:
                    futures.append(await self.send(topic, value, partition=partition, timestamp=timestamp))
            return futures
        many = checked_values(values)
        engine.check_values(many)
        partition = None if partition is None else checked_partition(partition)
        timestamp = None if timestamp is None else checked_timestamp(timestamp)
        deadline = engine.deadline_ms()
        info = await self._topic(topic, partition)
        start = 0
        with reachable_after_an_error(futures):
            while start < len(many.values):
                taken = engine.append_run(info, many, start, partition, timestamp)
                if taken is None:
                    await self._wait_for_room(deadline)
                    continue
                futures.append(taken[0])
                start += taken[1]
                deadline = engine.deadline_ms()
                self._wake()
        return futures

    async def send_batch(self, topic: str, rows: ArrowRows, *, partition: int | None = None) -> list[RecordFuture]:
        """Queue rows of Arrow columns, without a Python object per row.

        Columns: `value` (required), `key` (binary or string), `headers` (list of structs of key and value), `timestamp` (int64 milliseconds
        or any Arrow timestamp) and `partition`.

        A row goes to its partition if it has one, else to the partition of its key as with `send`. All other rows that fit a batch go to
        one partition. A batch holds up to `batch.size` bytes, or 512 KiB where `batch.size` is not set.

        Return one future per batch, in the order of the rows within a partition; `record_count` is the number of its records. Each future
        fails for its own rows only.

        Raises before any row is sent: ValueError for an unknown partition or column, and for types or headers that records cannot have;
        KeyError without `value`; OdradekError without pyarrow, and with serializers, interceptors or partitioner.class.

        Raises KafkaError (MESSAGE_TOO_LARGE) for a row larger than max.request.size, after the rows before it are queued.
        `sent_before(error)` returns the futures of those rows.
        """
        engine = self.engine
        if engine.hooks is not None:
            engine.hooks.refuse("send_batch()")
        partition = None if partition is None else checked_partition(partition)
        info = await self._topic(topic, partition)
        # Encoding a million rows would block the event loop.
        encoded = await self._apart(engine.encode_rows, info, rows, partition)
        futures: list[RecordFuture] = []
        with reachable_after_an_error(futures):
            while some := await self._apart(list, islice(encoded, self._encoded_at_once)):
                for each in some:
                    deadline = engine.deadline_ms()
                    while (future := engine.append_rows(info, each)) is None:
                        await self._wait_for_room(deadline)
                    futures.append(future)
                    self._wake()
        return futures

    async def send_encoded(self, target: TopicPartition, payload: bytes, record_count: int, timestamp: int = -1) -> RecordFuture:
        """Queue a whole record batch (magic 2) that the caller encoded, for instance from Arrow.

        Raises TypeError or ValueError when `payload` is not exactly one batch of `record_count` records with a correct checksum.
        """
        engine = self.engine
        if engine.hooks is not None:
            engine.hooks.refuse("send_encoded()")
        batch, partition = checked_batch(payload, record_count), checked_partition(target.partition)
        stamp = checked_timestamp(timestamp)
        deadline = engine.deadline_ms()
        info = await self._topic(target.topic, partition)
        while (future := engine.append_encoded(info, partition, batch, record_count, stamp)) is None:
            await self._wait_for_room(deadline)
        self._wake()
        return future

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partition numbers of the topic, sorted."""
        return sorted((await self._topic(topic)).partitions)

    async def init_transactions(self) -> None:
        """Register the transactional.id: fence older producers with the same id and abort their open transactions. Call once, before any
        transaction.

        This method and the other transaction methods that wait raise KafkaError(REQUEST_TIMED_OUT) after max.block.ms. The operation then
        goes on, and the same call may be made again. `TransactionError.abortable` tells whether to abort the transaction (True) or to close
        the producer (False).
        """
        await self.engine.transactions.initialize()

    def begin_transaction(self) -> None:
        """Begin a transaction: all records sent from now on belong to it.

        Raises IllegalTransactionState when a transaction is open already.
        """
        self.engine.transactions.begin()

    async def send_offsets_to_transaction(self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata) -> None:
        """Commit a group's offsets with the transaction. The consumer itself must not commit.

        With `Consumer.group_metadata()` the coordinator fences a member that was replaced (KIP-447).
        """
        await self.engine.transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Send all queued records and commit the transaction. Raises the first error of a record, in which case no record is committed."""
        await self.engine.transactions.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Send all queued records and leave the transaction open. `Admin.end_transactions` commits or aborts it, in this or another
        process.

        Return the prepared transaction, or None when the transaction is empty. After a prepared transaction the producer can only be
        closed, which does not end the transaction. The coordinator aborts the transaction after transaction.timeout.ms, unless
        transaction.two.phase.commit.enable is set (KIP-939).
        """
        return await self.engine.transactions.prepare()

    async def abort_transaction(self) -> None:
        """Abort the transaction: readers of committed records see none of its records. Unsent records fail with TransactionAborted."""
        await self.engine.transactions.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Return a context manager for a transaction: its end commits, an exception aborts and is raised again.

        The first transaction calls `init_transactions` unless the application has called it. When the commit takes longer than
        max.block.ms, the block raises KafkaError(REQUEST_TIMED_OUT) and the commit goes on. The next block waits for that commit.
        """
        manager = self.engine.transactions
        await manager.begin_block()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            await manager.abandon()
            raise

    async def flush(self) -> None:
        """Send all queued records without lingering, and wait until each is acknowledged or has failed."""
        await self.engine.flush()

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics under Kafka's names: rates per second, times in milliseconds, sizes in bytes."""
        if self._engine is None:
            raise OdradekError("the producer is not started: use `async with`, or await start()")
        return self._engine.cluster.metrics()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s` seconds (None: no limit), fail the remaining records and close the producer.

        A cancelled caller does not stop the closing. A second call waits for the same end.
        """
        if self._engine is not None:
            await self._engine.close(timeout_s)
        if self._settings.hooks is not None:
            self._settings.hooks.close()

    # -- what the blocking producer does in another way --------------------------------------------------------------------------------

    async def _topic(self, name: str, partition: int | None = None) -> TopicInfo:
        engine = self.engine
        return engine.cluster.known_topic(name, partition) or await engine.topic(name, partition)

    async def _wait_for_room(self, deadline_ms: int) -> None:
        await self.engine.wait_for_room(deadline_ms)

    def _wake(self) -> None:
        self.engine.wake()

    async def _apart(self, function: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        """Call a function that would block the event loop."""
        return await asyncio.to_thread(function, *arguments, **keywords)
