"""A connection that has sent many requests at once is served in turns with the others."""

from __future__ import annotations

import asyncio
import time

import pytest

from odradek.network.connection import Answer, Connection
from odradek.server.process import run_loop
from tests.network.support import framed, listening, peer, until

MANY = 2000


def test_others_are_served_between_the_requests_of_one() -> None:
    async def main() -> None:
        served: list[bytes] = []
        when_others_could: list[int] = []

        def handle(connection: Connection, frame: memoryview) -> Answer:
            served.append(bytes(frame))
            if len(served) == 1:
                asyncio.get_running_loop().call_soon(lambda: when_others_could.append(len(served)))
            return [framed(bytes(frame))]

        async with listening(handle) as (_, bound), peer(bound) as flooder, peer(bound) as neighbour:
            sent = [b"%d" % number for number in range(MANY)]
            flooder.send(*sent)
            assert [await flooder.frame() for _ in sent] == sent
            assert when_others_could[0] < 100
            neighbour.send(b"still there")
            assert await neighbour.frame() == b"still there"

    run_loop(asyncio.wait_for(main(), 30))


def test_others_are_served_sooner_where_each_request_takes_long() -> None:
    async def main() -> None:
        served: list[bytes] = []
        when_others_could: list[int] = []

        def handle(connection: Connection, frame: memoryview) -> Answer:
            served.append(bytes(frame))
            if len(served) == 1:
                asyncio.get_running_loop().call_soon(lambda: when_others_could.append(len(served)))
            end = time.monotonic() + 0.002
            while time.monotonic() < end:
                pass
            return [framed(bytes(frame))]

        async with listening(handle) as (_, bound), peer(bound) as flooder:
            sent = [b"%d" % number for number in range(16)]
            flooder.send(*sent)
            assert [await flooder.frame() for _ in sent] == sent
            assert when_others_could[0] <= 2

    run_loop(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("more", [0, 1, 15, 16, 17, MANY])
def test_whoever_ends_the_connection_has_what_he_sent_served(more: int) -> None:
    async def main() -> None:
        served: list[bytes] = []

        def handle(connection: Connection, frame: memoryview) -> Answer:
            served.append(bytes(frame))
            return None

        async with listening(handle) as (acceptor, bound), peer(bound) as client:
            client.send(*[b"%d" % number for number in range(16 + more)])
            client.writer.write_eof()
            assert await client.closed()
            await until(lambda: not acceptor.connections)
            assert served == [b"%d" % number for number in range(16 + more)]

    run_loop(asyncio.wait_for(main(), 30))


def test_half_a_request_behind_many_waits_for_its_rest() -> None:
    async def main() -> None:
        async with listening() as (_, bound), peer(bound) as client:
            data = framed(*[b"x" * 10] * 16, b"y" * 100_000)
            client.writer.write(data[:-50_000])
            for _ in range(16):
                assert await client.frame() == b"x" * 10
            client.writer.write(data[-50_000:])
            assert await client.frame() == b"y" * 100_000

    run_loop(asyncio.wait_for(main(), 30))
