"""Whether anybody listens at an address: the proof that a process has ended, as far as a network gives one."""

from __future__ import annotations

import asyncio
import socket

from odradek.base.deferred import Deferred

_PAUSE_S = 0.02
"""Between two attempts, when connections are accepted and end at once: a process that is being ended closes one socket after the other."""


class Probes:
    """Attempts to connect; all calls come from the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[bool]] = set()

    def nobody_listens(self, host: str, port: int, patience_s: float) -> Deferred[bool]:
        """Whether a connection is refused by every address of the host, now or within `patience_s` seconds.

        False as well when that cannot be told: the name has no address, nothing answers, or a connection is accepted and stays (or is ended
        by the other side again and again) for so long, or `close` was called. Nothing is sent.
        """
        result: Deferred[bool] = Deferred()
        task = self._loop.create_task(self._refused(host, port, patience_s))
        self._tasks.add(task)

        def ended(task: asyncio.Task[bool]) -> None:
            self._tasks.discard(task)
            result.complete(not task.cancelled() and task.result())

        task.add_done_callback(ended)
        return result

    def close(self) -> None:
        """Gives up what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _refused(self, host: str, port: int, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                while True:
                    found = await self._connect(host, port)
                    if found is None:
                        return True
                    transport, watch = found
                    try:
                        await watch.lost
                    finally:
                        transport.abort()
                    await asyncio.sleep(_PAUSE_S)
        except (OSError, ValueError, OverflowError):
            # TimeoutError is an OSError. Addresses come from other nodes: some make no sense to the resolver, or are no ports.
            return False

    async def _connect(self, host: str, port: int) -> tuple[asyncio.Transport, _Watch] | None:
        """Return None when every address of the host refuses. OSError for any other failure, and for a host without an address.

        The name is resolved here: uvloop logs the error of a resolver whose `create_connection` was cancelled meanwhile as never retrieved.
        """
        for family, _, _, _, address in await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                return await self._loop.create_connection(lambda: _Watch(self._loop), str(address[0]), port, family=family)
            except ConnectionRefusedError:
                continue
        return None


class _Watch(asyncio.Protocol):
    """Says when the connection has ended, and nothing else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
