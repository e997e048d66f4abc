"""Result that becomes available later, without an event loop.

Pure cores and runtimes return a `Deferred` where a response waits for an event (a commit, a high watermark, more data). Callbacks run
synchronously, in the order they were added, inside `complete` or `fail`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from odradek.base.errors import KafkaError

T = TypeVar("T")
V = TypeVar("V")

_PENDING = object()


class Deferred(Generic[T]):
    """Result that is completed at most once, with a value or with an exception."""

    __slots__ = ("_callbacks", "_value", "error")

    def __init__(self) -> None:
        self._value: Any = _PENDING
        self.error: BaseException | None = None
        """Exception of a failure; set by `fail`."""
        self._callbacks: list[Callable[[Deferred[T]], object]] | None = None

    @staticmethod
    def of(value: V) -> Deferred[V]:
        """Return a deferred that already has its value."""
        deferred: Deferred[V] = Deferred()
        deferred._value = value
        return deferred

    @staticmethod
    def failed(error: BaseException) -> Deferred[Any]:
        """Return a deferred that has already failed, whatever the type of its value; see `fail`."""
        if isinstance(error, KafkaError):
            error.__traceback__ = None
        deferred: Deferred[Any] = Deferred()
        deferred._value = None
        deferred.error = error
        return deferred

    @property
    def done(self) -> bool:
        return self._value is not _PENDING

    def complete(self, value: T) -> bool:
        """Set the value and run the callbacks. Return False, without effect, when the deferred was done already."""
        if self._value is not _PENDING:
            return False
        self._value = value
        if self._callbacks is not None:
            self._run(self._callbacks)
        return True

    def fail(self, error: BaseException) -> bool:
        """Set the exception and run the callbacks. Return False, without effect, when the deferred was done already.

        A KafkaError is a response, so its traceback is dropped: it would keep the request and its buffers alive in a reference cycle until
        the garbage collector runs.
        """
        if self._value is not _PENDING:
            return False
        if isinstance(error, KafkaError):
            error.__traceback__ = None
        self._value = None
        self.error = error
        if self._callbacks is not None:
            self._run(self._callbacks)
        return True

    def result(self) -> T:
        """Return the value, or raise the exception. Raises RuntimeError while pending."""
        if self._value is _PENDING:
            raise RuntimeError("the result is not available yet")
        if self.error is not None:
            raise self.error
        value: T = self._value
        return value

    def add_callback(self, callback: Callable[[Deferred[T]], object]) -> None:
        """Run `callback(self)` on completion, at once when already done."""
        if self._value is not _PENDING:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def then(self, function: Callable[[T], V], failed: Callable[[BaseException], V] | None = None) -> Deferred[V]:
        """Return a deferred with `function(value)`, or with `failed(error)` when this deferred fails.

        Without `failed` the new deferred fails with this deferred's error. It also fails with an exception that a function raises.
        """
        result: Deferred[V] = Deferred()

        def done(source: Deferred[T]) -> None:
            error = source.error
            if error is not None and failed is None:
                result.fail(error)
                return
            try:
                value = function(source._value) if error is None or failed is None else failed(error)
            except BaseException as problem:
                result.fail(problem)
            else:
                result.complete(value)

        # As `add_callback`, without another call: most responses are made here.
        if self._value is not _PENDING:
            done(self)
        elif self._callbacks is None:
            self._callbacks = [done]
        else:
            self._callbacks.append(done)
        return result

    def into(self, other: Deferred[T]) -> None:
        """Pass the value or the error on to `other`, unless `other` is done by then."""
        self.add_callback(lambda source: other.complete(source._value) if source.error is None else other.fail(source.error))

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in a coroutine of the running event loop, and return the value or raise the exception.

        A coroutine that is cancelled while it waits leaves the deferred as it is.
        """
        if self._value is _PENDING:
            # Pure packages may name deferreds, and so may not import asyncio with them. Code that awaits has a loop.
            import asyncio

            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.add_callback(lambda _: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()

    def _run(self, callbacks: list[Callable[[Deferred[T]], object]]) -> None:
        self._callbacks = None
        for callback in callbacks:
            callback(self)


class Applied(Deferred[T]):
    """Response to a request that has already taken effect in its order: the next requests of the connection need not wait for it."""

    __slots__ = ()
