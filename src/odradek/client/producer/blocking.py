"""Blocking producer.

with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
    producer.send("topic", "value", key="key")
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, cast

from odradek.base.ids import TopicPartition
from odradek.client.calls.loop_thread import shared_loop
from odradek.client.calls.waiting import wait_in_moments
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.outgoing import Outgoing, checked_batch, checked_partition, checked_record, checked_timestamp, checked_values
from odradek.client.core.transactions import PreparedTransaction
from odradek.client.metrics import MetricName
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.futures import RecordFuture, reachable_after_an_error
from odradek.client.producer.hooks import Delivered, Given, Hooks, ProducerSettings, producer_settings
from odradek.client.producer.transactions import GivenOffsets
from odradek.client.types import ArrowRows, ConsumerGroupMetadata, Content, HeadersInput, ProducerRecord, encode_content


class Producer:
    """Producer like `AsyncProducer` for code without an event loop. Threads may share a producer."""

    def __init__(self, config: Mapping[str, Given] | None = None, /, **settings: Given) -> None:
        """Start a producer: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        chosen = producer_settings(config, settings)
        self._thread = shared_loop()
        try:
            self._engine = self._thread.run(lambda: _make(chosen))
        except BaseException:
            if chosen.hooks is not None:
                chosen.hooks.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(timeout_s=None if error is None else 0)

    def send(
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
        """Queue a record and return its future. `result()` of the future returns the RecordMetadata, or raises the KafkaError of a refused
        record.

        Blocks up to max.block.ms for metadata and for free memory in buffer.memory. `timestamp` is Unix milliseconds (default: the current
        time).

        The client's event loop calls `on_delivery(metadata, error)` once, for the records of a partition in their order. `on_delivery` must
        not block. Any exception from `on_delivery` is logged. An error that send() itself raises is not passed to `on_delivery`.

        Raises TypeError for content, headers, partition or timestamp of a wrong type. Raises ValueError for text that UTF-8 cannot encode
        and for numbers out of range (64 bits for a timestamp). In both cases the record is not sent. Raises OdradekError in a forked child.
        """
        engine = self._engine
        if engine.hooks is not None:
            return self._send_hooked(engine.hooks, ProducerRecord(topic, value, key, partition, headers, timestamp), on_delivery)
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
        info = self._topic(topic, partition)
        return self._queue(info, record, on_delivery, deadline)

    def _send_hooked(self, hooks: Hooks, given: ProducerRecord, on_delivery: Delivered | None) -> RecordFuture:
        engine = self._engine
        engine.cluster.origin.check_process()
        deadline = engine.deadline_ms()
        record = hooks.intercepted(given)
        try:
            ready = hooks.serialized(record)
            checked = checked_record(ready.value, ready.key, ready.partition, ready.headers, ready.timestamp)
            told = hooks.told(on_delivery)
            info = self._topic(ready.topic, checked.partition)
            partition = hooks.partition(record, ready, info, engine.cluster.view)
            return self._queue(info, checked._replace(partition=partition), told, deadline)
        except BaseException as error:
            hooks.not_sent(record, error)
            raise

    def _queue(self, info: TopicInfo, record: Outgoing, told: Delivered | None, deadline: int) -> RecordFuture:
        engine = self._engine
        while (taken := engine.append(info, record, told)) is None:
            self._wait_for_room(deadline)
        future, wake = taken
        if wake:
            self._thread.call_soon(engine.turn)
        return future

    def send_many(
        self, topic: str, values: Sequence[Content], *, partition: int | None = None, timestamp: int | None = None
    ) -> list[RecordFuture]:
        """Queue many records without keys and headers, at a few operations per batch; see `AsyncProducer.send_many`."""
        engine = self._engine
        futures: list[RecordFuture] = []
        if engine.hooks is not None:
            with reachable_after_an_error(futures):
                for value in values:
                    futures.append(self.send(topic, value, partition=partition, timestamp=timestamp))
            return futures
        many = checked_values(values)
        engine.check_values(many)
        partition = None if partition is None else checked_partition(partition)
        timestamp = None if timestamp is None else checked_timestamp(timestamp)
        deadline = engine.deadline_ms()
        info = self._topic(topic, partition)
        start = 0
        with reachable_after_an_error(futures):
            while start < len(many.values):
                taken = engine.append_run(info, many, start, partition, timestamp)
                if taken is None:
                    self._wait_for_room(deadline)
                    continue
                futures.append(taken[0])
                start += taken[1]
                deadline = engine.deadline_ms()
                self._thread.call_soon(engine.wake)
        return futures

    def send_batch(self, topic: str, rows: ArrowRows, *, partition: int | None = None) -> list[RecordFuture]:
        """Queue rows of Arrow columns, without a Python object per row; see `AsyncProducer.send_batch`."""
        engine = self._engine
        if engine.hooks is not None:
            engine.hooks.refuse("send_batch()")
        partition = None if partition is None else checked_partition(partition)
        info = self._topic(topic, partition)
        futures: list[RecordFuture] = []
        with reachable_after_an_error(futures):
            for each in engine.encode_rows(info, rows, partition):
                deadline = engine.deadline_ms()
                while (future := engine.append_rows(info, each)) is None:
                    self._wait_for_room(deadline)
                futures.append(future)
                self._thread.call_soon(engine.wake)
        return futures

    def send_encoded(self, target: TopicPartition, payload: bytes, record_count: int, timestamp: int = -1) -> RecordFuture:
        """Queue a whole record batch (magic 2) that the caller encoded; see `AsyncProducer.send_encoded`."""
        if self._engine.hooks is not None:
            self._engine.hooks.refuse("send_encoded()")
        batch, partition = checked_batch(payload, record_count), checked_partition(target.partition)
        stamp = checked_timestamp(timestamp)
        deadline = self._engine.deadline_ms()
        info = self._topic(target.topic, partition)
        while (future := self._engine.append_encoded(info, partition, batch, record_count, stamp)) is None:
            self._wait_for_room(deadline)
        self._thread.call_soon(self._engine.wake)
        return future

    def partitions_for(self, topic: str) -> list[int]:
        """Return the partition numbers of the topic, sorted."""
        return sorted(self._topic(topic).partitions)

    def init_transactions(self) -> None:
        """Register the transactional.id; see `AsyncProducer.init_transactions`."""
        self._thread.run(self._engine.transactions.initialize)

    def begin_transaction(self) -> None:
        """Begin a transaction: all records sent from now on belong to it.

        Raises IllegalTransactionState when a transaction is open already.
        """
        self._engine.transactions.begin()

    def send_offsets_to_transaction(self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata) -> None:
        """Commit a group's offsets with the transaction; see `AsyncProducer.send_offsets_to_transaction`."""
        self._thread.run(lambda: self._engine.transactions.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Send all queued records and commit the transaction. Raises the first error of a record, in which case no record is committed."""
        self._thread.run(self._engine.transactions.commit)

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Send all queued records and leave the transaction open for `Admin.end_transactions`; see `AsyncProducer.prepare_transaction`."""
        return self._thread.run(self._engine.transactions.prepare)

    def abort_transaction(self) -> None:
        """Abort the transaction: readers of committed records see none of its records. Unsent records fail with TransactionAborted."""
        self._thread.run(self._engine.transactions.abort)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Return a context manager for a transaction: its end commits, an exception aborts; see `AsyncProducer.transaction`."""
        manager = self._engine.transactions
        self._thread.run(manager.begin_block)
        try:
            yield
            self.commit_transaction()
        except BaseException:
            self._thread.run(manager.abandon)
            raise

    def flush(self) -> None:
        """Send all queued records without lingering, and wait until each is acknowledged or has failed."""
        self._thread.run(self._engine.flush)

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics under Kafka's names: rates per second, times in milliseconds, sizes in bytes."""
        metrics = self._engine.cluster.metrics

        async def call() -> dict[MetricName, float]:
            return metrics()

        return self._thread.run(call)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s` seconds (None: no limit), fail the remaining records and close the producer.

        Ctrl-C does not stop the closing. A second call waits for the same end. Raises OdradekError in a forked child.
        """
        if not self._engine.closed:
            self._thread.run(lambda: self._engine.close(timeout_s))
        if self._engine.hooks is not None:
            self._engine.hooks.close()

    def _topic(self, name: str, partition: int | None = None) -> TopicInfo:
        engine = self._engine
        engine.cluster.origin.check_process()
        return engine.cluster.known_topic(name, partition) or self._thread.run(lambda: engine.topic(name, partition))

    def _wait_for_room(self, deadline_ms: int) -> None:
        engine = self._engine
        self._thread.call_soon(engine.wake)
        with engine.lock:
            if not engine.is_full:
                return
            if self._thread.is_current:
                # The blocked loop thread could not process an acknowledgement.
                raise engine.no_room()
            if not wait_in_moments(engine.room.wait, (deadline_ms - engine.cluster.now_ms()) / 1000):
                raise engine.no_room()


async def _make(chosen: ProducerSettings) -> ProducerEngine:
    return ProducerEngine(chosen.config, hooks=chosen.hooks)
