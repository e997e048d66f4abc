"""The last file descriptors are kept from connections; fewer of them from those of brokers and controllers."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from odradek.network import descriptors
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.descriptors import kept_from_clients, kept_from_nodes, limit, raise_limit
from odradek.network.limits import AcceptorLimits
from odradek.server.start.process import new_event_loop
from tests.clock import ManualClock
from tests.loops import on_each_loop
from tests.network.support import FakeHandler, Peer, Run, echo
from tests.waiting import until

BACKLOG = 4


class DescriptorsWorld:
    """An acceptor with a listener of clients and one of nodes."""

    def __init__(self, clock: ManualClock, acceptor: Acceptor, clients: BoundListener, nodes: BoundListener) -> None:
        self.clock = clock
        self.acceptor = acceptor
        self.clients = clients
        self.nodes = nodes


def lowest_free() -> int:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor


@contextmanager
def without_holes() -> Iterator[None]:
    """Open all numbers below the highest one that is open, so that new descriptors follow one another, whatever tests before have left."""
    highest = max(int(name) for name in os.listdir("/dev/fd"))
    held = [os.open("/dev/null", os.O_RDONLY)]
    while held[-1] < highest:
        held.append(os.open("/dev/null", os.O_RDONLY))
    os.close(held.pop())
    try:
        yield
    finally:
        for each in held:
            os.close(each)


@asynccontextmanager
async def world(most: list[int]) -> AsyncIterator[DescriptorsWorld]:
    """`most` holds the limit that the acceptor sees."""
    loop = asyncio.get_running_loop()
    clock = ManualClock()
    limits = AcceptorLimits(protected=["NODES"], idle_s=1e9)
    acceptor = Acceptor(loop, clock, FakeHandler(echo), limits, backlog=BACKLOG, descriptor_limit=lambda: most[0])
    bound = [await acceptor.bind(Listener(name, "broker", "127.0.0.1", 0)) for name in ("CLIENTS", "NODES")]
    for each in bound:
        await acceptor.serve(each)
    try:
        with without_holes():
            yield DescriptorsWorld(clock, acceptor, *bound)
    finally:
        await acceptor.close()


async def connect(bound: BoundListener) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", bound.port))


async def served(peer: Peer) -> bool:
    """Whether the connection is answered; False when it has been closed."""
    try:
        peer.send(b"hello")
        return await peer.frame() == b"hello"
    except (asyncio.IncompleteReadError, ConnectionError):
        peer.writer.transport.abort()
        return False


def most_that_keeps(number: int, kept: Any) -> int:
    """Return the lowest limit under which the descriptor `number` is not among those that are kept."""
    return next(most for most in range(number, 10**6) if number < most - kept(most, BACKLOG))


def test_clients_are_refused_before_nodes_are_and_both_come_in_again(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        most = [limit()]
        async with world(most) as here:
            for round_ in range(2):
                low = lowest_free()
                # The peer's own end has the lowest free number, and the accepted end one of the next.
                most[0] = most_that_keeps(low + 8, kept_from_clients)
                first = await connect(here.clients)
                assert await served(first)
                most[0] = most_that_keeps(low, kept_from_clients)
                refused, node = await connect(here.clients), await connect(here.nodes)
                assert not await served(refused)
                assert await served(node)
                most[0] = most_that_keeps(low, kept_from_nodes)
                late = await connect(here.nodes)
                assert await served(late)
                assert await first.closed(), "a client gave way to it"
                assert not await served(await connect(here.nodes))
                assert await served(node)
                assert here.acceptor.descriptors_refused == 2 * (round_ + 1)
                most[0] = limit()
                again = await connect(here.clients)
                assert await served(again)
                for each in (first, node, late, again):
                    each.writer.close()
                await until(lambda: not here.acceptor.connections)

    with caplog.at_level(logging.WARNING, "odradek.network.acceptor"):
        run(main())
    said = [record.getMessage() for record in caplog.records if "refusing" in record.getMessage()]
    assert len(said) == 1
    assert "ulimit -n" in said[0]


@on_each_loop
async def test_idle_clients_give_way_to_files() -> None:
    most = [limit()]
    async with world(most) as here:
        for _ in range(2):
            node = await connect(here.nodes)
            peers = [await connect(here.clients) for _ in range(4)]
            for each in (node, *peers):
                assert await served(each)
                here.clock.advance_s(5)  # a sweep: which of them was idle for longest is known
            here.clock.advance_s(5)
            # As if two files had been opened since that have used up what is left to nodes.
            low = lowest_free()
            most[0] = next(each for each in range(2 * low, 0, -1) if low - (each - kept_from_nodes(each, BACKLOG)) == 2)
            here.clock.advance_s(5)
            assert await peers[0].closed()
            assert await peers[1].closed()
            most[0] = limit()
            for each in (*peers[2:], node):
                assert await served(each)
                each.writer.close()
            for each in peers[:2]:
                each.writer.close()
            await until(lambda: not here.acceptor.connections)


@on_each_loop
async def test_a_sweep_opens_no_file_while_the_limit_is_far_away_and_one_missing_descriptor_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = [limit()]
    async with world(most) as here:
        opened: list[None] = []
        counted = descriptors.lowest_free

        def count() -> int:
            opened.append(None)
            return counted()

        monkeypatch.setattr(descriptors, "lowest_free", count)
        peers = [await connect(here.clients) for _ in range(2)]
        for each in peers:
            assert await served(each)
            here.clock.advance_s(5)
        here.clock.advance_s(5)
        assert not opened
        low = lowest_free()
        most[0] = next(each for each in range(2 * low, 0, -1) if low - (each - kept_from_nodes(each, BACKLOG)) == 1)
        here.clock.advance_s(5)
        assert await peers[0].closed()
        assert len(opened) == 1
        most[0] = limit()
        assert await served(peers[1])
        for each in peers:
            each.writer.close()
        await until(lambda: not here.acceptor.connections)


def test_each_period_has_one_line_about_all_that_were_refused(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with world([0]) as here:
            for _ in range(2):
                for _ in range(5):
                    assert not await served(await connect(here.clients))
                here.clock.advance_s(10)
            assert here.acceptor.descriptors_refused == 10

    with caplog.at_level(logging.WARNING, "odradek.network.acceptor"):
        run(main())
    assert ["4 more" in record.getMessage() for record in caplog.records] == [False, True]


def test_some_descriptors_are_kept_of_few_and_not_too_many_of_many() -> None:
    kept = {most: (kept_from_clients(most, 50), kept_from_nodes(most, 50)) for most in (64, 256, 1024, 8192, 65_536, 1 << 20, 1 << 30)}
    assert kept == {
        64: (32, 16),
        256: (114, 57),
        1024: (178, 89),
        8192: (1074, 537),
        65_536: (4146, 2073),
        1 << 20: (4146, 2073),
        1 << 30: (4146, 2073),
    }


@pytest.mark.parametrize(
    ("soft", "hard", "taken", "now"),
    [
        (1024, 4096, True, [(4096, 4096)]),
        (4096, 4096, True, []),
        (1024, 4096, False, []),
        (1024, resource.RLIM_INFINITY, True, [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)]),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, True, []),
        (65_536, resource.RLIM_INFINITY, False, []),
    ],
)
def test_the_soft_limit_becomes_the_hard_one(
    soft: int, hard: int, taken: bool, now: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[tuple[int, int]] = []

    def setrlimit(kind: int, limits: tuple[int, int]) -> None:
        assert kind == resource.RLIMIT_NOFILE
        if not taken:
            raise ValueError("not allowed to raise maximum limit")
        wanted.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    raise_limit()
    assert wanted == now


def test_macos_takes_no_more_than_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [(256, resource.RLIM_INFINITY)]

    def setrlimit(_: int, limits: tuple[int, int]) -> None:
        if limits[0] not in range(10_241):
            raise ValueError("Invalid argument")
        now.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    for _ in range(2):
        raise_limit()
    assert now[1:] == [(10_240, resource.RLIM_INFINITY)]


def test_no_limit_is_a_high_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert limit() == 1 << 30


_WITHOUT_DESCRIPTORS = """
import asyncio, logging, os, resource, socket, sys
import odradek.server.start.process as process
if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
logging.basicConfig(stream=sys.stdout)

