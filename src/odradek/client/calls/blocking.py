# pyright: reportPrivateUsage=false
"""Blocking clients, derived from the asyncio clients: a method is written once, as a method of the asyncio client.

A blocking client (`Face`) has an asyncio client that belongs to the loop thread. The functions below derive its methods, which keep the
parameters, types and docstring of the asyncio client's method. They differ in the thread that runs the method:

- `blocking`: a coroutine method runs in the loop thread, and the caller waits.
- `called_in_loop`: a plain method runs in the loop thread, and the caller waits.
- `called_here`: a plain method runs in the caller's thread.
- `awaited_here`: a coroutine method runs in the caller's thread; all that it awaits blocks that thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from odradek.client.calls.loop_thread import shared_loop

A_co = TypeVar("A_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class Face(Generic[A_co]):
    """Blocking client with its asyncio client and the thread of the asyncio client's event loop."""

    def __init__(self, client: A_co) -> None:
        self._client = client
        self._thread = shared_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self, /) -> None:
        """Close the connections."""
        raise NotImplementedError


def blocking(method: Callable[Concatenate[A_co, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Face[A_co], P], T]:
    """Return a blocking form of `method`, which the loop thread runs. Ctrl-C cancels the coroutine."""

    @wraps(method)
    def call(self: Face[A_co], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return self._thread.run(lambda: method(self._client, *arguments, **keywords))

    return call


def called_in_loop(method: Callable[Concatenate[A_co, P], T]) -> Callable[Concatenate[Face[A_co], P], T]:
    """Return a form of the plain `method` that the loop thread runs."""

    @wraps(method)
    def call(self: Face[A_co], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        async def called() -> T:
            return method(self._client, *arguments, **keywords)

        return self._thread.run(called)

    return call


def called_here(method: Callable[Concatenate[A_co, P], T]) -> Callable[Concatenate[Face[A_co], P], T]:
    """Return a form of the plain `method` that the caller's thread runs."""

    @wraps(method)
    def call(self: Face[A_co], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return method(self._client, *arguments, **keywords)

    return call


def awaited_here(method: Callable[Concatenate[A_co, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Face[A_co], P], T]:
    """Return a form of `method` that the caller's thread runs, without an event loop. The coroutine must not be suspended."""

    @wraps(method)
    def call(self: Face[A_co], /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return outcome(method(self._client, *arguments, **keywords))

    return call


def outcome(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that is never suspended, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a call that must not be suspended awaits an event loop")
