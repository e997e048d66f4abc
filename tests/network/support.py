"""Listener with a handler that the test supplies, and a raw client."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from odradek.base.clock import Clock
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from odradek.network.secure import TlsServing
from odradek.server.clock import LoopClock

Handle = Callable[[Connection, memoryview], Answer]
Run = Callable[[Coroutine[Any, Any, None]], None]
"""Function that runs a coroutine on an event loop (conftest.py)."""


class FakeHandler:
    """Frame handler that answers with the result of the test's function."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        return self.handle(connection, frame)

    def may_follow(self, frame: memoryview) -> bool:
        return frame[:1] == b"P"

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        return head == b"1s"


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def echo(connection: Connection, frame: memoryview) -> Answer:
    return [framed(bytes(frame))]


@asynccontextmanager
async def listening(
    handle: Handle = echo,
    limits: AcceptorLimits | None = None,
    host: str = "127.0.0.1",
    tls: TlsServing | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[tuple[Acceptor, BoundListener]]:
    loop = asyncio.get_running_loop()
    acceptor = Acceptor(loop, clock or LoopClock(loop), FakeHandler(handle), limits or AcceptorLimits())
    bound = await acceptor.bind(Listener("PLAINTEXT" if tls is None else "SSL", "broker", host, 0, tls))
    await acceptor.serve(bound)
    try:
        yield acceptor, bound
    finally:
        await acceptor.close()


async def turns(count: int = 50) -> None:
    """Let the event loop run `count` iterations, in each of which it reads from its sockets."""
    for _ in range(count):
        await asyncio.sleep(0)


class Peer:
    """Raw client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(framed(*bodies))

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def closed(self) -> bool:
        """Wait until the other side closes the connection. Return whether it sent no byte before. Raises TimeoutError after 10 seconds."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 10) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def peer(bound: BoundListener, host: str = "127.0.0.1") -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(host, bound.port, limit=1 << 26)
    client = Peer(reader, writer)
    try:
        yield client
    finally:
        await client.close()
