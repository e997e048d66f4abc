"""Probes of an address: a refused connection is the best proof over a network that a process has ended."""

from __future__ import annotations

import asyncio
import socket

from odradek.base.deferred import Deferred

_PAUSE_S = 0.02
"""Seconds between two attempts while connections are accepted and end at once: a process that ends closes its sockets one by one."""


class Probes:
    """Attempts to connect. All calls come from the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[bool]] = set()

    def nobody_listens(self, host: str, port: int, patience_s: float) -> Deferred[bool]:
        """Return whether every address of the host refuses a connection, now or within `patience_s` seconds.

        The result is False as well when the probe cannot tell:

        - the name has no address, or no answer comes;
        - a connection stays open until the end of the period, or the other side ends connections again and again;
        - `close` was called.

        No bytes are sent.
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
        """Cancel the probes in progress."""
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
            # TimeoutError is an OSError. Other nodes tell the addresses: the resolver rejects some of them, and some ports are out of
            # range.
            return False

    async def _connect(self, host: str, port: int) -> tuple[asyncio.Transport, _Watch] | None:
        """Return None when every address of the host refuses. Raises OSError for any other failure, and for a host without an address.

        The name is resolved here because of uvloop: it logs the error of a resolver as never retrieved when `create_connection` was
        cancelled.
        """
        for family, _, _, _, address in await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                return await self._loop.create_connection(lambda: _Watch(self._loop), str(address[0]), port, family=family)
            except ConnectionRefusedError:
                continue
        return None


class _Watch(asyncio.Protocol):
    """Protocol that reports the end of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)
