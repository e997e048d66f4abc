"""Requests of answers that wait have a bound in bytes; those beyond it are not decoded until there is room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.server.requests.held_requests import HeldRequests
from tests.clock import ManualClock

MOST = 100_000
ASKED, OTHER = 35, 9


class Peer:
    """A connection whose request is decoded when it goes on."""

    def __init__(self, went_on: list[Peer], decode: Callable[[], object] = lambda: None) -> None:
        self.closed = False
        self._went_on = went_on
        self._decode = decode

    def go_on(self) -> None:
        self._went_on.append(self)
        self._decode()


class Waiting:
    """Held requests and the connections that have gone on."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests = HeldRequests(self.clock, MOST)
        self.went_on: list[Peer] = []

    def ask(self, size: int, api_key: int = ASKED) -> Peer | None:
        """Return the connection if the request is held; otherwise it is decoded and its answer waits."""
        peer = Peer(self.went_on, lambda: self.ask(size, api_key))
        if self.requests.hold(peer, api_key, size):
            return peer
        self.requests.begin(api_key, size)
        return None

    def held(self, size: int) -> Peer:
        peer = self.ask(size)
        assert peer is not None
        return peer


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_requests_beyond_the_bound_are_held_and_go_on_in_their_order(waiting: Waiting) -> None:
    assert waiting.ask(MOST // 2) is None
    assert waiting.ask(MOST // 2) is None
    first, second, third = waiting.held(MOST // 2), waiting.held(MOST // 2), waiting.held(MOST // 2)
    waiting.clock.turn()
    assert waiting.went_on == []
    for went_on in ([first], [first, second], [first, second, third]):
        waiting.requests.end(ASKED, MOST // 2)
        waiting.clock.turn()
        assert waiting.went_on == went_on
    waiting.requests.end(ASKED, MOST // 2)
    assert waiting.requests.waiting
    waiting.requests.end(ASKED, MOST // 2)
    assert not waiting.requests.waiting


def test_a_request_larger_than_the_bound_goes_on_alone(waiting: Waiting) -> None:
    assert waiting.ask(10) is None
    large = waiting.held(5 * MOST)
    waiting.requests.end(ASKED, 10)
    waiting.clock.turn()
    assert waiting.went_on == [large]
    waiting.held(10)


def test_several_go_on_when_there_is_room_for_them(waiting: Waiting) -> None:
    assert waiting.ask(MOST) is None
    held = [waiting.held(MOST // 4) for _ in range(5)]
    waiting.requests.end(ASKED, MOST)
    waiting.clock.turn()
    assert waiting.went_on == held[:4]


def test_other_apis_have_a_bound_of_their_own(waiting: Waiting) -> None:
    assert waiting.ask(MOST) is None
    waiting.held(10)
    assert waiting.ask(MOST, OTHER) is None
    waiting.requests.end(OTHER, MOST)
    waiting.clock.turn()
    assert waiting.went_on == []


def test_many_small_requests_have_a_bound(waiting: Waiting) -> None:
    taken = 0
    while waiting.ask(1) is None:
        taken += 1
        assert taken < 1000


def test_connections_that_are_gone_leave_their_place(waiting: Waiting) -> None:
    assert waiting.ask(MOST) is None
    gone, other = waiting.held(MOST), waiting.held(MOST)
    gone.closed = True
    waiting.requests.end(ASKED, MOST)
    waiting.clock.turn()
    assert waiting.went_on == [other]


def test_connections_that_come_and_go_are_forgotten_while_nothing_is_answered(waiting: Waiting) -> None:
    class Counted(Peer):
        alive = 0

        def __init__(self, went_on: list[Peer]) -> None:
            super().__init__(went_on)
            Counted.alive += 1

        def __del__(self) -> None:
            Counted.alive -= 1

    assert waiting.ask(MOST) is None
    stays = [waiting.held(MOST) for _ in range(100)]

    def comes_and_goes() -> None:
        peer = Counted(waiting.went_on)
        assert waiting.requests.hold(peer, ASKED, MOST)
        peer.closed = True

    for _ in range(3000):
        comes_and_goes()
    assert Counted.alive < 300
    waiting.requests.end(ASKED, MOST)
    for went_on in range(1, 101):
        waiting.clock.turn()
        assert waiting.went_on == stays[:went_on]
        waiting.requests.end(ASKED, MOST)


def test_a_turn_that_has_taken_long_leaves_the_rest_to_the_next(waiting: Waiting) -> None:
    def slow() -> None:
        waiting.clock.now_s += 1

    assert waiting.ask(MOST) is None
    for _ in range(3):
        assert waiting.requests.hold(Peer(waiting.went_on, slow), ASKED, 10)
    waiting.requests.end(ASKED, MOST)
    for count in (1, 2, 3):
        waiting.clock.turn()
        assert len(waiting.went_on) == count
    assert not waiting.requests.waiting
