"""A muted connection: what was served is answered at once, nothing further is served until its time is over, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from odradek.base.deferred import Applied, Deferred
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.chunks import Answer, Chunk
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from odradek.quotas.connections import UNLIMITED_RATE, Admission, ConnectionRates
from odradek.quotas.samples import Window
from tests.clock import ManualClock
from tests.loops import on_each_loop
from tests.network.support import FakeHandler, Peer, Run, framed, peer
from tests.waiting import until


class Handler:
    """Answers at once, but for frames that begin with P, which are applied and wait, and W, which wait. A digit mutes for so long."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.waiting: dict[bytes, Deferred[Sequence[Chunk] | None]] = {}
        self.connections: list[Connection] = []

    def __call__(self, connection: Connection, frame: memoryview) -> Answer:
        body = bytes(frame)
        self.seen.append(body)
        if connection not in self.connections:
            self.connections.append(connection)
        if body[1:2].isdigit():
            connection.mute(int(body[1:2]))
        if body[:1] in b"PW":
            answer: Deferred[Sequence[Chunk] | None] = Applied() if body[:1] == b"P" else Deferred()
            self.waiting[body] = answer
            return answer
        return [framed(body)]

    def answer(self, body: bytes, mute_s: float = 0.0) -> None:
        if mute_s:
            self.connections[0].mute(mute_s)
        self.waiting.pop(body).complete([framed(body)])


@asynccontextmanager
async def world(limits: AcceptorLimits | None = None) -> AsyncIterator[tuple[Handler, ManualClock, Acceptor, BoundListener]]:
    clock, handler = ManualClock(), Handler()
    acceptor = Acceptor(asyncio.get_running_loop(), clock, FakeHandler(handler), limits or AcceptorLimits())
    bound = await acceptor.bind(Listener("PLAINTEXT", "broker", "127.0.0.1", 0))
    await acceptor.serve(bound)
    try:
        yield handler, clock, acceptor, bound
    finally:
        for connection in list(acceptor.connections):
            connection.abort()
        await until(lambda: not acceptor.connections)
        await acceptor.close()


async def turns(count: int = 20) -> None:
    """Whatever lies in the sockets is served."""
    for _ in range(count):
        await asyncio.sleep(0)


async def answered(client: Peer, *bodies: bytes) -> None:
    assert [await asyncio.wait_for(client.frame(), 10) for _ in bodies] == list(bodies)


@on_each_loop
async def test_the_answer_leaves_at_once_and_the_next_request_waits() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"E5", b"E", b"E")
        await answered(client, b"E5")
        await turns()
        assert handler.seen == [b"E5"]
        clock.advance_s(4.9)
        await turns()
        assert handler.seen == [b"E5"]
        clock.advance_s(0.1)
        await answered(client, b"E", b"E")
        client.send(b"E")
        await answered(client, b"E")


@on_each_loop
async def test_short_answers_before_the_mute_are_not_kept() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"Ea", b"Eb", b"E9", b"Ec")
        await answered(client, b"Ea", b"Eb", b"E9")
        assert handler.seen == [b"Ea", b"Eb", b"E9"]
        clock.advance_s(9)
        await answered(client, b"Ec")


@on_each_loop
async def test_what_comes_later_is_read_when_the_mute_ends_and_no_sooner() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"E5")
        await answered(client, b"E5")
        client.send(b"E", b"x" * 3_000_000)
        await turns(200)
        assert handler.seen == [b"E5"]
        assert handler.connections[0].bytes_pending < 1_000_000, "the rest waits in the kernel"
        clock.advance_s(5)
        await answered(client, b"E", b"x" * 3_000_000)


@on_each_loop
async def test_pipelined_requests_that_are_served_are_answered_meanwhile() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"Pa", b"Pb")
        await until(lambda: len(handler.seen) == 2)
        handler.answer(b"Pa", mute_s=5)
        await answered(client, b"Pa")
        client.send(b"Pc", b"E")
        await turns()
        assert handler.seen == [b"Pa", b"Pb"]
        handler.answer(b"Pb")
        await answered(client, b"Pb")
        await turns()
        assert handler.seen == [b"Pa", b"Pb"]
        clock.advance_s(5)
        await until(lambda: len(handler.seen) == 3)
        handler.answer(b"Pc")
        await answered(client, b"Pc", b"E")


@on_each_loop
async def test_a_mute_that_ends_while_a_request_waits_lets_only_followers_in() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"Wa")
        await until(lambda: len(handler.seen) == 1)
        handler.connections[0].mute(1)
        client.send(b"E")
        await turns()
        clock.advance_s(1)
        await turns()
        assert handler.seen == [b"Wa"]
        handler.answer(b"Wa")
        await answered(client, b"Wa", b"E")


@on_each_loop
async def test_the_longer_of_two_mutes_counts() -> None:
    async with world() as (handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"E5", b"E")
        await answered(client, b"E5")
        handler.connections[0].mute(1)
        clock.advance_s(2)
        await turns()
        assert handler.seen == [b"E5"]
        handler.connections[0].mute(7)
        clock.advance_s(6.9)
        await turns()
        assert handler.seen == [b"E5"]
        clock.advance_s(0.1)
        await answered(client, b"E")


