"""Connections of the virtual network are read as asyncio reads sockets: as far as the protocol has room, and not while it has paused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork, on_host


class Small(asyncio.BufferedProtocol):
    """Has room for four bytes, which it empties after a second; until then it does not read."""

    def __init__(self, loop: SimulatedLoop, seen: list[tuple[float, str]], *, forgets_to_pause: bool = False) -> None:
        self._loop = loop
        self._seen = seen
        self._forgets_to_pause = forgets_to_pause
        self._buffer = bytearray(4)
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled == len(self._buffer) and not self._forgets_to_pause:
            self._transport.pause_reading()
            self._loop.call_later(1.0, self._empty)

    def _empty(self) -> None:
        self._see(self._buffer.decode())
        self._filled = 0
        self._transport.resume_reading()

    def eof_received(self) -> None:
        self._see("end")

    def connection_lost(self, exc: Exception | None) -> None:
        self._see("lost")

    def _see(self, what: str) -> None:
        self._seen.append((round(self._loop.time(), 1), what))


def write_to(server: Any, *, then_close: bool) -> list[dict[str, Any]]:
    """Three times four bytes reach what `server` makes; what the loop was told of as an error."""
    errors: list[dict[str, Any]] = []

    async def main(loop: SimulatedLoop) -> None:
        loop.set_exception_handler(lambda _, context: errors.append(context))
        await loop.create_server(lambda: server(loop), "server", 1)
        with on_host("client"):
            client, _ = await loop.create_connection(asyncio.Protocol, "server", 1)
        client.write(b"abcdefghijkl")
        if then_close:
            client.close()
        await asyncio.sleep(10)

    run(main, VirtualNetwork(1, latency_s=(0.001, 0.001)))
    return errors


@pytest.mark.parametrize("then_close", [False, True])
def test_a_protocol_that_pauses_reading_gets_the_rest_when_it_reads_on(then_close: bool) -> None:
    seen: list[tuple[float, str]] = []
    assert write_to(lambda loop: Small(loop, seen), then_close=then_close) == []
    assert seen[:3] == [(1.0, "abcd"), (2.0, "efgh"), (3.0, "ijkl")]
    # The end is in the stream behind the bytes: a protocol that reads no more does not hear of it.
    assert seen[3:] == ([(3.0, "end"), (3.0, "lost")] if then_close else [])


def test_a_protocol_without_room_that_reads_on_is_an_error_not_a_hang() -> None:
    seen: list[tuple[float, str]] = []
    [error] = write_to(lambda loop: Small(loop, seen, forgets_to_pause=True), then_close=False)
    assert "empty buffer" in str(error["exception"])
    assert seen == []
