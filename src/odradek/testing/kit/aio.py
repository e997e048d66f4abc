"""Embedded brokers for coroutines.

Calls that wait for a broker run in a thread and are awaited, so that clients on the same event loop go on.

    async with AsyncEmbeddedBroker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

`broker.sync` is the wrapped `EmbeddedBroker`. Its short calls (faults, for instance) may be used directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster, Topic
from odradek.testing.kit.embedded_node import START_S

if TYPE_CHECKING:
    import os

    from odradek.testing.kit.controls import Faults

E = TypeVar("E", bound=EmbeddedBroker | EmbeddedCluster)
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class _Face(Protocol[S_co]):
    """Object for coroutines in front of a blocking object."""

    @property
    def sync(self) -> S_co: ...


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run the function in a thread. On cancellation wait for its end, then raise: a half-started broker would have no owner to stop it."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


def _awaited(method: Callable[Concatenate[S_co, P], T]) -> Callable[Concatenate[_Face[S_co], P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that runs `method` of the blocking object in a thread. It keeps parameters, types and docstring."""

    @wraps(method)
    async def call(self: _Face[S_co], /, *arguments: P.args, **named: P.kwargs) -> T:
        return await _in_thread(method, self.sync, *arguments, **named)

    return call


class _Awaited(Generic[E]):
    """Broker or cluster for coroutines."""

    def __init__(self, sync: E) -> None:
        self.sync = sync

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return self.sync.bootstrap_servers

    @property
    def faults(self) -> Faults:
        """See `EmbeddedNode.faults` and `EmbeddedCluster.faults`."""
        return self.sync.faults

    async def start(self, timeout_s: float = START_S) -> Self:
        """See `EmbeddedBroker.start` and `EmbeddedCluster.start`."""
        try:
            await _in_thread(self.sync.start, timeout_s)
        except asyncio.CancelledError:
            await _in_thread(self.sync.stop)
            raise
        return self

    async def advance(self, seconds: float | timedelta) -> None:
        """See `ClockControl.advance`."""
        await _in_thread(self.sync.clock.advance, seconds)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _in_thread(self.sync.stop)


class AsyncEmbeddedBroker(_Awaited[EmbeddedBroker]):
    """Single-node cluster for coroutines, with the arguments of `EmbeddedBroker`."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        topics: Iterable[str | Topic] = (),
        directory: str | os.PathLike[str] | None = None,
        memory: bool = False,
        process: bool = False,
        version: str | None = None,
    ) -> None:
        super().__init__(EmbeddedBroker(settings, topics=topics, directory=directory, memory=memory, process=process, version=version))

    stop = _awaited(EmbeddedBroker.stop)
    kill = _awaited(EmbeddedBroker.kill)
    restart = _awaited(EmbeddedBroker.restart)
    create_topic = _awaited(EmbeddedBroker.create_topic)
    delete_topic = _awaited(EmbeddedBroker.delete_topic)
    compact = _awaited(EmbeddedBroker.compact)
    apply_retention = _awaited(EmbeddedBroker.apply_retention)
    wait_until_seen = _awaited(EmbeddedBroker.wait_until_seen)


class AsyncEmbeddedCluster(_Awaited[EmbeddedCluster]):
    """Cluster for coroutines, with the arguments of `EmbeddedCluster`."""

    def __init__(
        self,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        topics: Iterable[str | Topic] = (),
        directory: str | os.PathLike[str] | None = None,
        memory: bool = False,
        process: bool = False,
    ) -> None:
        super().__init__(EmbeddedCluster(nodes, settings, topics=topics, directory=directory, memory=memory, process=process))

    stop = _awaited(EmbeddedCluster.stop)
    kill = _awaited(EmbeddedCluster.kill)
    restart = _awaited(EmbeddedCluster.restart)
    create_topic = _awaited(EmbeddedCluster.create_topic)
    delete_topic = _awaited(EmbeddedCluster.delete_topic)