@on_each_loop
async def test_a_mute_ends_with_the_connection_and_leaves_no_timer() -> None:
    async with world() as (handler, clock, acceptor, bound):
        async with peer(bound) as client:
            client.send(b"E9")
            await answered(client, b"E9")
            assert any("_unmute" in each for each in clock.pending)
        handler.connections[0].abort()
        await until(lambda: not acceptor.connections)
        assert not any("_unmute" in each for each in clock.pending)
        handler.connections[0].mute(3)
        assert not any("_unmute" in each for each in clock.pending)


@on_each_loop
async def test_a_muted_connection_counts_as_idle() -> None:
    async with world(AcceptorLimits(idle_s=3)) as (_handler, clock, _acceptor, bound), peer(bound) as client:
        client.send(b"E9")
        await answered(client, b"E9")
        clock.advance_s(8)
        assert await client.closed()


# -- rates of new connections --------------------------------------------------------------------------------------------------------------


def rates(broker: int = 1, address: int | None = None) -> dict[str, ConnectionRates]:
    made = ConnectionRates(Window(2, 1000))
    made.limit_broker(broker, {})
    if address is not None:
        made.limit_address(None, address)
    return {"broker": made}


@on_each_loop
async def test_a_connection_beyond_the_rate_is_served_when_it_is_its_turn() -> None:
    async with world() as (handler, clock, acceptor, bound):
        acceptor.admission.rates = rates()
        async with peer(bound) as first, peer(bound) as second:
            first.send(b"E")
            await answered(first, b"E")
            second.send(b"E")
            await until(lambda: len(acceptor.connections) == 2)
            await turns()
            assert len(handler.seen) == 1
            clock.advance_s(1)
            await answered(second, b"E")


@on_each_loop
async def test_a_connection_that_waits_for_its_turn_is_not_idle() -> None:
    async with world(AcceptorLimits(idle_s=0.4)) as (_, clock, acceptor, bound):
        acceptor.admission.rates = rates()
        async with peer(bound) as first, peer(bound) as second:
            second.send(b"E")
            await until(lambda: len(acceptor.connections) == 2)
            for _ in range(9):
                clock.advance_s(0.1)
                await turns()
            assert await first.closed()
            assert acceptor.idle_closed == 1
            clock.advance_s(0.2)
            await answered(second, b"E")


@on_each_loop
async def test_connections_that_are_closed_by_now_give_their_places_back() -> None:
    async with world() as (handler, clock, acceptor, bound):
        acceptor.admission.rates = rates()
        for _ in range(2):
            async with peer(bound) as first:
                first.send(b"E")
                await answered(first, b"E")
                # The first of those that wait has been counted already, the others are behind it.
                gone = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(30)]
                await until(lambda: len(acceptor.connections) == 31)
                async with peer(bound) as last:
                    last.send(b"E")
                    await until(lambda: len(acceptor.connections) == 32)
                    for _, writer in gone:
                        writer.transport.abort()
                    await turns()
                    assert len(handler.seen) == 1
                    clock.advance_s(1)
                    clock.advance_s(1)
                    await answered(last, b"E")
                    await until(lambda: len(acceptor.connections) == 2)
            await until(lambda: not acceptor.connections)
            clock.advance_s(60)
            handler.seen.clear()


class CountingRates(ConnectionRates):
    """Everybody waits for a second; counts who was admitted, and for whom that was undone."""

    def __init__(self) -> None:
        super().__init__(Window(2, 1000))
        self.admitted = 0
        self.given_back: list[tuple[str, int, bool]] = []

    def admit(self, listener: str, address: str, now_ms: int, *, protected: bool = False) -> Admission:
        self.admitted += 1
        return Admission(1000, None)

    def give_back(self, listener: str, now_ms: int, *, protected: bool = False) -> None:
        self.given_back.append((listener, now_ms, protected))


@pytest.mark.parametrize("protected", [True, False])
@on_each_loop
async def test_only_the_first_in_line_has_been_counted_and_has_something_to_give_back(protected: bool) -> None:
    async with world() as (handler, clock, acceptor, bound):
        counting = CountingRates()
        acceptor.admission.rates = {"broker": counting}
        acceptor.admission.protected = "PLAINTEXT" if protected else None
        for round_ in range(1, 3):
            async with peer(bound) as first, peer(bound), peer(bound) as third:
                await until(lambda: len(acceptor.connections) == 3)
                counting.admitted, counting.given_back = 1, []
                first.writer.transport.abort()
                await turns()
                clock.advance_s(1)
                await until(lambda: len(acceptor.connections) == 2)
                assert [each[::2] for each in counting.given_back] == [("PLAINTEXT", protected)]
                third.send(b"E")
                clock.advance_s(1)
                clock.advance_s(1)
                await answered(third, b"E")
                assert (len(handler.seen), counting.admitted, len(counting.given_back)) == (round_, 3, 1)
            await until(lambda: not acceptor.connections)


