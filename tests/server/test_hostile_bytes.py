"""Hostile bytes over real sockets: each kind gets its defined answer, nobody else is harmed, and memory stays bounded.

Framing and parsing are tested here; records, ACLs and SASL with their rooms.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc

import pytest

from odradek.network.frames import FLOOR_CAPACITY
from odradek.network.limits import AcceptorLimits
from odradek.server.start.process import run_loop
from tests.network.support import Peer, framed, peer
from tests.server.hostile_support import CLOSES
from tests.server.support import api_versions, dispatching, request, response_error
from tests.waiting import until

MIB = 1024 * 1024


async def alive(client: Peer) -> None:
    """The connection is served."""
    client.send(api_versions())
    assert response_error(await client.frame()) == (7, 0)


@pytest.mark.parametrize("name", CLOSES)
def test_the_connection_is_closed_and_its_neighbour_is_not(name: str) -> None:
    async def main() -> None:
        async with dispatching() as (acceptor, bound), peer(bound) as neighbour, peer(bound) as hostile:
            await alive(neighbour)
            hostile.writer.write(CLOSES[name])
            assert await hostile.closed()
            await alive(neighbour)
            await asyncio.sleep(0)
            assert acceptor.pool.in_use == 0

    run_loop(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("name", ["array of 20 million empty strings", "20 million tagged fields"])
def test_amplifiers_cost_little_more_than_their_own_bytes(name: str) -> None:
    async def main() -> None:
        data = CLOSES[name]
        async with dispatching() as (_, bound), peer(bound) as hostile:
            tracemalloc.start()
            try:
                hostile.writer.write(data)
                assert await hostile.closed()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            # The client's own copy in the writer counts as well: its frame once, the server's buffers twice, and 32 MiB.
            assert peak <= 3 * len(data) + 32 * MIB

    run_loop(asyncio.wait_for(main(), 60))


def test_api_versions_too_new_is_answered_in_version_0_with_the_range() -> None:
    async def main() -> None:
        async with dispatching() as (_, bound), peer(bound) as client:
            client.send(struct.pack(">hhih", 18, 77, 7, -1) + b"\x00garbage")
            answer = await client.frame()
            assert answer == struct.pack(">ihi", 7, 35, 1) + struct.pack(">hhh", 18, 0, 4)
            await alive(client)

    run_loop(asyncio.wait_for(main(), 10))


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_in_every_version(version: int) -> None:
    async def main() -> None:
        async with dispatching() as (_, bound), peer(bound) as client:
            client.send(api_versions(version))
            assert response_error(await client.frame()) == (7, 0)

    run_loop(asyncio.wait_for(main(), 10))


def test_a_software_name_that_is_none_is_an_invalid_request() -> None:
    async def main() -> None:
        async with dispatching() as (_, bound), peer(bound) as client:
            client.send(request(18, 3, b"\x02 \x021\x00"))
            assert response_error(await client.frame()) == (7, 42)

    run_loop(asyncio.wait_for(main(), 10))


def test_a_thousand_declarations_of_99_mib_cost_their_floor() -> None:
    async def main() -> None:
        # Half of the peers, since each has two ends here, in one process.
        count = 500
        loop = asyncio.get_running_loop()
        sockets = [socket.socket() for _ in range(count)]
        limits = AcceptorLimits(frame_grace_s=20.0)
        async with dispatching(limits) as (acceptor, bound), peer(bound) as neighbour:
            tracemalloc.start()
            try:
                for each in sockets:
                    each.setblocking(False)
                    await loop.sock_connect(each, ("127.0.0.1", bound.port))
                    await loop.sock_sendall(each, struct.pack(">i", 99 * MIB) + b"\x00\x12")
                waiting = acceptor.connections
                await until(lambda: sum(connection.bytes_pending == 6 for connection in waiting) == count)
                await alive(neighbour)
                await until(lambda: acceptor.pool.in_use <= (count + 1) * FLOOR_CAPACITY)
                held, _ = tracemalloc.get_traced_memory()
                assert held <= count * (FLOOR_CAPACITY + 8 * 1024) + acceptor.pool.retained + 2 * MIB
                await alive(neighbour)
                for each in sockets:
                    each.close()
                await until(lambda: len(acceptor.connections) == 1)
                assert acceptor.pool.in_use <= FLOOR_CAPACITY, "all of it is given back"
            finally:
                tracemalloc.stop()
                for each in sockets:
                    each.close()

    run_loop(asyncio.wait_for(main(), 30))


def test_flooding_while_never_reading_is_pushed_back() -> None:
    """Millions of requests whose answers nobody takes: the answers stay within the socket and the transport, then reading stops."""

    async def main() -> None:
        async with dispatching() as (acceptor, bound), peer(bound) as neighbour:
            reader, writer = await asyncio.open_connection("127.0.0.1", bound.port, limit=1024)
            flood = framed(api_versions()) * 2000

            async def send_for_ever() -> None:
                while True:
                    writer.write(flood)
                    await writer.drain()

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(send_for_ever(), 2)
            assert acceptor.pool.in_use <= MIB
            await alive(neighbour)
            writer.transport.abort()
            del reader

    run_loop(asyncio.wait_for(main(), 30))
