"""The asyncio producer.

async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
    metadata = await producer.send_and_wait("topic", b"value", key=b"key")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from types import TracebackType
from typing import Self, cast

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

_ENCODED_AT_ONCE = 8
"""Batches of rows that are encoded in one job beside the loop."""


class AsyncProducer:
    """Sends records in the background, in batches, without duplicates or reordering (idempotence is the default)."""

    def __init__(self, config: Mapping[str, Given] | None = None, /, **settings: Given) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit."""
        self._settings = producer_settings(config, settings)
        self._engine: ProducerEngine | None = None

    async def start(self) -> Self:
        """Starts the sender; connections are made when they are needed."""
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
        """The running engine; OdradekError before `start`, in a forked child and in another event loop."""
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
        """Queues a record; awaiting what it returns gives the RecordMetadata, or raises the KafkaError of a refused record.

        Waits for metadata and for room in buffer.memory, max.block.ms at most. `timestamp` is Unix milliseconds, now when left out.

        `on_delivery(metadata, error)` is called once in the client's event loop, records of a partition in their order: it must not block.
        What it raises is logged, whatever it is. It is not called for an error that send() raises.

        TypeError for content, headers, partition or timestamp of a wrong type, ValueError for text that UTF-8 cannot write and numbers that
        do not fit (64 bits for a timestamp): nothing is sent then. OdradekError in a forked child, or in another event loop than that of
        `start`.
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
        info = engine.cluster.known_topic(topic, partition) or await engine.topic(topic, partition)
        return await self._queue(info, record, on_delivery, deadline)

    async def _send_hooked(self, hooks: Hooks, given: ProducerRecord, on_delivery: Delivered | None) -> RecordFuture:
        engine = self.engine
        deadline = engine.deadline_ms()
        record = hooks.intercepted(given)
        try:
            if hooks.may_block(record):
                ready = await asyncio.to_thread(hooks.serialized, record)
            else:
                ready = hooks.serialized(record)
            checked = checked_record(ready.value, ready.key, ready.partition, ready.headers, ready.timestamp)
            told, wanted = hooks.told(on_delivery), checked.partition
            info = engine.cluster.known_topic(ready.topic, wanted) or await engine.topic(ready.topic, wanted)
            partition = hooks.partition(record, ready, info, engine.cluster.view)
            return await self._queue(info, checked._replace(partition=partition), told, deadline)
        except BaseException as error:
            hooks.not_sent(record, error)
            raise

    async def _queue(self, info: TopicInfo, record: Outgoing, told: Delivered | None, deadline: int) -> RecordFuture:
        engine = self.engine
        while (taken := engine.append(info, record, told)) is None:
            await engine.wait_for_room(deadline)
        future, wake = taken
        if wake:
            engine.wake()
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
        """`send`, and waits for the acknowledgement."""
        return await (await self.send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp))

    async def send_many(
        self, topic: str, values: Sequence[Content], *, partition: int | None = None, timestamp: int | None = None
    ) -> list[RecordFuture]:
        """The fast way for many records without keys and headers: a few operations per batch instead of per record.

        Returns one future per run of records that went into the same batch, in order; it has the metadata of the run's first record. With
        serializers, interceptors or partitioner.class it is `send` for each, with as many futures.

        TypeError, ValueError and KafkaError (MESSAGE_TOO_LARGE) as `send`, before any of the records is taken; with serializers,
        interceptors or partitioner.class when it is the record's turn. Of what was taken before an error `sent_before(error)` returns the
        futures, also when buffer.memory stays full (KafkaError) or the call is cancelled.
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
        info = engine.cluster.known_topic(topic, partition) or await engine.topic(topic, partition)
        start = 0
        with reachable_after_an_error(futures):
            while start < len(many.values):
                taken = engine.append_run(info, many, start, partition, timestamp)
                if taken is None:
                    await engine.wait_for_room(deadline)
                    continue
                futures.append(taken[0])
                start += taken[1]
                deadline = engine.deadline_ms()
                engine.wake()
        return futures

    async def send_batch(self, topic: str, rows: ArrowRows, *, partition: int | None = None) -> list[RecordFuture]:
        """Queues rows of Arrow columns, without a Python object per row: `value` and, where they are there, `key` (binary or string),
        `headers` (list of structs of key and value), `timestamp` (int64 milliseconds or any Arrow timestamp) and `partition`.

        Rows go to their partition, else where their key says, as with `send`, else all that fit a batch to one partition. One future a
        batch (`record_count` tells of how many records), in the order of the rows within a partition; each fails for its own rows only.
        A batch has `batch.size` bytes, or 512 KiB where that is not set.

        Before anything is sent: ValueError for a partition or a column that there is not, and for columns and headers that records cannot
        have; KeyError without `value`; OdradekError without pyarrow, and with serializers, interceptors or partitioner.class. A row larger
        than max.request.size is a KafkaError (MESSAGE_TOO_LARGE) after those before it. `sent_before(error)` returns the futures of those.
        """
        engine = self.engine
        if engine.hooks is not None:
            engine.hooks.refuse("send_batch()")
        partition = None if partition is None else checked_partition(partition)
        info = engine.cluster.known_topic(topic, partition) or await engine.topic(topic, partition)
        # Encoding a million rows would hold up the loop.
        run = asyncio.get_running_loop().run_in_executor
        encoded = await run(None, engine.encode_rows, info, rows, partition)
        futures: list[RecordFuture] = []
        with reachable_after_an_error(futures):
            while some := await run(None, list, islice(encoded, _ENCODED_AT_ONCE)):
                for each in some:
                    deadline = engine.deadline_ms()
                    while (future := engine.append_rows(info, each)) is None:
                        await engine.wait_for_room(deadline)
                    futures.append(future)
                    engine.wake()
        return futures

    async def send_encoded(self, target: TopicPartition, payload: bytes, record_count: int, timestamp: int = -1) -> RecordFuture:
        """Queues a whole record batch (magic 2) that was encoded elsewhere, for instance from Arrow.

        TypeError or ValueError for bytes that are not one batch of `record_count` records with the right checksum.
        """
        engine = self.engine
        if engine.hooks is not None:
            engine.hooks.refuse("send_encoded()")
        batch, partition = checked_batch(payload, record_count), checked_partition(target.partition)
        stamp = checked_timestamp(timestamp)
        deadline = engine.deadline_ms()
        info = engine.cluster.known_topic(target.topic, partition) or await engine.topic(target.topic, partition)
        while (future := engine.append_encoded(info, partition, batch, record_count, stamp)) is None:
            await engine.wait_for_room(deadline)
        engine.wake()
        return future

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        return sorted((self.engine.cluster.known_topic(topic) or await self.engine.topic(topic)).partitions)

    async def init_transactions(self) -> None:
        """Takes the transactional.id: producers that had it are fenced, and what they left open is aborted. Once, before all transactions.

        This call, and those below that wait, raise KafkaError(REQUEST_TIMED_OUT) after max.block.ms; they go on, and may be made again.
        A TransactionError says by `abortable` whether to abort the transaction, or to close the producer.
        """
        await self.engine.transactions.initialize()

    def begin_transaction(self) -> None:
        """All records from now on belong to one transaction. IllegalTransactionState when there is one already."""
        self.engine.transactions.begin()

    async def send_offsets_to_transaction(self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata) -> None:
        """Commits a group's offsets with the transaction; with `Consumer.group_metadata()` a member that was replaced is fenced (KIP-447).
        The consumer itself must not commit.
        """
        await self.engine.transactions.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Sends what waits, and commits all of it or, raising the first error, nothing."""
        await self.engine.transactions.commit()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Sends what waits, and leaves the transaction to whoever gets the result: `Admin.end_transactions` commits or aborts it, in this
        process or in another. None when nothing is in it. The producer can only be closed then, which ends nothing.

        The coordinator aborts it after transaction.timeout.ms, unless transaction.two.phase.commit.enable is set (KIP-939).
        """
        return await self.engine.transactions.prepare()

    async def abort_transaction(self) -> None:
        """Readers of committed records will see nothing of the transaction; records that were not sent yet fail with TransactionAborted."""
        await self.engine.transactions.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A transaction that is committed at the end of the block, and aborted by an exception, which goes on to the caller.

        The first one calls `init_transactions` if nobody has. When the commit does not end within max.block.ms, its KafkaError
        (REQUEST_TIMED_OUT) leaves the block and the commit goes on; the next block waits for it.
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
        """Sends what waits at once and returns when all of it is acknowledged or failed."""
        await self.engine.flush()

    def metrics(self) -> dict[MetricName, float]:
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        if self._engine is None:
            raise OdradekError("the producer is not started: use `async with`, or await start()")
        return self._engine.cluster.metrics()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flushes, for at most `timeout_s` seconds, and closes; what is left then fails.

        Goes on when it is cancelled; called again it waits for the same end.
        """
        if self._engine is not None:
            await self._engine.close(timeout_s)
        if self._settings.hooks is not None:
            self._settings.hooks.close()
