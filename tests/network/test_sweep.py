"""What the acceptor's sweep closes and frees, in virtual time."""

from __future__ import annotations

import asyncio

from odradek.network.acceptor import Acceptor, Listener
from odradek.network.limits import AcceptorLimits
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork
from tests.loops import in_virtual_time
from tests.network.support import FakeHandler, echo, framed

KIB = 1024


class Client(asyncio.Protocol):
    """Sends, and notes what came back and whether it was closed."""

    def __init__(self) -> None:
        self.received = 0
        self.closed = False

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True


class SweepWorld:
    def __init__(self, loop: SimulatedLoop, **limits: int | float) -> None:
        self._loop = loop
        self.acceptor = Acceptor(loop, SimulatedClock(loop), FakeHandler(echo), AcceptorLimits(**limits))  # type: ignore[arg-type]

    async def begin(self) -> None:
        await self.acceptor.serve(await self.acceptor.bind(Listener("PLAINTEXT", "broker", "broker", 9092)))

    async def client(self, data: bytes) -> tuple[asyncio.Transport, Client]:
        """A connection on which these bytes have arrived."""
        transport, client = await self._loop.create_connection(Client, "broker", 9092)
        transport.write(data)
        await asyncio.sleep(0.1)
        return transport, client


@in_virtual_time
async def test_idle_connections_are_closed_again_after_there_were_none(loop: SimulatedLoop) -> None:
    """When the last has gone nothing looks at connections any more, until there are others."""
    world = SweepWorld(loop, idle_s=10.0)
    await world.begin()
    for _ in range(3):
        _, idle = await world.client(b"")
        await asyncio.sleep(9)
        assert not idle.closed
        await asyncio.sleep(6)
        assert idle.closed
        assert not world.acceptor.connections
        await asyncio.sleep(100)


def test_a_peer_whose_frame_waits_for_our_memory_is_not_slow() -> None:
    async def story(loop: SimulatedLoop) -> None:
        world = SweepWorld(loop, request_memory=300 * KIB, request_size=10 * KIB * KIB, frame_grace_s=10.0, frame_min_rate=16 * KIB)
        await world.begin()
        large = framed(b"b" * 2 * KIB * KIB)
        # The first two have all the memory there is, for as long as their grace and rate allow.
        _, first = await world.client(large[: 250 * KIB])
        _, second = await world.client(large[: 300 * KIB])
        transport, third = await world.client(large[: 8 * KIB])
        await asyncio.sleep(18)
        assert [client.closed for client in (first, second, third)] == [False, False, False]
        await asyncio.sleep(25)
        assert first.closed
        assert second.closed
        assert not third.closed
        transport.write(large[8 * KIB :])
        await asyncio.sleep(5)
        assert third.received == len(large)
        await world.acceptor.close()

    # A real socket hands over no more than there is room for.
    run(story, VirtualNetwork(window=4 * KIB))


@in_virtual_time
async def test_memory_kept_for_the_next_takers_is_freed_also_when_nobody_is_left(loop: SimulatedLoop) -> None:
    world = SweepWorld(loop)
    await world.begin()
    transport, client = await world.client(framed(b"b" * 400 * KIB))
    assert client.received == 400 * KIB + 4
    assert world.acceptor.pool.retained > 0
    transport.abort()
    await asyncio.sleep(60)
    assert world.acceptor.pool.retained == 0
    await world.acceptor.close()