@on_each_loop
async def test_those_in_line_that_are_closed_here_leave_it_at_once() -> None:
    async with world() as (_, clock, acceptor, bound):
        counting = CountingRates()
        acceptor.admission.rates = {"broker": counting}
        async with peer(bound), peer(bound), peer(bound) as third:
            await until(lambda: len(acceptor.connections) == 3)
            first, second, _ = acceptor.connections
            first.abort()
            await until(lambda: len(acceptor.connections) == 2)
            assert (counting.admitted, len(counting.given_back)) == (2, 1)
            second.abort()
            await until(lambda: len(acceptor.connections) == 1)
            assert (counting.admitted, len(counting.given_back)) == (3, 2)
            third.send(b"E")
            clock.advance_s(1)
            await answered(third, b"E")


@on_each_loop
async def test_a_place_in_line_is_not_taken_over_with_the_descriptor() -> None:
    async with world() as (_, clock, acceptor, bound):
        counting = CountingRates()
        acceptor.admission.rates = {"broker": counting}
        async with peer(bound), peer(bound):
            await until(lambda: len(acceptor.connections) == 2)
            list(acceptor.connections)[1].abort()
            await until(lambda: len(acceptor.connections) == 1)
            async with peer(bound), peer(bound) as last:
                await until(lambda: len(acceptor.connections) == 3)
                last.send(b"E")
                for _ in range(3):
                    clock.advance_s(1)
                await answered(last, b"E")
                assert counting.admitted == 3


@on_each_loop
async def test_those_in_line_whose_peers_are_gone_are_closed_before_their_turn() -> None:
    async with world(AcceptorLimits(idle_s=40)) as (_, clock, acceptor, bound):
        made = rates()
        made["broker"].limit_broker(UNLIMITED_RATE, {"PLAINTEXT": 1})
        acceptor.admission.rates = made
        async with peer(bound) as first, peer(bound) as second, peer(bound) as third:
            # The second is the first in line for up to a second; the sweep comes every five.
            await until(lambda: len(acceptor.connections) == 3)
            gone = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(30)]
            for _, writer in gone:
                writer.write(b"a beginning")
            await until(lambda: len(acceptor.connections) == 33)
            for _, writer in gone:
                writer.transport.abort()
            await turns()
            acceptor.admission.sweep()
            await until(lambda: len(acceptor.connections) == 3)
            for each in (first, second, third):
                each.send(b"E")
            clock.advance_s(1)
            clock.advance_s(1)
            for each in (first, second, third):
                await answered(each, b"E")


@on_each_loop
async def test_those_that_wait_are_served_in_their_order_at_the_rate() -> None:
    async with world() as (handler, clock, acceptor, bound):
        acceptor.admission.rates = rates()
        async with peer(bound) as first, peer(bound) as second, peer(bound) as third, peer(bound) as fourth:
            await until(lambda: len(acceptor.connections) == 4)
            for number, each in enumerate((first, second, third, fourth)):
                each.send(b"ABCD"[number : number + 1])
            await answered(first, b"A")
            third.writer.transport.abort()
            clock.advance_s(1)
            await answered(second, b"B")
            await turns()
            assert handler.seen == [b"A", b"B"]
            clock.advance_s(1)
            await answered(fourth, b"D")


@on_each_loop
async def test_those_that_wait_are_all_served_when_the_limit_is_lifted() -> None:
    async with world() as (_, clock, acceptor, bound):
        acceptor.admission.rates = rates()
        async with peer(bound) as first, peer(bound) as second, peer(bound) as third:
            await until(lambda: len(acceptor.connections) == 3)
            acceptor.admission.rates = None
            for each in (first, second, third):
                each.send(b"E")
            clock.advance_s(1)
            for each in (first, second, third):
                await answered(each, b"E")


def test_only_so_many_connections_are_kept_before_they_are_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.network.admission.MOST_CLOSING", 1)

    async def main() -> None:
        async with world() as (_, clock, acceptor, bound):
            acceptor.admission.rates = rates(broker=1000, address=1)
            for _ in range(3):
                async with peer(bound), peer(bound) as held:
                    await until(lambda: len(acceptor.connections) == 2)
                    async with peer(bound) as more:
                        assert await more.closed()
                    assert len(acceptor.connections) == 2
                    clock.advance_s(1)
                    assert await held.closed()
                await until(lambda: not acceptor.connections)
                clock.advance_s(10)

    run(main())


@on_each_loop
async def test_a_connection_beyond_the_rate_of_its_address_is_closed_after_a_while() -> None:
    async with world() as (handler, clock, acceptor, bound):
        acceptor.admission.rates = rates(broker=1000, address=1)
        async with peer(bound) as first, peer(bound) as second:
            second.send(b"E")
            await until(lambda: len(acceptor.connections) == 2)
            await turns()
            clock.advance_s(0.5)
            assert len(acceptor.connections) == 2
            clock.advance_s(0.5)
            assert await second.closed()
            first.send(b"E")
            await answered(first, b"E")
            assert handler.seen == [b"E"]
