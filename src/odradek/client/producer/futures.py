"""Futures that `send` returns: the acknowledgement of a record, or of a run of records that were queued together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.calls.waiting import wait_in_moments
from odradek.client.core.accumulator import Batch
from odradek.client.types import RecordMetadata
from odradek.records.codec import Ticket


class RecordFuture(Ticket):
    """Acknowledgement of records. `await` it, or call `result()` in a thread that does not run the event loop.

    The future of a run of `record_count` records is done when all of them are. It has the metadata of the first record, and fails when any
    record fails.
    """

    __slots__ = ()

    _batch: Batch

    @property
    def record_count(self) -> int:
        """Number of records that the future stands for."""
        return self._record_count

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._batch.is_done(self._first, self._record_count)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome and return the metadata. Raises the KafkaError of a refused record, and TimeoutError after `timeout`
        seconds.

        Raises OdradekError in a forked child and in the client's event loop while the outcome is unknown: waiting there would never end.
        """
        if not self.done():
            if self._batch.owner is not None and timeout != 0:
                self._batch.owner.check_wait()
            finished = threading.Event()
            self._when_done(finished.set)
            if not wait_in_moments(finished.wait, timeout) and not self.done():
                raise TimeoutError(f"{self._batch.topic_partition}: no acknowledgement within {timeout} s")
        return self._outcome()

    def exception(self) -> BaseException | None:
        """Return the error, or None when the outcome is unknown or a success. The error is a KafkaError, or TransactionAborted for an
        unsent record.

        All other errors are KafkaErrors.
        """
        return self._error() if self.done() else None

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(self)` once the outcome is known, in the client's event loop; it must not block."""
        self._when_done(lambda: callback(self))

    def when_delivered(self, callback: Callable[[RecordMetadata, BaseException | None], object]) -> None:
        """Call `callback(metadata, error)` as `add_done_callback` does. With an error, offset and timestamp of the metadata are -1."""
        self._when_done(partial(self._tell, callback))

    def _tell(self, callback: Callable[[RecordMetadata, BaseException | None], object]) -> None:
        error = self._error()
        callback(self._metadata() if error is None else RecordMetadata(*self._batch.topic_partition, -1, -1), error)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self.done():
            if self._batch.owner is not None:
                self._batch.owner.check_process()
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._when_done(partial(_resolve, loop, waiter))
            yield from waiter
        return self._outcome()

    def _when_done(self, callback: Callable[[], object]) -> None:
        self._batch.add_callback(callback, self._first, self._record_count)

    def _outcome(self) -> RecordMetadata:
        error = self._error()
        if error is not None:
            raise error
        return self._metadata()

    def _error(self) -> BaseException | None:
        batch = self._batch
        if batch.pieces or batch.error is not None:
            for part, first, record_count in batch.outcomes(self._first, self._record_count):
                if part.error is not None:
                    return _error_of(part, range(first, first + record_count))
        return None

    def _metadata(self) -> RecordMetadata:
        batch, first = self._batch, self._first
        if batch.pieces:
            batch, first, _ = next(batch.outcomes(first, self._record_count))
        offset = batch.base_offset + first if batch.base_offset >= 0 else -1
        timestamp = batch.log_append_time_ms if batch.log_append_time_ms >= 0 else self._timestamp
        return RecordMetadata(batch.topic_partition.topic, batch.topic_partition.partition, offset, timestamp)


_SENT = "_odradek_sent"


@contextmanager
def reachable_after_an_error(futures: list[RecordFuture]) -> Generator[None]:
    """Attach `futures` to any exception that the block raises, for `sent_before`."""
    try:
        yield
    except BaseException as error:
        vars(error)[_SENT] = futures
        raise


def sent_before(error: BaseException) -> list[RecordFuture]:
    """Return the futures of the records that `send_many` or `send_batch` had queued before it raised `error`.

    The producer goes on sending these records, and their futures get the outcome. When a time limit cancelled the call, `error` may be the
    TimeoutError of that limit.
    """
    cause: BaseException | None = error
    while cause is not None:
        sent: list[RecordFuture] | None = vars(cause).get(_SENT)
        if sent is not None:
            return [*sent]
        cause = cause.__cause__
    return []


def _resolve(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    if asyncio._get_running_loop() is not loop:
        loop.call_soon_threadsafe(_resolve_here, waiter)
    else:
        _resolve_here(waiter)


def _resolve_here(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _error_of(batch: Batch, indexes: range) -> BaseException:
    """Return the error of the records `indexes` of a failed batch.

    Where the broker names the invalid records, the other records get an error that says so (KIP-467).
    """
    error, faults = batch.error, batch.record_errors
    assert error is not None
    if not faults or not isinstance(error, KafkaError):
        return error
    at_fault = next((index for index in indexes if index in faults), None)
    if at_fault is not None:
        return KafkaError(error.code, faults[at_fault] or error.message)
    return KafkaError(ErrorCode.INVALID_RECORD, "another record of the same batch was refused: no record of the batch was written")
