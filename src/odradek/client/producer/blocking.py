"""Blocking producer.

with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
    producer.send("topic", "value", key="key")
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, TypeVar, cast

from odradek.client.calls.blocking import Face, awaited_here, blocking, called_here, called_in_loop
from odradek.client.calls.loop_thread import shared_loop
from odradek.client.calls.waiting import wait_in_moments
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.outgoing import checked_record, checked_timestamp
from odradek.client.producer.aio import AsyncProducer
from odradek.client.producer.engine import ProducerEngine
from odradek.client.producer.futures import RecordFuture
from odradek.client.producer.hooks import Delivered, Given
from odradek.client.types import Content, HeadersInput, encode_content

P = ParamSpec("P")
T = TypeVar("T")


class _ProducerOfThreads(AsyncProducer):
    """Asyncio producer whose sending methods run in the application's threads, as `awaited_here`; its other methods run in the loop."""

    _encoded_at_once = 1

    def __init__(self, config: Mapping[str, Given] | None, settings: Mapping[str, Given]) -> None:
        super().__init__(config, **settings)
        self._thread = shared_loop()

    def close_hooks(self) -> None:
        """Close the application's hooks, in the calling thread."""
        if self._settings.hooks is not None:
            self._settings.hooks.close()

    @property
    def engine(self) -> ProducerEngine:
        """Running engine. Raises OdradekError in a forked child."""
        engine = self._engine
        assert engine is not None
        engine.cluster.origin.check_process()
        return engine

    async def _topic(self, name: str, partition: int | None = None) -> TopicInfo:
        engine = self.engine
        return engine.cluster.known_topic(name, partition) or self._thread.run(lambda: engine.topic(name, partition))

    async def _wait_for_room(self, deadline_ms: int) -> None:
        engine = self.engine
        self._thread.call_soon(engine.wake)
        with engine.lock:
            if not engine.is_full:
                return
            if self._thread.is_current:
                # The blocked loop thread could not process an acknowledgement.
                raise engine.no_room()
            if not wait_in_moments(engine.room.wait, (deadline_ms - engine.cluster.now_ms()) / 1000):
                raise engine.no_room()

    def _wake(self) -> None:
        self._thread.call_soon(self.engine.wake)

    async def _apart(self, function: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return function(*arguments, **keywords)


class Producer(Face[_ProducerOfThreads]):
    """Producer like `AsyncProducer` for code without an event loop. Threads may share a producer."""

    def __init__(self, config: Mapping[str, Given] | None = None, /, **settings: Given) -> None:
        """Start a producer: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        super().__init__(_ProducerOfThreads(config, settings))
        try:
            self._thread.run(self._client.start)
        except BaseException:
            self._client.close_hooks()
            raise
        self._engine = self._client.engine

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
        # By hand for a record that does not wait: the derived form costs 1.5 to 3 times as much (bench/faces.py).
        if engine.hooks is None:
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
            info = engine.cluster.known_topic(topic, partition)
            taken = None if info is None else engine.append(info, record, on_delivery)
            if taken is not None:
                if taken[1]:
                    self._thread.call_soon(engine.turn)
                return taken[0]
        return self._send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery)

    _send = awaited_here(AsyncProducer.send)
    send_many = awaited_here(AsyncProducer.send_many)
    send_batch = awaited_here(AsyncProducer.send_batch)
    send_encoded = awaited_here(AsyncProducer.send_encoded)
    partitions_for = awaited_here(AsyncProducer.partitions_for)

    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = called_here(AsyncProducer.begin_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    prepare_transaction = blocking(AsyncProducer.prepare_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)

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

    flush = blocking(AsyncProducer.flush)
    metrics = called_in_loop(AsyncProducer.metrics)

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s` seconds (None: no limit), fail the remaining records and close the producer.

        Ctrl-C does not stop the closing. A second call waits for the same end. Raises OdradekError in a forked child.
        """
        if not self._engine.closed:
            self._thread.run(lambda: self._engine.close(timeout_s))
        self._client.close_hooks()
