"""Who is fenced when a heartbeat connection ends, and who is not."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from odradek.base.clock import READING_TURNS
from odradek.base.deferred import Deferred
from odradek.server.clock import LoopClock
from odradek.server.cluster.disconnects import HeartbeatConnections
from odradek.server.start.process import run_loop
from tests.server.disconnect_support import DisconnectsWorld
from tests.waiting import until


@pytest.fixture
def world() -> DisconnectsWorld:
    return DisconnectsWorld()


def test_a_broker_is_fenced_a_second_after_its_connection_ended(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(2, 6, "b")
    world.clock.advance_s(1.9)
    world.connections.disconnected("a")
    world.clock.advance_s(0.9)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]
    world.connections.disconnected("a")
    world.clock.advance_s(10)
    assert world.fenced == [(1, 5)]


def test_nobody_is_fenced_before_the_next_heartbeat_is_overdue(world: DisconnectsWorld) -> None:
    """A broker that is well may notice with its next heartbeat only that the connection has ended."""
    world.beat(1, 5, "a")
    world.clock.advance_s(0.1)
    world.connections.disconnected("a")
    world.clock.advance_s(2.3)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


def test_who_comes_back_in_time_is_not(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.clock.advance_s(2.4)
    world.beat(1, 5, "b")
    world.clock.advance_s(10)
    assert world.fenced == []
    world.connections.disconnected("b")
    world.clock.advance_s(1.1)
    assert world.fenced == [(1, 5)]


def test_the_end_of_a_connection_that_is_no_longer_used_means_nothing(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(1, 5, "b")
    world.connections.disconnected("a")
    world.connections.disconnected("of somebody else")
    world.clock.advance_s(10)
    assert world.fenced == []
    world.connections.disconnected("b")
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 5)]


def test_a_connection_that_is_used_again_counts_again(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(1, 5, "b")
    world.beat(1, 5, "a")
    world.connections.disconnected("b")
    world.clock.advance_s(10)
    assert world.fenced == []
    world.connections.disconnected("a")
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 5)]


def test_a_life_that_beat_after_the_other_is_the_one_that_counts(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(1, 8, "b")
    world.connections.disconnected("b")
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 8)]


def test_who_is_no_controller_any_more_cannot_fence(world: DisconnectsWorld) -> None:
    world.beat(9, 5, "a")
    world.connections.disconnected("a")
    world.clock.advance_s(2.6)
    assert world.fenced == [(9, 5)]


# -- who did not listen may not judge ------------------------------------------------------------------------------------------------------


def test_time_in_which_the_loop_stood_still_is_given_back(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.clock.advance_s(3)
    world.connections.disconnected("a")
    world.clock.advance_s(0.4)
    world.clock.stall_s(0.5)
    world.clock.advance_s(0.45)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


@pytest.mark.parametrize("timers_first", [False, True])
def test_after_a_stall_nobody_is_judged_for_as_long_again(world: DisconnectsWorld, timers_first: bool) -> None:
    """Those who found nobody listening back off for longer and longer. The end of the connection is read with all the rest."""
    world.beat(1, 5, "a")
    world.clock.advance_s(3)
    world.clock.stall_s(6)
    if timers_first:
        world.clock.run_due()
    world.connections.disconnected("a")
    world.clock.advance_s(5.7)
    assert world.fenced == []
    world.clock.advance_s(1.4)
    assert world.fenced == [(1, 5)]


@pytest.mark.parametrize(("runs_s", "stands_s", "judges"), [(0.4, 0.8, False), (0.8, 0.4, True), (0.2, 0.1, True)])
def test_a_loop_that_does_little_but_stand_still_does_not_judge(
    world: DisconnectsWorld, runs_s: float, stands_s: float, judges: bool
) -> None:
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    for _ in range(2):
        world.clock.advance_s(runs_s)
        world.clock.stall_s(stands_s)
    assert world.fenced == []
    for _ in range(20):
        world.clock.advance_s(runs_s)
        world.clock.stall_s(stands_s)
    assert world.fenced == [(1, 5)] * judges
    world.clock.advance_s(2.6)
    assert world.fenced == [(1, 5)]


@pytest.mark.parametrize("turns", range(READING_TURNS))
def test_what_waits_in_sockets_when_the_grace_time_is_over_counts(world: DisconnectsWorld, turns: int) -> None:
    """Loops run timers before they read."""
    for before, after in ("ab", "cd"):
        world.beat(1, 5, before)
        world.connections.disconnected(before)
        world.clock.advance_s(2.4)
        world.clock.stall_s(0.11)
        for _ in range(turns):
            world.clock.turn()
        world.beat(1, 5, after)
        world.clock.advance_s(10)
        assert world.fenced == []


def test_a_stall_while_sockets_are_read_counts(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.clock.advance_s(2.4)
    world.clock.stall_s(0.11)
    world.clock.turn()
    world.clock.stall_s(3)
    world.clock.advance_s(2.9)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


def test_a_heartbeat_that_the_controller_has_before_the_question_counts(world: DisconnectsWorld) -> None:
    """Its operations wait for the disk."""
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.held = []
    world.connections.arrived("b")
    world.clock.advance_s(3)
    assert len(world.held) == 1
    world.connections.heard(1, 5, "b")
    world.held[0]()
    assert world.fenced == []


def test_a_heartbeat_whose_connection_has_ended_gives_the_grace_time_anew_and_no_more(world: DisconnectsWorld) -> None:
    """A broker is killed while its heartbeat waits for its turn: over the connection that it had, or over its first."""
    world.beat(1, 5, "a")
    world.clock.advance_s(1.9)
    for connection in ("a", "b"):
        world.connections.arrived(connection)
        world.connections.disconnected(connection)
        world.clock.advance_s(0.05)
        world.connections.heard(1, 5, connection)
        world.clock.advance_s(2.4)
        assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


def test_nothing_is_fenced_for_what_was_heard_under_another_leader(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(2, 6, "b")
    world.connections.disconnected("a")
    world.connections.forget()
    world.connections.disconnected("b")
    world.clock.advance_s(10)
    assert world.fenced == []
    assert world.clock.pending == []


def test_a_question_under_way_is_void_under_the_next_leader(world: DisconnectsWorld) -> None:
    world.held = []
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.clock.advance_s(3)
    world.connections.forget()
    world.held[0]()
    assert world.fenced == []


def test_a_connection_that_stays_counts_under_the_next_leader(world: DisconnectsWorld) -> None:
    """A heartbeat came before the change and is worked off after it."""
    world.connections.arrived("a")
    world.connections.forget()
    world.connections.heard(1, 5, "a")
    world.clock.advance_s(10)
    assert world.fenced == []
    world.connections.disconnected("a")
    world.clock.advance_s(1.1)
    assert world.fenced == [(1, 5)]


def test_connections_that_have_ended_are_not_remembered(world: DisconnectsWorld) -> None:
    for number in range(100):
        connection = str(number)
        world.connections.arrived(connection)
        if number % 2:
            world.connections.heard(1, 5, connection)
        world.connections.disconnected(connection)
    assert world.connections.connections == 0


# -- brokers of which it is known that nobody listens there --------------------------------------------------------------------------------


def test_a_broker_where_nobody_listens_is_fenced_at_once(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.beat(2, 6, "b")
    assert world.looked_for == []
    world.connections.disconnected("a")
    ((broker, refused),) = world.looked_for
    assert (broker, world.fenced) == (1, [])
    refused.complete(True)
    assert world.fenced == [(1, 5)]
    world.clock.advance_s(10)
    assert world.fenced == [(1, 5)]


@pytest.mark.parametrize("failed", [False, True])
def test_a_broker_that_somebody_listens_for_has_its_grace_time(world: DisconnectsWorld, failed: bool) -> None:
    world.beat(1, 5, "a")
    world.clock.advance_s(1.9)
    world.connections.disconnected("a")
    if failed:
        world.looked_for[0][1].fail(OSError("no network"))
    else:
        world.looked_for[0][1].complete(False)
    world.clock.advance_s(0.9)
    assert world.fenced == []
    world.clock.advance_s(0.2)
    assert world.fenced == [(1, 5)]


def test_who_was_heard_of_since_is_not_fenced_for_a_refused_connection(world: DisconnectsWorld) -> None:
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.beat(1, 7, "b")
    world.connections.disconnected("b")
    (_, refused_before), (_, refused) = world.looked_for
    refused_before.complete(True)
    assert world.fenced == []
    refused.complete(False)
    world.clock.advance_s(10)
    assert world.fenced == [(1, 7)], "its grace time was not taken from it"


def test_the_question_about_a_refused_connection_is_asked_anew_among_the_operations(world: DisconnectsWorld) -> None:
    world.held = []
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.looked_for[0][1].complete(True)
    world.beat(1, 5, "b")
    for run in world.held:
        run()
    assert world.fenced == []


def test_what_was_looked_for_under_a_former_leader_means_nothing(world: DisconnectsWorld) -> None:
    world.held = []
    world.beat(1, 5, "a")
    world.connections.disconnected("a")
    world.connections.taken_over([(2, 6), (3, 7)])
    world.looked_for[2][1].complete(True)
    assert len(world.held) == 1
    world.connections.forget()
    world.looked_for[0][1].complete(True)
    world.looked_for[1][1].complete(True)
    for run in world.held:
        run()
    assert world.fenced == []


def test_a_new_controller_fences_those_it_takes_over_where_nobody_listens(world: DisconnectsWorld) -> None:
    world.beat(4, 8, "d")
    world.connections.taken_over([(1, 5), (2, 6), (3, 7), (4, 8)])
    assert [broker for broker, _ in world.looked_for] == [1, 2, 3]
    world.beat(2, 6, "b")
    for broker, answer in world.looked_for:
        answer.complete(broker != 3)
    assert world.fenced == [(1, 5)]
    world.clock.advance_s(10)
    assert world.fenced == [(1, 5)]


# -- on the loop of a process --------------------------------------------------------------------------------------------------------------


class _Heartbeats(asyncio.Protocol):
    """One connection of a broker 1, each byte of which is a heartbeat."""

    def __init__(self, connections: HeartbeatConnections, heard: list[str]) -> None:
        self.connections = connections
        self.heard = heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.name = str(transport.get_extra_info("peername")[1])

    def data_received(self, data: bytes) -> None:
        self.connections.arrived(self.name)
        self.connections.heard(1, 5, self.name)
        self.heard.append(self.name)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.disconnected(self.name)


def test_a_loop_that_was_busy_hears_first_what_came_meanwhile() -> None:
    """Over real sockets: the end of one connection, and another one that waits to be accepted, with its first heartbeat."""
    fenced: list[int] = []
    heard: list[str] = []

    def fence(broker_id: int, broker_epoch: int, is_back: Callable[[], bool]) -> Deferred[bool]:
        if not is_back():
            fenced.append(broker_id)
        return Deferred.of(not is_back())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        connections = HeartbeatConnections(LoopClock(loop), fence, lambda _: Deferred.of(False), 0.2, 0.0)
        server = await loop.create_server(lambda: _Heartbeats(connections, heard), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        with socket.create_connection(address) as first:
            first.sendall(b"1")
            await until(lambda: len(heard) == 1)
        await until(lambda: 1 in connections.missing)
        with socket.create_connection(address) as second:
            second.sendall(b"1")
            loop.call_soon(time.sleep, 0.5)
            await until(lambda: len(heard) == 2)
            assert fenced == []
            assert not connections.missing
        await until(lambda: 1 in fenced)
        server.close()

    run_loop(main())
