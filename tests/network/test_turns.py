"""A connection that has sent many requests at once is served in turns with the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.network import fairness
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.inbound import NotYetError
from odradek.server.clock import LoopClock
from odradek.server.start.process import run_loop
from tests.network.support import Peer, framed, listening, peer, turns
from tests.waiting import until

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


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_request_whose_time_has_not_come_is_served_later_and_nothing_before_it(size: int) -> None:
    async def main() -> None:
        held: list[Connection] = []
        open_to_all = False

        def handle(connection: Connection, frame: memoryview) -> Answer:
            if frame[:1] == b"h" and not open_to_all:
                held.append(connection)
                raise NotYetError
            return [framed(bytes(frame[:5]))]

        async with listening(handle) as (acceptor, bound), peer(bound) as client, peer(bound) as neighbour:
            client.send(b"first", b"h" * size, b"third")
            assert await client.frame() == b"first"
            await until(lambda: bool(held))
            client.send(b"fourth")
            neighbour.send(b"other")
            assert await neighbour.frame() == b"other"
            held[0].mute(0.001)
            await until(lambda: not held[0].muted)
            await turns()
            assert len(held) == 1
            assert held[0].parked
            assert held[0].frames == 1
            assert acceptor.pool.in_use > size  # it counts in the memory of requests
            open_to_all = True
            held[0].go_on()
            assert [await client.frame() for _ in range(3)] == [b"hhhhh", b"third", b"fourt"]
            assert held[0].frames == 4

    run_loop(asyncio.wait_for(main(), 30))


def test_a_client_that_leaves_while_its_request_is_held_is_gone() -> None:
    async def main() -> None:
        held: list[Connection] = []

        def handle(connection: Connection, frame: memoryview) -> Answer:
            held.append(connection)
            raise NotYetError

        async with listening(handle) as (acceptor, bound):
            async with peer(bound) as client:
                client.send(b"held")
                await until(lambda: bool(held))
            await until(lambda: not acceptor.connections)
            held[0].go_on()
            assert len(held) == 1
            assert acceptor.pool.in_use == 0

    run_loop(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("remembered_s", [60.0, 0.0])
def test_many_who_want_more_than_their_share_keep_others_waiting_like_one(monkeypatch: pytest.MonkeyPatch, remembered_s: float) -> None:
    monkeypatch.setattr(fairness, "GREEDY_S", remembered_s)
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
            await until(lambda: bool(failed))
            port = one.writer.get_extra_info("sockname")[1]
            survivor = other if failed[0].peer_port == port else one
            assert [await survivor.frame() for _ in range(40)] == [b"x"] * 40

    monkeypatch.setattr(Connection, "go_on", fail_once)
    run_loop(asyncio.wait_for(main(), 30))
    assert failed


LONG_S = 0.002
"""What a request takes on the clock of `counted`."""
A_TURN = 3
"""Requests that begin within the time that clients have in a turn."""
TWO_TURNS = 2 * A_TURN
"""What is sent together may be read in two turns, after whatever clients had been read before."""
CROWD = 40
FIRST = b"1st"
"""A request that goes first by the word of `FakeHandler`."""


class CountedClock(LoopClock):
    """The loop's timers, and a monotonic clock that only requests move."""

    now_s = 1.0

    def monotonic(self) -> float:  # type: ignore[override]
        return self.now_s


class Crowd:
    """Connections to an acceptor on a `CountedClock`, and what was served, in order."""

    def __init__(self) -> None:
        self.clock = CountedClock(asyncio.get_running_loop())
        self.served: list[bytes] = []
        self.held: list[Deferred[Any]] = []

    def handle(self, connection: Connection, frame: memoryview) -> Answer:
        request = bytes(frame)
        self.served.append(request)
        if request == b"held":
            self.held.append(Deferred())
            return self.held[-1]
        if request != FIRST:
            self.clock.now_s += LONG_S
        return [framed(request)]

    async def turns(self, count: int) -> list[int]:
        """How many requests each turn of the loop served, until `count` have been served."""
        seen = [len(self.served)]
        while seen[-1] < count:
            await asyncio.sleep(0)
            seen.append(len(self.served))
        return [end - begin for begin, end in pairwise(seen)]


@asynccontextmanager
async def crowd(size: int) -> AsyncIterator[tuple[Crowd, list[Peer]]]:
    """`size` connections."""
    each = Crowd()
    async with AsyncExitStack() as stack:
        _, bound = await stack.enter_async_context(listening(each.handle, clock=each.clock))
        yield each, [await stack.enter_async_context(peer(bound)) for _ in range(size)]


