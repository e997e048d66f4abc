"""A connection that has sent many requests at once is served in turns with the others."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from odradek.network import connection as connections
from odradek.network.connection import Answer, Connection
from odradek.server.process import run_loop
from tests.network.support import framed, listening, peer, until

MANY = 2000


class Counting:
    """Answers each request with itself, and knows how many were `served` when another turn of the loop could come, which is once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self.served = 0
        self.when_others_could = 0

    def __call__(self, connection: Connection, frame: memoryview) -> Answer:
        self.served += 1
        if self.served == 1:
            asyncio.get_running_loop().call_soon(self._others)
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            pass
        return [framed(bytes(frame))]

    def _others(self) -> None:
        self.when_others_could = self.served


def test_others_are_served_between_the_requests_of_one() -> None:
    async def main() -> None:
        handle = Counting()
        async with listening(handle) as (_, bound), peer(bound) as flooder, peer(bound) as neighbour:
            sent = [b"%d" % number for number in range(MANY)]
            flooder.send(*sent)
            assert [await flooder.frame() for _ in sent] == sent
            assert 0 < handle.when_others_could < 100
            neighbour.send(b"still there")
            assert await neighbour.frame() == b"still there"

    run_loop(asyncio.wait_for(main(), 30))


def test_others_are_served_sooner_where_each_request_takes_long() -> None:
    async def main() -> None:
        handle = Counting(seconds=0.002)
        async with listening(handle) as (_, bound), peer(bound) as flooder:
            sent = [b"%d" % number for number in range(16)]
            flooder.send(*sent)
            assert [await flooder.frame() for _ in sent] == sent
            assert 0 < handle.when_others_could <= 2

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


@pytest.mark.parametrize("remembered_s", [60.0, 0.0])
def test_many_who_want_more_than_their_share_keep_others_waiting_like_one(monkeypatch: pytest.MonkeyPatch, remembered_s: float) -> None:
    monkeypatch.setattr(connections, "_IN_LINE_S", remembered_s)
    handle = Counting(seconds=0.002)
    came: list[int] = []

    def note(connection: Connection, frame: memoryview) -> Answer:
        if bytes(frame) == b"neighbour":
            came.append(handle.served)
            return [framed(b"neighbour")]
        return handle(connection, frame)

    async def main() -> tuple[list[int], list[int]]:
        before_neighbour: list[int] = []
        most_in_a_turn: list[int] = []
        async with AsyncExitStack() as stack:
            _, bound = await stack.enter_async_context(listening(note))
            flooders = [await stack.enter_async_context(peer(bound)) for _ in range(8)]
            neighbour = await stack.enter_async_context(peer(bound))
            for _ in range(3):
                begun = handle.served
                for each in flooders:
                    each.send(*[b"x"] * 8)
                neighbour.send(b"neighbour")
                assert await neighbour.frame() == b"neighbour"
                before_neighbour.append(came[-1] - begun)
                turns = [handle.served]
                while turns[-1] < begun + 64:
                    await asyncio.sleep(0)
                    turns.append(handle.served)
                most_in_a_turn.append(max(end - begin for begin, end in pairwise(turns)))
                assert [await each.frame() for each in flooders for _ in range(8)] == [b"x"] * 64
        return before_neighbour, most_in_a_turn

    before_neighbour, most_in_a_turn = run_loop(asyncio.wait_for(main(), 30))
    assert max(most_in_a_turn) <= 4
    if remembered_s:
        assert before_neighbour[0] > 8, "nobody has been found out yet"
        assert max(before_neighbour[1:]) <= 4
    else:
        assert min(before_neighbour[1:]) > 8, "and nobody is taken for what he was long ago"


def test_a_line_goes_on_when_one_in_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Connection.go_on
    failed: list[Connection] = []

    def fail_once(self: Connection) -> None:
        if not failed:
            failed.append(self)
            raise RuntimeError("one fails")
        go_on(self)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with listening() as (_, bound), peer(bound) as one, peer(bound) as other:
            for each in (one, other):
                each.send(*[b"x"] * 40)
            assert [await other.frame() for _ in range(40)] == [b"x"] * 40

    monkeypatch.setattr(Connection, "go_on", fail_once)
    run_loop(asyncio.wait_for(main(), 30))
    assert failed
