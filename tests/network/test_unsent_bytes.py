"""Answers that peers do not take: who gets smaller pieces, and who is closed when there is no room."""

from __future__ import annotations

from odradek.network.unsent_bytes import EXEMPT, LARGEST_CHUNK, PATIENCE_S, SMALLEST_CHUNK, UnsentBytes
from tests.clock import ManualClock
from tests.network.unsent_support import MIB, Peer

BUDGET = 8 * MIB
"""4 MiB for each kind."""


class UnsentBytesWorld:
    def __init__(self, budget: int = BUDGET) -> None:
        self.clock = ManualClock()
        self.closed: list[tuple[str, int]] = []
        self.unsent: UnsentBytes[Peer] = UnsentBytes(budget, self.clock, lambda peer, size: self.closed.append((peer.name, size)))

    def ask(self, name: str, size: int) -> Peer:
        peer = Peer(name)
        peer.left = size
        self.unsent.report(peer, size)
        return peer


def test_pieces_of_files_get_smaller_as_readers_stand_still_and_never_vanish() -> None:
    world = UnsentBytesWorld(64 * MIB)
    assert world.unsent.chunk_size() == LARGEST_CHUNK
    sizes = []
    for _ in range(5000):
        sizes.append(world.unsent.chunk_size())
        world.unsent.of_files += sizes[-1]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == SMALLEST_CHUNK
    assert sum(sizes) <= 32 * MIB + 5000 * SMALLEST_CHUNK
    world.unsent.of_files = 0
    assert world.unsent.chunk_size() == LARGEST_CHUNK


def test_answers_in_memory_do_not_make_pieces_smaller() -> None:
    world = UnsentBytesWorld(64 * MIB)
    world.ask("a", 20 * MIB)
    assert world.unsent.chunk_size() == LARGEST_CHUNK


def test_nobody_is_closed_while_there_is_room_however_long_it_stands_still() -> None:
    world = UnsentBytesWorld()
    world.ask("a", MIB)
    world.clock.advance_s(1000)
    world.ask("b", MIB)
    assert world.closed == []
    assert world.unsent.in_memory == 2 * MIB


def test_above_half_those_that_stood_still_for_long_are_closed_and_no_others() -> None:
    world = UnsentBytesWorld()
    world.ask("first", MIB)
    world.clock.advance_s(0.5)
    world.ask("second", MIB)
    world.clock.advance_s(PATIENCE_S - 0.5)
    world.ask("third", MIB)
    assert world.closed == [("first", MIB)]
    assert world.unsent.in_memory == 2 * MIB
    world.clock.advance_s(0.4)
    world.ask("fourth", MIB)
    assert world.closed == [("first", MIB)], "second has not stood still for long enough"
    assert world.unsent.in_memory == 3 * MIB


def test_above_all_of_it_those_that_stood_still_for_longest_are_closed_at_once() -> None:
    world = UnsentBytesWorld()
    for name in ("a", "b", "c", "d"):
        world.ask(name, MIB)
        world.clock.advance_s(0.1)
    assert world.closed == []
    world.ask("e", 2 * MIB)
    assert world.closed == [("a", MIB), ("b", MIB)]
    assert world.unsent.in_memory == world.unsent.most


def test_a_peer_that_takes_its_answer_slowly_outlives_those_that_take_nothing() -> None:
    world = UnsentBytesWorld()
    slow = world.ask("slow", MIB)
    world.ask("still", MIB)
    for number in range(20):
        world.clock.advance_s(PATIENCE_S)
        slow.left -= 1000
        world.ask(f"new {number}", MIB)
    assert "slow" not in [name for name, _ in world.closed]
    assert world.closed[0] == ("still", MIB)
    assert world.unsent.in_memory <= world.unsent.most


def test_when_all_take_something_the_budget_holds_nevertheless() -> None:
    world = UnsentBytesWorld()
    peers = [world.ask(str(number), MIB) for number in range(4)]
    world.clock.advance_s(1)
    for peer in peers:
        peer.left -= 1
    world.ask("more", MIB)
    assert len(world.closed) == 1
    assert world.unsent.in_memory == world.unsent.most


def test_an_answer_larger_than_the_budget_goes_out_alone() -> None:
    world = UnsentBytesWorld()
    world.ask("a", MIB)
    huge = world.ask("huge", 10 * MIB)
    assert world.closed == [("a", MIB)]
    world.unsent.report(huge, 0)
    assert world.unsent.in_memory == 0


def test_short_answers_count_for_nothing_and_close_nobody() -> None:
    world = UnsentBytesWorld()
    world.ask("large", 4 * MIB)
    world.clock.advance_s(PATIENCE_S)
    for number in range(1000):
        world.ask(f"short {number}", EXEMPT)
    assert world.closed == []
    assert world.unsent.in_memory == 4 * MIB
    world.ask("longer", EXEMPT + 1)
    assert world.closed == [("large", 4 * MIB)]


def test_what_was_taken_is_owed_no_more() -> None:
    world = UnsentBytesWorld()
    peer = world.ask("a", 3 * MIB)
    world.unsent.report(peer, MIB)
    assert world.unsent.in_memory == MIB
    world.unsent.report(peer, 0)
    world.unsent.report(peer, 0)
    assert world.unsent.in_memory == 0


def test_who_owes_less_than_before_closes_nobody() -> None:
    world = UnsentBytesWorld()
    still = world.ask("still", MIB)
    large = world.ask("large", 3 * MIB)
    world.clock.advance_s(PATIENCE_S)
    world.unsent.report(large, 2 * MIB)
    assert world.closed == []
    assert still.left == MIB


def test_who_owes_more_than_before_has_room_made_like_who_is_new() -> None:
    world = UnsentBytesWorld()
    world.ask("still", 2 * MIB)
    growing = world.ask("growing", MIB)
    assert world.closed == []
    growing.left = 3 * MIB
    world.unsent.report(growing, 3 * MIB)
    assert world.closed == [("still", 2 * MIB)]
    assert world.unsent.in_memory == 3 * MIB


def test_who_took_something_a_moment_ago_does_not_stand_still() -> None:
    world = UnsentBytesWorld()
    slow = world.ask("slow", 2 * MIB)
    world.clock.advance_s(PATIENCE_S)
    slow.left -= 1000
    world.ask("second", MIB)
    world.clock.advance_s(PATIENCE_S - 0.1)
    world.ask("third", MIB)
    assert world.closed == []
    world.clock.advance_s(PATIENCE_S)
    world.ask("fourth", EXEMPT + 1)
    assert world.closed[0] == ("slow", 2 * MIB)