def test_what_goes_first_waits_for_the_time_of_one_turn_however_many_clients_ask() -> None:
    async def main() -> None:
        async with crowd(CROWD + 1) as (crowded, (*clients, node)):
            for _ in range(2):
                crowded.served.clear()
                for each in clients:
                    each.send(b"client")
                node.send(FIRST)
                assert await node.frame() == FIRST
                assert crowded.served.index(FIRST) <= TWO_TURNS
                assert [await each.frame() for each in clients] == [b"client"] * CROWD

    run_loop(asyncio.wait_for(main(), 30))


def test_a_node_whose_requests_took_long_goes_first_all_the_same() -> None:
    async def main() -> None:
        async with crowd(CROWD + 1) as (crowded, (*clients, node)):
            node.send(*[b"slow"] * 3)
            assert [await node.frame() for _ in range(3)] == [b"slow"] * 3
            crowded.served.clear()
            for each in clients:
                each.send(*[b"client"] * 2)
            node.send(FIRST)
            assert await node.frame() == FIRST
            assert crowded.served.index(FIRST) <= TWO_TURNS

    run_loop(asyncio.wait_for(main(), 30))


def test_requests_of_all_clients_share_a_turn_of_the_loop() -> None:
    async def main() -> None:
        async with crowd(CROWD) as (crowded, clients):
            for _ in range(2):
                crowded.served.clear()
                for each in clients:
                    each.send(b"client")
                most = max(await crowded.turns(CROWD))
                assert 1 < most <= A_TURN
                assert [await each.frame() for each in clients] == [b"client"] * CROWD

    run_loop(asyncio.wait_for(main(), 30))


def test_requests_behind_answers_that_come_together_share_a_turn_of_the_loop() -> None:
    async def main() -> None:
        async with crowd(CROWD) as (crowded, clients):
            for each in clients:
                each.send(b"held", b"client")
            await crowded.turns(CROWD)
            for held in crowded.held:
                held.complete([framed(b"held")])
            assert max(await crowded.turns(2 * CROWD)) <= A_TURN
            assert [await each.frame() for each in clients for _ in range(2)] == [b"held", b"client"] * CROWD

    run_loop(asyncio.wait_for(main(), 30))


def test_a_request_of_a_node_behind_an_answer_stands_in_no_line() -> None:
    async def main() -> None:
        async with crowd(CROWD + 1) as (crowded, (*clients, node)):
            for each in (*clients, node):
                each.send(b"held", FIRST if each is node else b"client")
            await crowded.turns(CROWD + 1)
            for held in crowded.held:
                held.complete([framed(b"held")])
            await crowded.turns(2 * CROWD + 2)
            assert crowded.served[CROWD + 1 :].index(FIRST) <= TWO_TURNS

    run_loop(asyncio.wait_for(main(), 30))


def test_those_who_found_the_turn_over_come_before_those_who_ask_later() -> None:
    async def main() -> None:
        async with crowd(CROWD) as (crowded, clients):
            early, late = clients[: CROWD // 2], clients[CROWD // 2 :]
            for each in early:
                each.send(b"early")
            await crowded.turns(A_TURN)
            for each in late:
                each.send(b"late")
            assert [await each.frame() for each in (*early, *late)] == [b"early"] * len(early) + [b"late"] * len(late)
            # The last turn of the early ones may have time left for some of the others.
            assert crowded.served.index(b"late") >= len(early) - A_TURN

    run_loop(asyncio.wait_for(main(), 30))


def test_whoever_asks_once_waits_neither_for_those_who_flood_nor_for_those_who_have_flooded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "GREEDY_S", 60.0)

    async def main() -> None:
        async with crowd(CROWD + 1) as (crowded, (*flooders, neighbour)):
            for each in flooders:
                each.send(*[b"flood"] * 6)
            # Each has had its share, two requests; some have had more, from the line.
            await crowded.turns(4 * CROWD)
            begin = len(crowded.served)
            neighbour.send(b"neighbour")
            assert await neighbour.frame() == b"neighbour"
            assert crowded.served.index(b"neighbour") - begin <= 2 * TWO_TURNS
            assert [await each.frame() for each in flooders for _ in range(6)] == [b"flood"] * 6 * CROWD
            crowded.served.clear()
            for each in flooders:
                each.send(*[b"flood"] * 6)
            neighbour.send(b"neighbour")
            assert await neighbour.frame() == b"neighbour"
            # Those who are known to flood leave the turn to others, and have two requests in it.
            assert crowded.served.index(b"neighbour") <= A_TURN
            assert [await each.frame() for each in flooders for _ in range(6)] == [b"flood"] * 6 * CROWD

    run_loop(asyncio.wait_for(main(), 30))
