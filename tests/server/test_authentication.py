"""A listener with SASL over real sockets: who gets through, who waits for a refusal, who is closed."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from odradek.base.clock import TimerHandle
from odradek.base.errors import ErrorCode
from odradek.handlers.scopes import BROKER
from odradek.network.frames import FLOOR_CAPACITY
from odradek.network.limits import AcceptorLimits
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.quotas.connections import Admission, ConnectionRates
from odradek.quotas.samples import Window
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.clock import LoopClock
from odradek.server.security import authentication
from odradek.server.start.process import run_loop
from tests.network.support import peer
from tests.server.authentication_support import log_in, serving
from tests.server.sasl_support import handshake, token
from tests.server.support import api_versions, request, response_error
from tests.waiting import until

METADATA = request(3, 4, struct.pack(">ib", -1, 0))
WRONG = b"\0alice\0wrong"


def test_requests_come_through_after_the_login_with_its_principal() -> None:
    async def main() -> None:
        async with serving() as served, peer(served.sasl) as client, peer(served.plain) as neighbour:
            client.send(api_versions())
            assert response_error(await client.frame()) == (7, 0)
            assert (await log_in(client)).error_code == 0
            client.send(api_versions(), METADATA)
            assert response_error(await client.frame()) == (7, 0)
            await client.frame()
            neighbour.send(METADATA)
            await neighbour.frame()
            assert served.principals == [Principal("User", "alice"), ANONYMOUS]

    run_loop(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("before", [[], [api_versions()], [bytes(handshake())]])
def test_no_request_comes_through_before_the_login(before: list[bytes]) -> None:
    async def main() -> None:
        async with serving() as served, peer(served.sasl) as client:
            for each in before:
                client.send(each)
                await client.frame()
            client.send(METADATA)
            if before and before[0] == bytes(handshake()):
                # It is told so in the shape of its API, which has no place for an error: the connection closes, as after a failure.
                assert int.from_bytes((await client.frame())[:4], "big") == 7
            assert await client.closed()
            assert served.principals == []

    run_loop(asyncio.wait_for(main(), 30))


def test_a_refusal_comes_after_the_delay_and_harms_nobody_else() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(delay_s=0.3) as served, peer(served.sasl) as client, peer(served.sasl) as neighbour:
            begin = loop.time()
            refused = asyncio.ensure_future(log_in(client, WRONG))
            assert (await log_in(neighbour)).error_code == 0
            assert not refused.done()
            answer = await refused
            assert loop.time() - begin >= 0.3
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.closed()
            neighbour.send(METADATA)
            await neighbour.frame()

    run_loop(asyncio.wait_for(main(), 30))


class Hasty(LoopClock):
    """Its timers come early, as those of a loop that was busy when they were set."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        return super().call_later(delay_s / 2, callback, *args)