class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    early = socket.socket()
    early.setblocking(False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    filling = []
    try:
        while True:
            filling.append(os.dup(0))
    except OSError:
        pass
    await loop.sock_connect(early, address)
    for _ in range(50):
        await asyncio.sleep(0)
    early.close()
    for each in filling:
        os.close(each)
    late = socket.socket()
    late.setblocking(False)
    await loop.sock_connect(late, address)
    await loop.sock_sendall(late, b"served")
    print((await loop.sock_recv(late, 10)).decode())

loop = process.new_event_loop()
print(type(loop).__module__)
loop.run_until_complete(asyncio.wait_for(main(), 60))
"""


@pytest.mark.parametrize("kind", ["uvloop", "asyncio"])
def test_a_listener_without_descriptors_goes_on_afterwards_and_says_nothing(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_DESCRIPTORS, kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *said = done.stdout.splitlines()
    assert first.startswith(kind)
    assert said == ["served"]
    assert done.stderr == ""


def test_other_errors_of_the_loop_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    try:
        for error in (
            OSError(errno.EMFILE, "Too many open files"),
            OSError(errno.ENFILE, "Too many open files"),
            OSError(errno.EIO, "EIO"),
        ):
            loop.call_exception_handler({"message": f"accept: {error}", "exception": error})
        loop.call_exception_handler({"message": "no exception"})
    finally:
        loop.close()
    assert [record.getMessage() for record in caplog.records] == ["accept: [Errno 5] EIO", "no exception"]
