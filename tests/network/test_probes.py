"""Whether anybody listens, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from odradek.base.deferred import Deferred
from odradek.network.probes import Probes
from tests.loops import on_loop
from tests.waiting import until


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def answer(host: str, port: int, patience_s: float) -> bool:
    done = Probes(asyncio.get_running_loop()).nobody_listens(host, port, patience_s)
    await until(lambda: done.done)
    return done.result()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@on_loop
async def test_a_refused_connection_is_told_at_once(host: str) -> None:
    begin = asyncio.get_running_loop().time()
    assert await answer(host, free_port(), 60.0)
    assert asyncio.get_running_loop().time() - begin < 5


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@on_loop
async def test_a_connection_that_stays_means_that_somebody_listens(host: str) -> None:
    """Also when nobody accepts it: a process that stands still has a backlog."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not await answer(host, server.getsockname()[1], 0.1)
        server.settimeout(5)
        taken, _ = server.accept()
        with taken:
            taken.settimeout(5)
            assert taken.recv(1) == b"", "nothing was sent, and the connection has ended"


@on_loop
async def test_one_address_that_refuses_is_not_enough() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port, refused = server.getsockname()[1], "127.0.0.2"

        async def both(host: str, port: int, **_: object) -> list[object]:
            assert host == "both.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in (refused, "127.0.0.1")]

        loop.getaddrinfo = both  # type: ignore[assignment,method-assign]
        assert not await answer("both.example", port, 0.1)
    assert await answer("both.example", port, 60.0)


@on_loop
async def test_an_address_is_looked_up_in_no_other_family() -> None:
    """uvloop logs the failure of such a look-up as an error when the attempt has been given up meanwhile."""
    loop = asyncio.get_running_loop()
    asked, connect = [], loop.create_connection

    async def watched(factory: Callable[[], asyncio.Protocol], host: str, port: int, *, family: int) -> object:
        asked.append((host, family))
        return await connect(factory, host, port, family=family)

    loop.create_connection = watched  # type: ignore[assignment,method-assign]
    assert await answer("127.0.0.1", free_port(), 60.0)
    assert asked == [("127.0.0.1", socket.AF_INET)]


@on_loop
async def test_a_process_that_is_being_ended_is_asked_again() -> None:
    """It may close its connections before it closes the socket that listens."""
    loop = asyncio.get_running_loop()
    taken = []

    class EndsAtOnce(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            taken.append(transport)
            if len(taken) == 3:
                server.close()
            transport.close()

    server = await loop.create_server(EndsAtOnce, "127.0.0.1", 0)
    assert await answer("127.0.0.1", server.sockets[0].getsockname()[1], 60.0)
    assert len(taken) == 3


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 9092), ("a..b", 9092), ("x" * 300, 9092)])
@on_loop
async def test_an_address_that_makes_no_sense_says_nothing(host: str, port: int) -> None:
    assert not await answer(host, port, 5.0)


@on_loop
async def test_what_is_under_way_is_given_up_at_the_end() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        probes = Probes(asyncio.get_running_loop())
        answers: list[Deferred[bool]] = [probes.nobody_listens(*server.getsockname(), 60.0) for _ in range(2)]
        await asyncio.sleep(0)
        probes.close()
        await until(lambda: all(answer.done for answer in answers))
        assert not any(answer.result() for answer in answers)