def test_a_refusal_does_not_come_before_the_delay_by_a_timer_that_is_early() -> None:
    async def main() -> None:
        async with serving(delay_s=0.2, clock=Hasty(asyncio.get_running_loop())) as served, peer(served.sasl) as client:
            begin = time.monotonic()
            assert (await log_in(client, WRONG)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert time.monotonic() - begin >= 0.2
            assert await client.closed()

    run_loop(asyncio.wait_for(main(), 30))


def test_only_so_many_refusals_are_delayed_and_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MOST_DELAYED", 2)

    async def main() -> None:
        async with serving(delay_s=3600) as served, AsyncExitStack() as stack:
            delayed: list[asyncio.Future[SaslAuthenticateResponse]] = []
            for admitted in range(1, 6):
                client = await stack.enter_async_context(peer(served.sasl))
                delayed.append(asyncio.ensure_future(log_in(client, WRONG)))
                await until(lambda admitted=admitted: served.sasl.listener.admitted == admitted and not served.frames.waiting)
                if len(delayed) > 2:
                    done, _ = await asyncio.wait(delayed, return_when=asyncio.FIRST_COMPLETED)
                    assert done == {delayed.pop(0)}
            for each in delayed:
                each.cancel()

    run_loop(asyncio.wait_for(main(), 30))


def test_no_refusal_is_delayed_beyond_the_end() -> None:
    async def main() -> None:
        async with serving(delay_s=3600) as served, peer(served.sasl) as client:
            refused = asyncio.ensure_future(log_in(client, WRONG))
            await until(lambda: served.sasl.listener.admitted == 1 and not served.frames.waiting)
            served.frames.close()
            assert (await refused).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.closed()

    run_loop(asyncio.wait_for(main(), 30))


def test_a_large_message_before_the_login_closes_and_after_it_does_not() -> None:
    async def main() -> None:
        large = request(18, 0, b"\0" * 2000)
        async with serving(most=1000) as served, peer(served.sasl) as client, peer(served.sasl) as hostile:
            hostile.send(large)
            assert await hostile.closed()
            await log_in(client)
            client.send(large)
            assert response_error(await client.frame()) == (7, 0)

    run_loop(asyncio.wait_for(main(), 30))


def test_what_is_held_before_a_login_takes_no_memory_from_clients() -> None:
    async def main() -> None:
        limits = AcceptorLimits(request_memory=1 << 20, login_memory=256 * 1024)
        async with AsyncExitStack() as stack:
            served = await stack.enter_async_context(serving(limits=limits))
            client = await stack.enter_async_context(peer(served.sasl))
            assert (await log_in(client)).error_code == 0
            strangers = [await stack.enter_async_context(peer(served.sasl)) for _ in range(20)]
            for each in strangers:
                each.writer.write(struct.pack(">i", 400_000) + b"\0" * 100_000)
            pool = served.acceptor.login_pool
            await until(lambda: any(each.starved for each in served.acceptor.connections))
            assert pool.in_use <= limits.login_memory + 2 * 128 * 1024 + 20 * FLOOR_CAPACITY
            assert served.acceptor.pool.in_use == 0
            large = request(18, 0, b"\0" * 600_000)
            client.send(large)
            assert response_error(await client.frame()) == (7, 0)
            # Those that hold much give way to those that hold less.
            late = await stack.enter_async_context(peer(served.sasl))
            late.send(bytes(handshake()))
            await late.frame()
            late.send(bytes(token(b"\0alice\0" + b"a" * 20_000)))
            assert len(await late.frame()) > 4
            assert pool.in_use <= limits.login_memory + 2 * 128 * 1024 + 20 * FLOOR_CAPACITY

    run_loop(asyncio.wait_for(main(), 30))


class WaitingRates(ConnectionRates):
    """Rates under which each connection waits for a tenth of a second."""

    def admit(self, listener: str, address: str, now_ms: int, *, protected: bool = False) -> Admission:
        return Admission(100, None)


def test_the_time_in_the_queue_of_new_connections_is_no_time_of_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "DEADLINE_S", 0.0)
    monkeypatch.setattr(authentication, "LOOK_S", 0.01)

    async def main() -> None:
        async with serving() as served:
            served.acceptor.admission.rates = {BROKER: WaitingRates(Window(2, 1000))}
            async with peer(served.sasl) as client:
                await until(lambda: bool(served.acceptor.connections))
                (connection,) = served.acceptor.connections
                await until(lambda: connection.closing)
                assert not connection.delayed, "it was read before it was closed"
                assert await client.closed()

    run_loop(asyncio.wait_for(main(), 30))


def test_who_does_not_finish_in_time_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "DEADLINE_S", 0.05)
    monkeypatch.setattr(authentication, "LOOK_S", 0.01)

    async def main() -> None:
        async with serving() as served, peer(served.sasl) as idle, peer(served.sasl) as half, peer(served.sasl) as client:
            await log_in(client)
            half.send(bytes(handshake()))
            await half.frame()
            assert await half.closed()
            assert await idle.closed()
            client.send(METADATA)
            await client.frame()

    run_loop(asyncio.wait_for(main(), 30))


def test_a_session_that_is_over_is_closed_at_its_next_request_unless_it_begins_again() -> None:
    async def main() -> None:
        async with serving(reauth_ms=200) as served, peer(served.sasl) as late, peer(served.sasl) as client:
            assert (await log_in(client)).session_lifetime_ms == 200
            assert (await log_in(late)).session_lifetime_ms == 200
            end = time.monotonic() + 0.2  # as the node counts; uvloop's time is older
            late.send(METADATA)
            await late.frame()
            await until(lambda: time.monotonic() > end)
            late.send(METADATA)
            assert await late.closed()
            assert (await log_in(client)).error_code == 0
            client.send(METADATA)
            await client.frame()

    run_loop(asyncio.wait_for(main(), 30))


def test_a_handshake_after_a_login_without_an_end_is_out_of_turn() -> None:
    async def main() -> None:
        async with serving() as served, peer(served.sasl) as client:
            await log_in(client)
            client.send(bytes(handshake()))
            assert response_error(await client.frame()) == (7, ErrorCode.ILLEGAL_SASL_STATE)

    run_loop(asyncio.wait_for(main(), 30))


def test_connections_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "LOOK_S", 0.01)

    async def main() -> None:
        async with serving() as served:
            async with peer(served.sasl):
                await until(lambda: served.frames.waiting == 1)
            await until(lambda: served.frames.waiting == 0)

    run_loop(asyncio.wait_for(main(), 30))
