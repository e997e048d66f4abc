"""Requests that have taken effect let others follow: answers in order, and a bound to all that is in flight.

The test's handler lets requests follow that begin with P.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ProtocolError
from odradek.network.chunks import Answer, Chunk
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from tests.loops import on_each_loop
from tests.network.support import Run, framed, listening, peer
from tests.waiting import until

MIB = 1024 * 1024
Pending = Applied[Sequence[Chunk] | None]


class Handler:
    """Keeps what it was asked; `P...` is applied and answered by the test, `P=...` at once, `P-...` never, `P!...` closes.

    `W...` is not applied and answered by the test.
    """

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.waiting: dict[bytes, Deferred[Sequence[Chunk] | None]] = {}

    def __call__(self, connection: Connection, frame: memoryview) -> Answer:
        body = bytes(frame)
        self.seen.append(body[:8])
        match body[:2]:
            case b"P=":
                return [framed(body)]
            case b"P-":
                return None
            case b"P!":
                raise ProtocolError("nonsense")
            case b"P?":
                raise ZeroDivisionError
        answer: Deferred[Sequence[Chunk] | None] = Applied() if body[:1] == b"P" else Deferred()
        self.waiting[body] = answer
        return answer

    def answer(self, *bodies: bytes) -> None:
        for body in bodies:
            self.waiting.pop(body).complete([framed(body)])


@on_each_loop
async def test_answers_are_in_the_order_of_the_requests_however_they_come() -> None:
    handler = Handler()
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.send(b"P1", b"P2")
        await until(lambda: len(handler.seen) == 2)
        client.send(b"P=3", b"P4")
        await until(lambda: len(handler.seen) == 4)
        handler.answer(b"P4", b"P2")
        await asyncio.sleep(0.01)
        handler.answer(b"P1")
        assert [await client.frame() for _ in range(4)] == [b"P1", b"P2", b"P=3", b"P4"]
        client.send(b"P=5")
        assert await client.frame() == b"P=5"


@on_each_loop
async def test_anything_else_waits_its_turn() -> None:
    handler = Handler()
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.send(b"P1", b"W2", b"P3")
        await until(lambda: bool(handler.seen))
        client.send(b"P4")
        await asyncio.sleep(0.02)
        assert handler.seen == [b"P1"]
        handler.answer(b"P1")
        assert await client.frame() == b"P1"
        await until(lambda: len(handler.seen) == 2)
        await asyncio.sleep(0.02)
        assert handler.seen == [b"P1", b"W2"], "what has not taken effect lets nothing follow"
        handler.answer(b"W2")
        await until(lambda: len(handler.seen) == 4)
        handler.answer(b"P3", b"P4")
        assert [await client.frame() for _ in range(3)] == [b"W2", b"P3", b"P4"]


@on_each_loop
async def test_behind_one_that_has_not_taken_effect_nothing_is_served_though_others_are_answered() -> None:
    handler = Handler()

    def handle(connection: Connection, frame: memoryview) -> Answer:
        if frame[:2] == b"P~":  # one that may follow, and has to wait before it takes effect
            handler.seen.append(b"P~")
            handler.waiting[b"P~"] = Deferred()
            return handler.waiting[b"P~"]
        return handler(connection, frame)

    async with listening(handle) as (_, bound), peer(bound) as client:
        client.send(b"P1", b"P~", b"P3")
        await until(lambda: len(handler.seen) == 2)
        handler.answer(b"P1")
        assert await client.frame() == b"P1"
        await asyncio.sleep(0.02)
        assert handler.seen == [b"P1", b"P~"]
        handler.answer(b"P~")
        await until(lambda: len(handler.seen) == 3)
        handler.answer(b"P3")
        assert [await client.frame() for _ in range(2)] == [b"P~", b"P3"]


@on_each_loop
async def test_so_many_requests_are_in_flight_and_no_more() -> None:
    handler = Handler()
    bodies = [b"P%d" % number for number in range(40)]
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.send(*bodies)
        await until(lambda: len(handler.seen) == 16)
        await asyncio.sleep(0.02)
        assert handler.seen == bodies[:16]
        handler.answer(*bodies[1:16])
        await asyncio.sleep(0.02)
        assert len(handler.seen) == 16, "those that wait for their turn are in flight"
        handler.answer(bodies[0])
        await until(lambda: len(handler.seen) == 32)
        for body in bodies[16:]:
            await until(lambda body=body: body in handler.waiting)
            handler.answer(body)
        assert [await client.frame() for _ in bodies] == bodies


@on_each_loop
async def test_so_many_bytes_are_in_flight_and_no_more() -> None:
    handler = Handler()
    bodies = [b"P%d" % number + bytes(30_000) for number in range(6)]
    async with listening(handler, AcceptorLimits(pipelined_bytes=100_000)) as (acceptor, bound), peer(bound) as client:
        client.send(*bodies)
        await until(lambda: len(handler.seen) == 3)
        await asyncio.sleep(0.02)
        assert len(handler.seen) == 3
        assert acceptor.pool.in_use <= 512 * 1024
        handler.answer(*bodies[:3])
        await until(lambda: len(handler.seen) == 6)
        handler.answer(*bodies[3:])
        assert [await client.frame() for _ in bodies] == bodies
        large = b"P" + bytes(200_000)
        client.send(large)
        await until(lambda: len(handler.seen) == 7)
        handler.answer(large)
        assert await client.frame() == large


@on_each_loop
async def test_an_answer_that_waits_for_its_turn_counts_with_its_size() -> None:
    handler = Handler()

    def handle(connection: Connection, frame: memoryview) -> Answer:
        if frame[:2] == b"P+":
            handler.seen.append(b"P+")
            return [framed(bytes(200_000))]
        return handler(connection, frame)

    async with listening(handle, AcceptorLimits(pipelined_bytes=100_000)) as (_, bound), peer(bound) as client:
        client.send(b"P1", b"P+", b"P+")
        await until(lambda: len(handler.seen) == 2)
        await asyncio.sleep(0.02)
        assert handler.seen == [b"P1", b"P+"]
        handler.answer(b"P1")
        assert await client.frame() == b"P1"
        assert [len(await client.frame()) for _ in range(2)] == [200_000, 200_000]


@pytest.mark.parametrize("bad", [b"P!", b"P?"])
@on_each_loop
async def test_what_closes_the_connection_does_so_in_its_turn(bad: bytes) -> None:
    handler = Handler()
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.send(b"P1", b"P2", bad, b"P4")
        await until(lambda: len(handler.seen) == 3)
        handler.answer(b"P2")
        await asyncio.sleep(0.02)
        assert handler.seen == [b"P1", b"P2", bad]
        handler.answer(b"P1")
        assert [await client.frame() for _ in range(2)] == [b"P1", b"P2"]
        assert await client.closed()


@on_each_loop
async def test_an_impossible_size_closes_in_its_turn_too() -> None:
    handler = Handler()
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.writer.write(framed(b"P1") + b"\xff\xff\xff\xff")
        await until(lambda: bool(handler.seen))
        handler.answer(b"P1")
        assert await client.frame() == b"P1"
        assert await client.closed()


@on_each_loop
async def test_requests_without_an_answer_leave_no_gap() -> None:
    handler = Handler()
    async with listening(handler) as (_, bound), peer(bound) as client:
        client.send(b"P1", *[b"P-"] * 40, b"P2")
        await until(lambda: len(handler.seen) == 42)
        handler.answer(b"P2", b"P1")
        assert [await client.frame() for _ in range(2)] == [b"P1", b"P2"]


class File:
    def __init__(self) -> None:
        self.size = 10
        self.released = False

    def read(self, offset: int, size: int) -> bytes:
        return bytes(size)

    def read_cached(self, offset: int, size: int) -> bytes:
        return bytes(size)

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        return None

    def release(self) -> None:
        self.released = True


@on_each_loop
async def test_answers_for_a_peer_that_has_gone_are_released() -> None:
    handler = Handler()
    early, late = File(), File()
    async with listening(handler) as (acceptor, bound), peer(bound) as client:
        client.send(b"P1", b"P2", b"P3")
        await until(lambda: len(handler.seen) == 3)
        handler.waiting[b"P2"].complete([early])
        await client.close()
        await until(lambda: not acceptor.connections)
        assert early.released
        handler.waiting[b"P3"].complete([late])
        assert late.released
        handler.answer(b"P1")
        assert acceptor.pool.in_use == 0


@on_each_loop
async def test_a_peer_that_takes_no_answers_is_served_no_further() -> None:
    handler = Handler()
    large = [framed(bytes(4 * MIB))]
    async with listening(handler) as (acceptor, bound), peer(bound) as client:
        client.send(*[b"P%02d" % number for number in range(60)])
        await until(lambda: len(handler.seen) == 16)
        for number in range(60):
            await asyncio.sleep(0.002)
            answer = handler.waiting.pop(b"P%02d" % number, None)
            if answer is not None:
                answer.complete(large)
        # What the sockets' own memory takes is no matter of ours.
        assert len(handler.seen) < 60
        assert acceptor.unsent.in_memory <= acceptor.unsent.most
        received = 0
        while received < 60:
            for body in list(handler.waiting):
                handler.waiting.pop(body).complete(large)
            assert len(await client.frame()) == 4 * MIB
            received += 1


@on_each_loop
async def test_a_connection_that_waits_for_acknowledgements_is_not_idle() -> None:
    handler = Handler()
    async with listening(handler, AcceptorLimits(idle_s=0.1)) as (_, bound), peer(bound) as client, peer(bound) as idle:
        client.send(b"P1")
        assert await idle.closed()
        handler.answer(b"P1")
        assert await client.frame() == b"P1"


def test_any_mixture_is_answered_in_order(run: Run) -> None:
    async def story(seed: int) -> None:
        rng = random.Random(seed)
        handler = Handler()
        limits = AcceptorLimits(pipelined_requests=rng.choice((1, 3, 16)), pipelined_bytes=rng.choice((100, 20_000, 1 << 20)))
        bodies = [
            rng.choice((b"P", b"P", b"P", b"P=", b"W")) + b"%d." % number + bytes(rng.choice((0, 10, 5000, 70_000)))
            for number in range(120)
        ]
        async with listening(handler, limits) as (acceptor, bound), peer(bound) as client:

            async def send() -> None:
                data = framed(*bodies)
                while data:
                    size = rng.choice((1, 1000, 100_000))
                    client.writer.write(data[:size])
                    data = data[size:]
                    await asyncio.sleep(0)

            async def answer() -> None:
                answered = 0
                deferred = sum(body[:2] != b"P=" for body in bodies)
                while answered < deferred:
                    if handler.waiting and (len(handler.waiting) > rng.randint(0, 4) or rng.random() < 0.3):
                        handler.answer(rng.choice(list(handler.waiting)))
                        answered += 1
                    else:
                        await asyncio.sleep(0)

            async def receive() -> list[bytes]:
                return [await client.frame() for _ in bodies]

            _, _, received = await asyncio.gather(send(), answer(), receive())
            assert received == bodies, seed
            assert handler.seen == [body[:8] for body in bodies], seed
            await until(lambda: acceptor.pool.in_use <= 8192)

    async def main() -> None:
        for seed in range(15):
            await story(seed)

    run(main())
