"""Engine of both producers, asyncio and blocking: runs the accumulator and the sender in an event loop.

Any thread may call `append` and the other methods that take records; all others belong to the loop. `lock` guards accumulator and sender.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import Alarm
from odradek.client.calls.clock import ClientClock
from odradek.client.calls.ongoing import Ongoing
from odradek.client.core.accumulator import Accumulator, RecordTuple
from odradek.client.core.data_requests import (
    LAST_PRODUCE_BY_NAME,
    LAST_PRODUCE_OF_ADDED_PARTITIONS,
    produce_answers,
    produce_request,
    topic_ids,
)
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.outgoing import Outgoing, Values, checked_topic
from odradek.client.core.sender import Dispatch, Sender, SenderConfig
from odradek.client.core.transactions import IllegalTransactionState, Transactions
from odradek.client.network.cluster import ClientClosed, Cluster, Node, as_kafka_error
from odradek.client.producer.arrow import EncodedRows, RowEncoder
from odradek.client.producer.futures import RecordFuture
from odradek.client.producer.hooks import Delivered, Hooks, check_told
from odradek.client.producer.routing import Router
from odradek.client.producer.transactions import TransactionManager
from odradek.client.pyarrow_needed import need_pyarrow
from odradek.client.settings.config import ClientConfig
from odradek.client.settings.producer_keys import (
    BATCH_SIZE,
    BUFFER_MEMORY,
    COMPRESSION_GZIP_LEVEL,
    COMPRESSION_LZ4_LEVEL,
    COMPRESSION_TYPE,
    COMPRESSION_ZSTD_LEVEL,
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    LINGER_MS,
    MAX_BLOCK_MS,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    MAX_REQUEST_SIZE,
    PARTITIONER_AVAILABILITY_TIMEOUT_MS,
    PARTITIONER_IGNORE_KEYS,
    RETRIES,
    TRANSACTIONAL_ID,
)
from odradek.client.types import ArrowRows, Content
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceResponse
from odradek.records.batch import read_header
from odradek.records.codec import RECORD_OVERHEAD, Ticket
from odradek.records.compression import Compression

_LOG = logging.getLogger(__name__)
_NO_TIMEOUT = 2**31 - 1
_LEVEL_KEYS = {
    Compression.GZIP: COMPRESSION_GZIP_LEVEL,
    Compression.LZ4: COMPRESSION_LZ4_LEVEL,
    Compression.ZSTD: COMPRESSION_ZSTD_LEVEL,
}
_LONG_MS = 3_600_000
_ROWS_SIZE = 512 * 1024
"""Bytes of a batch of Arrow rows where batch.size is not set. A batch costs as much as a thousand of its rows."""


def sender_config(config: ClientConfig) -> SenderConfig:
    """Return the settings that the sender needs."""
    compression = Compression[config[COMPRESSION_TYPE].upper()]
    level_key = _LEVEL_KEYS.get(compression)
    return SenderConfig(
        acks=config.acks,
        idempotent=config[ENABLE_IDEMPOTENCE],
        max_in_flight=config[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION],
        max_request_size=config[MAX_REQUEST_SIZE],
        retries=config[RETRIES],
        delivery_timeout_ms=config[DELIVERY_TIMEOUT_MS],
        batch_size=config[BATCH_SIZE],
        rows_size=min(config[BATCH_SIZE] if config.is_set(BATCH_SIZE) else _ROWS_SIZE, config[MAX_REQUEST_SIZE]),
        compression=compression,
        compression_level=config[level_key] if level_key is not None and config.is_set(level_key) else None,
        availability_timeout_ms=config[PARTITIONER_AVAILABILITY_TIMEOUT_MS],
    )


class ProducerEngine:
    """Engine of one producer; the event loop creates, starts and closes it."""

    def __init__(self, config: ClientConfig, cluster: Cluster | None = None, hooks: Hooks | None = None) -> None:
        """Create the engine; `hooks` are the application's serializers, interceptors and partitioner, None without any."""
        self.hooks = hooks
        self._loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(config)
        self.lock = threading.RLock()
        self.room = threading.Condition(self.lock)
        self.max_block_ms = config[MAX_BLOCK_MS]
        self._batch_size = config[BATCH_SIZE]
        self._max_record = config[MAX_REQUEST_SIZE]
        self._settings = sender_config(config)
        clock = self.cluster.clock
        self._accumulator = Accumulator(
            self._batch_size,
            config[LINGER_MS],
            config[BUFFER_MEMORY],
            RecordFuture,
            time.time_ns if isinstance(clock, ClientClock) else lambda: clock.time_ms() * 1_000_000,
            self.cluster.origin,
        )
        transactional_id = config[TRANSACTIONAL_ID]
        core = Transactions(transactional_id) if transactional_id is not None else None
        self._transactional_id = transactional_id
        self._sender = Sender(self._settings, self._accumulator, self.cluster.backoff, self._released, core)
        self._transactions = (
            None if core is None else TransactionManager(self.cluster, self._sender, core, self.lock, self.flush, self._landed)
        )
        self._ignores_keys = config[PARTITIONER_IGNORE_KEYS]
        self._router = Router(config, self._accumulator, self._sender.is_late, self.cluster.rng)
        self.gatherers = self._router.gatherers
        self.gather = self._router.gather
        """`Router.gather`, by which most records are queued without the lock.

        In a forked child it takes no record, so that `append` raises the error.
        """
        self.cluster.origin.at_fork(self._router.forget)
        self._told: Delivered | None = None
        """Last on_delivery function that passed `check_told`: most records have the same function."""
        self._room_waiters: list[asyncio.Future[None]] = []
        self._on_the_wire: set[Deferred[memoryview]] = set()
        self._helpers: dict[object, asyncio.Task[None]] = {}
        self._closing = False
        """True once the producer refuses records."""
        self._closed = False
        """True once sending has stopped."""
        self._ended = False
        self._closer = Ongoing()
        self._flush_until_s: float | None = None
        self._flush_limit: asyncio.Timeout | None = None
        self._turn_wanted = False
        self._alarm = Alarm(self.cluster.clock, self.turn)
        self.wake()

    # -- taking records (any thread) ------------------------------------------------------------------------------------------------

    def append(self, info: TopicInfo, record: Outgoing, told: Delivered | None = None) -> tuple[RecordFuture, bool] | None:
        """Queue a record. Return its future and whether to wake the loop, or None when buffer.memory is full.

        `told` is called with the outcome of the record. Raises KafkaError when the record is too large or the partition does not exist,
        ClientClosed after close, OdradekError in a forked child.
        """
        self.cluster.origin.check_process()
        self._check_size(record.size)
        if told is not None:
            check_told(told)
        stamp = self.cluster.clock.time_ms() if record.timestamp is None else record.timestamp
        with self.lock:
            self._check_open()
            target = self._router.target(info, record.key, record.partition, record.size)
            taken = self._accumulator.append(target, stamp, record.key, record.value, record.headers, self.cluster.now_ms())
            if taken is None:
                return None
            batch, index = taken
            self._router.took(info, record.key, record.partition, record.size, batch)
            future = RecordFuture(batch, index, stamp)
            if told is not None:
                future.when_delivered(told)
            return future, index == 0 or batch.size >= self._batch_size

    def gather_told(self, topic: str, key: bytes | None, value: Content, timestamp: int | None, told: Delivered) -> Ticket | None:
        """Queue a record as `gather` does. `told` is called with its outcome, after those of earlier records of the same partition."""
        self.cluster.origin.check_process()
        if told is not self._told:
            check_told(told)
            self._told = told
        with self.lock:
            ticket = self.gather(topic, key, value, timestamp)
            if ticket is not None:
                cast(RecordFuture, ticket).when_delivered(told)
            return ticket

    def append_run(
        self, info: TopicInfo, many: Values, start: int, partition: int | None, timestamp: int | None
    ) -> tuple[RecordFuture, int] | None:
        """Queue as many values from index `start` on as fill a batch, without keys and headers.

        Return their future and their number, or None when buffer.memory is full.
        """
        self.cluster.origin.check_process()
        end, size = self._run_length(many.sizes, start)
        stamp = self.cluster.clock.time_ms() if timestamp is None else timestamp
        records: list[RecordTuple] = list(zip(repeat(stamp), repeat(None), many.values[start:end], repeat(()), strict=False))
        with self.lock:
            self._check_open()
            target = self._router.target(info, None, partition, size)
            taken = self._accumulator.append_many(target, records, size, self.cluster.now_ms())
            if taken is None:
                return None
            self._router.took(info, None, partition, size)
            return RecordFuture(taken[0], taken[1], stamp, end - start), end - start

    def append_encoded(
        self, info: TopicInfo, partition: int, payload: bytes | memoryview, record_count: int, timestamp: int
    ) -> RecordFuture | None:
        """Queue a record batch that was encoded by the caller. Return None when buffer.memory is full."""
        self._check_size(len(payload))
        with self.lock:
            self._check_open()
            return self._append_batch(self._router.target(info, None, partition, len(payload)), payload, record_count, timestamp)

    def _append_batch(self, target: TopicPartition, payload: bytes | memoryview, record_count: int, timestamp: int) -> RecordFuture | None:
        batch = self._accumulator.append_encoded(target, payload, record_count, self.cluster.now_ms())
        return None if batch is None else RecordFuture(batch, 0, timestamp, record_count)

    def encode_rows(self, info: TopicInfo, rows: ArrowRows, partition: int | None) -> Iterator[EncodedRows]:
        """Return the rows as batches, see `RowEncoder.encode`. Any thread may call this method, which does not take the engine's lock."""
        need_pyarrow()
        settings = self._settings
        encoder = RowEncoder(
            settings.rows_size,
            settings.compression,
            settings.compression_level,
            ignore_keys=self._ignores_keys,
            room=self._sender.buffers.take,
        )
        return encoder.encode(info.name, rows, sorted(info.partitions), partition, self.cluster.clock.time_ms())

    def append_rows(self, info: TopicInfo, rows: EncodedRows) -> RecordFuture | None:
        """Queue encoded rows. Return None when buffer.memory is full. Raises KafkaError(MESSAGE_TOO_LARGE) for a row that is too large."""
        size = len(rows.payload)
        self._check_size(size)
        timestamp = read_header(rows.payload).base_timestamp
        with self.lock:
            self._check_open()
            target = self._router.target(info, None, rows.partition, size)
            future = self._append_batch(target, rows.payload, rows.record_count, timestamp)
            if future is not None:
                self._router.took(info, None, rows.partition, size)
            return future

    def _run_length(self, sizes: Sequence[int], start: int) -> tuple[int, int]:
        """Return the exclusive end of the run that fills a batch, and the estimated bytes of the run.

        The end is a guess from the first value's size, then corrected.
        """
        end = min(len(sizes), start + max(1, self._batch_size // (sizes[start] + RECORD_OVERHEAD)))
        size = RECORD_OVERHEAD * (end - start) + sum(sizes[start:end])
        while size > self._batch_size and end - start > 1:
            end = start + max(1, (end - start) * self._batch_size // (size + self._batch_size // 8))
            size = RECORD_OVERHEAD * (end - start) + sum(sizes[start:end])
        return end, size

    def check_values(self, many: Values) -> None:
        """Raise KafkaError(MESSAGE_TOO_LARGE) when a value is too large."""
        self._check_size(max(many.sizes, default=0) + RECORD_OVERHEAD)

    def _check_size(self, size: int) -> None:
        if size > self._max_record:
            raise self._size_error(size)

    def _size_error(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a record of about {size} bytes exceeds max.request.size ({self._max_record} bytes)"
        )

    def _check_open(self) -> None:
        if self._closing:
            raise ClientClosed("the producer is closed")
        if self._transactions is not None:
            self._transactions.core.take()

    @property
    def transactions(self) -> TransactionManager:
        """Transactions of the producer.

        Raises IllegalTransactionState without transactional.id, ClientClosed after close, OdradekError in a forked child.
        """
        self.cluster.origin.check_process()
        if self._transactions is None:
            raise IllegalTransactionState("transactions need the configuration transactional.id")
        if self._closing:
            raise ClientClosed("the producer is closed")
        return self._transactions

    def _released(self) -> None:
        self.room.notify_all()
        waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def deadline_ms(self) -> int:
        """Return the time at which a call that begins now reaches max.block.ms, in milliseconds of the cluster's clock."""
        return self.cluster.now_ms() + self.max_block_ms

    async def wait_for_room(self, deadline_ms: int) -> None:
        """Wait until a batch gives its memory back. Raises KafkaError at `deadline_ms`. Call in the loop."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._room_waiters.append(waiter)
        self.wake()
        try:
            async with asyncio.timeout((deadline_ms - self.cluster.now_ms()) / 1000):
                await waiter
        except TimeoutError:
            raise self.no_room() from None

    @property
    def is_full(self) -> bool:
        """Return whether any record is queued or under way, so that memory may still become free."""
        return self._accumulator.used > 0

    def no_room(self) -> KafkaError:
        """Return the error of a record for which no memory became free within max.block.ms."""
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"buffer.memory is full: no acknowledgement within {self.max_block_ms} ms (max.block.ms)"
        )

    # -- the loop -------------------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a `turn` for the next loop iteration. Call in the loop."""
        if not self._turn_wanted:
            self._turn_wanted = True
            self._loop.call_soon(self.turn)

    def turn(self) -> None:
        """Send whatever can be sent now. Call in the loop."""
        self._turn_wanted = False
        if not self._closed:
            try:
                self._sleep(self._step())
            except Exception:
                # After one failure the engine must go on sending.
                _LOG.exception("an iteration of the producer's loop failed")
                self._sleep(self.cluster.backoff.delay_ms(1))

    def _sleep(self, wait_ms: int) -> None:
        """Schedule the next `turn` in at most `wait_ms` milliseconds.

        An alarm that rings earlier is kept: most calls want another time, and would move the alarm.
        """
        if wait_ms <= _LONG_MS:
            due_s = self.cluster.clock.monotonic() + max(wait_ms, 1) / 1000
            if due_s < self._alarm.due_s:
                self._alarm.set_at(due_s)

    async def topic(self, name: str, partition: int | None = None) -> TopicInfo:
        """Return the topic's metadata, asking the brokers again when the partition is unknown. The broker may create the topic.

        Raises KafkaError after max.block.ms. Raises TypeError or ValueError for an impossible name: a name that a request cannot carry
        would stop the metadata of all topics.
        """
        checked_topic(name)
        return await self.cluster.topic(name, partition, allow_auto_create=True, timeout_ms=self.max_block_ms)

    async def flush(self) -> None:
        """Send all queued records without lingering, and wait until each is acknowledged or has failed."""
        with self.lock:
            batches = self._sender.incomplete()
            self._accumulator.flushing += 1
        try:
            waiters = [self._loop.create_future() for _ in batches]
            for batch, waiter in zip(batches, waiters, strict=True):
                batch.add_callback(_resolver(waiter))
            self.wake()
            if waiters:
                await asyncio.gather(*waiters)
        finally:
            self._accumulator.flushing -= 1

    async def _landed(self) -> None:
        """Wait until each request under way has its response or has lost its connection (request.timeout.ms at most)."""
        await asyncio.gather(*self._on_the_wire, return_exceptions=True)

    @property
    def closed(self) -> bool:
        """Return whether close() has completed."""
        return self._ended

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most `timeout_s` seconds (None: no limit), fail the remaining records and close the connections.

        A cancelled caller does not stop the closing (`client.calls.ongoing`). A second call waits for the same end; a shorter `timeout_s`
        brings it forward.
        """
        self.cluster.origin.check()
        if timeout_s is not None:
            self._end_by(self._loop.time() + timeout_s)
        if not self._ended:
            await self._closer.run("close", self._close)

    def _end_by(self, time_s: float) -> None:
        if self._flush_until_s is None or time_s < self._flush_until_s:
            self._flush_until_s = time_s
            if self._flush_limit is not None:
                self._flush_limit.reschedule(time_s)

    async def _close(self) -> None:
        transactions = self._transactions
        try:
            async with asyncio.timeout_at(self._flush_until_s) as self._flush_limit:
                if transactions is not None:
                    await transactions.abandon(waiting=True)
                self._closing = True
                await self.flush()
        except TimeoutError:
            with self.lock:
                self._sender.close(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before the record was acknowledged"))
        finally:
            self._flush_limit = None
        self._closing = True
        if transactions is not None:
            await transactions.close()
        self._closed = True
        self._alarm.close()
        tasks = [*self._helpers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.cluster.close()
        self._ended = True

    def _step(self) -> int:
        """Send whatever can be sent and start the helper tasks needed. Return milliseconds until the next step."""
        with self.lock:
            while True:
                work = self._sender.poll(self.cluster.view, self._is_connected, self.cluster.now_ms())
                for dispatch in work.dispatches:
                    self._send(dispatch)
                if not work.dispatches:
                    break
            if work.needs_metadata:
                # Records have waited for longer than metadata.max.idle.ms. Only this call keeps their topics in the metadata requests.
                self.cluster.metadata.want(self._sender.waiting_topics())
        if work.needs_partitions and self._transactions is not None:
            self._help("partitions", self._transactions.add_partitions)
        if work.needs_producer_id:
            self._help("producer id", self._ask_producer_id)
        for node_id in work.connect:
            self._help(node_id, partial(self._connect, node_id))
        if not self.cluster.metadata.wanted:
            return work.wake_in_ms
        due = self.cluster.metadata.due_in_ms(self.cluster.now_ms())
        if work.needs_metadata or due == 0:
            self._help("metadata", self._refresh)
            due = _LONG_MS
        return min(work.wake_in_ms, due)

    def _help(self, what: object, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `action` as a task unless a task of the same kind (`what`) runs. The end of the task wakes the sender."""
        if what in self._helpers:
            return
        task = self._helpers[what] = asyncio.create_task(action())

        def finished(done: asyncio.Task[None]) -> None:
            self._helpers.pop(what, None)
            if not done.cancelled():
                done.exception()
            self.wake()

        task.add_done_callback(finished)

    def _node(self, node_id: int) -> Node | None:
        return self.cluster.open_node(node_id, "data")

    def _is_connected(self, node_id: int) -> bool:
        return self._node(node_id) is not None

    async def _connect(self, node_id: int) -> None:
        try:
            await self.cluster.node(node_id, "data")
        except (ConnectionLost, KafkaError) as error:
            self._sender.trouble = str(error)
            self.cluster.metadata.request_update()

    async def _refresh(self) -> None:
        try:
            view = await self.cluster.refresh(allow_auto_create=True)
        except (ConnectionLost, KafkaError) as error:
            self._sender.trouble = str(error)
        else:
            with self.lock:
                for topic in sorted(self.cluster.metadata.wanted):
                    info = view.topics.get(topic)
                    if info is not None and info.error is not ErrorCode.NONE and not info.error.retriable:
                        self._sender.fail_topic(topic, KafkaError(info.error, f"topic {topic}"))
        await asyncio.sleep(self.cluster.backoff.delay_ms(1) / 1000)

    async def _ask_producer_id(self) -> None:
        try:
            node = await self.cluster.any_node()
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT)
            response = await self.cluster.call(node, request, InitProducerIdResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "requesting a producer id")
        except (ConnectionLost, KafkaError) as error:
            self._sender.trouble = str(error)
            if isinstance(error, KafkaError) and not error.code.retriable and error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                with self.lock:
                    self._sender.abort(error)
            await asyncio.sleep(self.cluster.backoff.delay_ms(1) / 1000)
        else:
            with self.lock:
                self._sender.on_producer_id(response.producer_id, response.producer_epoch)

    # -- one request ----------------------------------------------------------------------------------------------------------------

    def _send(self, dispatch: Dispatch) -> None:
        node = self._node(dispatch.node_id)
        try:
            if node is None:
                raise ConnectionLost("the connection is closed")
            ids = topic_ids(self.cluster.view, {batch.topic_partition.topic for batch in dispatch.batches})
            at_most = None if ids else LAST_PRODUCE_BY_NAME
            if self._transactions is not None and not self._transactions.core.implicit:
                at_most = LAST_PRODUCE_OF_ADDED_PARTITIONS
            version = node.versions.choose(ApiKey.PRODUCE, at_most=at_most, at_least=3)
            timeout_ms = int(self.cluster.request_timeout_s * 1000)
            request = produce_request(dispatch.batches, self._settings.acks, timeout_ms, ids, self._transactional_id)
            body = node.connection.send(
                ApiKey.PRODUCE,
                version,
                _in_memory(request.encode_chunks(version)),
                timeout_s=self.cluster.request_timeout_s,
                expect_response=self._settings.acks != 0,
            )
        except Exception as error:
            # An error of any kind must not stop other requests.
            self._sender.on_failure(dispatch, as_kafka_error(error), self.cluster.now_ms())
            self.cluster.metadata.request_update()
            return
        if self._settings.acks == 0:
            self._sender.on_sent_without_answer(dispatch)
            return
        by_id = ids if version > LAST_PRODUCE_BY_NAME else None

        def answered(_: object) -> None:
            self._on_the_wire.discard(body)
            with self.lock:
                try:
                    response = ProduceResponse.decode(body.result(), version)
                    if response.throttle_time_ms > 0:
                        self.cluster.throttled(node, ApiKey.PRODUCE, version, response.throttle_time_ms)
                    stale = self._sender.on_response(dispatch, produce_answers(dispatch.batches, response, by_id), self.cluster.now_ms())
                except Exception as error:
                    self._sender.trouble = str(error)
                    self._sender.on_failure(dispatch, as_kafka_error(error), self.cluster.now_ms())
                    stale = True
            if stale:
                self.cluster.metadata.request_update()
            self.wake()

        self._on_the_wire.add(body)
        body.add_callback(answered)


def _in_memory(chunks: Sequence[Any]) -> list[bytes | bytearray | memoryview]:
    """Narrow the type of the chunks: Produce requests contain only bytes."""
    return list(chunks)


def _resolver(waiter: asyncio.Future[None]) -> Callable[[], None]:
    def resolve() -> None:
        if not waiter.done():
            waiter.set_result(None)

    return resolve
