"""What `send` hands out: a record's place in its batch, which completes as a whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.core.accumulator import Batch
from odradek.client.types import RecordMetadata


class RecordFuture:
    """The acknowledgement of one record: `await` it, or call `result()` from a thread that does not run the event loop."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Waits for the outcome, at most `timeout` seconds (TimeoutError); raises the KafkaError of a record that was not accepted."""
        if not self._batch.done:
            finished = threading.Event()
            self._batch.add_callback(lambda _: finished.set())
            if not finished.wait(timeout) and not self._batch.done:
                raise TimeoutError(f"{self._batch.topic_partition}: no acknowledgement within {timeout} s")
        return self._outcome()

    def exception(self) -> BaseException | None:
        """The error, None when there is none (yet)."""
        if not self._batch.done:
            return None
        try:
            self._outcome()
        except KafkaError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Calls `callback(self)` once the outcome is known, in the client's event loop: it must not block."""
        self._batch.add_callback(lambda _: callback(self))

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.done:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake(_: Batch) -> None:
                loop.call_soon_threadsafe(lambda: None if waiter.done() else waiter.set_result(None))

            self._batch.add_callback(wake)
            yield from waiter
        return self._outcome()

    def _outcome(self) -> RecordMetadata:
        batch = self._batch
        if batch.error is not None:
            raise self._own_error(batch.error)
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp = batch.log_append_time_ms if batch.log_append_time_ms >= 0 else self._timestamp
        return RecordMetadata(batch.topic_partition.topic, batch.topic_partition.partition, offset, timestamp)

    def _own_error(self, error: BaseException) -> BaseException:
        """When the broker names the records at fault, the others say that they fell with the batch (KIP-467)."""
        faults = self._batch.record_errors
        if not faults or not isinstance(error, KafkaError):
            return error
        if self._index in faults:
            return KafkaError(error.code, faults[self._index] or error.message)
        return KafkaError(ErrorCode.INVALID_RECORD, "another record of the same batch was refused, so that none was written")
