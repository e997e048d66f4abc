"""Embedded brokers for coroutines.

Calls that wait for a broker run in a thread and are awaited, so that clients on the same event loop go on.

    async with AsyncEmbeddedBroker() as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)

`broker.sync` is the wrapped `EmbeddedBroker`. Its short calls (faults, for instance) may be used directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster, Topic
from odradek.testing.kit.embedded_node import CALL_S, START_S

if TYPE_CHECKING:
    import os

    from odradek.testing.kit.controls import Faults
    from odradek.testing.kit.faults import ApiName

P = ParamSpec("P")
T = TypeVar("T")


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run the function in a thread. On cancellation wait for its end, then raise: a half-started broker would have no owner to stop it."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise


class AsyncEmbeddedBroker:
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
        self.sync = EmbeddedBroker(settings, topics=topics, directory=directory, memory=memory, process=process, version=version)

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return self.sync.bootstrap_servers

    @property
    def faults(self) -> Faults:
        """See `EmbeddedNode.faults`."""
        return self.sync.faults

    async def start(self, timeout_s: float = START_S) -> Self:
        """See `EmbeddedBroker.start`."""
        try:
            await _in_thread(self.sync.start, timeout_s)
        except asyncio.CancelledError:
            await _in_thread(self.sync.stop)
            raise
        return self

    async def stop(self) -> None:
        """See `EmbeddedBroker.stop`."""
        await _in_thread(self.sync.stop)

    async def kill(self) -> None:
        """See `EmbeddedNode.kill`."""
        await _in_thread(self.sync.kill)

    async def restart(self, timeout_s: float = START_S) -> None:
        """See `EmbeddedNode.restart`."""
        await _in_thread(self.sync.restart, timeout_s)

    async def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """See `EmbeddedNode.create_topic`."""
        return await _in_thread(self.sync.create_topic, name, partitions, replication_factor=replication_factor, configs=configs)

    async def delete_topic(self, name: str) -> None:
        """See `EmbeddedNode.delete_topic`."""
        await _in_thread(self.sync.delete_topic, name)

    async def compact(self, topic: str, partition: int | None = None) -> int:
        """See `EmbeddedNode.compact`."""
        return await _in_thread(self.sync.compact, topic, partition)

    async def apply_retention(self, topic: str | None = None) -> int:
        """See `EmbeddedNode.apply_retention`."""
        return await _in_thread(self.sync.apply_retention, topic)

    async def advance(self, seconds: float | timedelta) -> None:
        """See `ClockControl.advance`."""
        await _in_thread(self.sync.clock.advance, seconds)

    async def wait_until_seen(self, api: ApiName, count: int = 1, *, client_id: str | None = None, timeout_s: float = CALL_S) -> int:
        """See `EmbeddedNode.wait_until_seen`."""
        return await _in_thread(self.sync.wait_until_seen, api, count, client_id=client_id, timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()


class AsyncEmbeddedCluster:
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
        self.sync = EmbeddedCluster(nodes, settings, topics=topics, directory=directory, memory=memory, process=process)

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return self.sync.bootstrap_servers

    @property
    def faults(self) -> Faults:
        """See `EmbeddedCluster.faults`."""
        return self.sync.faults

    async def start(self, timeout_s: float = START_S) -> Self:
        """See `EmbeddedCluster.start`."""
        try:
            await _in_thread(self.sync.start, timeout_s)
        except asyncio.CancelledError:
            await _in_thread(self.sync.stop)
            raise
        return self

    async def stop(self, node: int | None = None) -> None:
        """See `EmbeddedCluster.stop`."""
        await _in_thread(self.sync.stop, node)

    async def kill(self, node: int) -> None:
        """See `EmbeddedCluster.kill`."""
        await _in_thread(self.sync.kill, node)

    async def restart(self, node: int, timeout_s: float = START_S) -> None:
        """See `EmbeddedCluster.restart`."""
        await _in_thread(self.sync.restart, node, timeout_s)

    async def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> str:
        """See `EmbeddedCluster.create_topic`."""
        return await _in_thread(self.sync.create_topic, name, partitions, replication_factor=replication_factor, configs=configs)

    async def delete_topic(self, name: str) -> None:
        """See `EmbeddedCluster.delete_topic`."""
        await _in_thread(self.sync.delete_topic, name)

    async def advance(self, seconds: float | timedelta) -> None:
        """See `ClockControl.advance`."""
        await _in_thread(self.sync.clock.advance, seconds)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()
