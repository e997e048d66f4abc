"""New connections: those beyond the rate of a listener or the broker wait, those beyond the rate of their address are closed."""

from __future__ import annotations

import itertools

import pytest

from odradek.quotas import connections
from odradek.quotas.connections import UNLIMITED_RATE, ConnectionRates
from odradek.quotas.samples import Window

WINDOW = Window(11, 1000)
T0 = 10**9


def test_connections_come_at_the_rate_of_the_broker() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_broker(5, {})
    begun = [rates.admit("A", "h", T0).read_after_ms for _ in range(150)]
    assert begun[:50] == [0] * 50, "a window's worth may come at once"
    assert begun == sorted(begun)
    assert 4 <= 150 / ((begun[-1] + 10_000) / 1000) <= 5


def test_those_behind_on_a_listener_wait_and_other_listeners_go_on() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_broker(UNLIMITED_RATE, {"A": 1})
    waits = [rates.admit("A", "h", T0).read_after_ms for _ in range(12)]
    assert waits[:10] == [0] * 10
    assert 0 < waits[10] < waits[11]
    assert rates.admit("B", "h", T0).read_after_ms == 0
    assert rates.admit("A", "h", T0 + waits[-1] + 60_000).read_after_ms == 0


def test_the_broker_s_rate_does_not_hold_where_it_must_not() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_broker(1, {"INTERNAL": UNLIMITED_RATE})
    assert all(rates.admit("INTERNAL", "h", T0, protected=True).read_after_ms == 0 for _ in range(100))
    assert rates.admit("A", "h", T0).read_after_ms == 0, "nor did those count"


def test_no_wait_is_longer_than_a_sample() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_broker(1, {})
    waits = [rates.admit("A", "h", T0).read_after_ms for _ in range(100)]
    assert max(later - earlier for earlier, later in itertools.pairwise(waits)) <= 1000


def test_what_was_closed_before_its_turn_did_not_count() -> None:
    rates, others = ConnectionRates(WINDOW), ConnectionRates(WINDOW)
    for each in (rates, others):
        each.limit_broker(2, {"A": 1})
        assert [each.admit("A", "h", T0).read_after_ms for _ in range(10)] == [0] * 10
    expected = [others.admit("A", "h", T0).read_after_ms, others.admit("B", "h", T0).read_after_ms]
    for _ in range(50):
        assert rates.admit("A", "h", T0).read_after_ms == expected[0]
        rates.give_back("A", T0)
    assert [rates.admit("A", "h", T0).read_after_ms, rates.admit("B", "h", T0).read_after_ms] == expected
    assert rates.admit("A", "h", T0).read_after_ms > expected[0]


def test_what_never_counted_for_the_broker_is_not_given_back_to_it() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_broker(1, {"INTERNAL": 1, "A": 100})
    for _ in range(20):
        rates.admit("INTERNAL", "h", T0, protected=True)
        rates.give_back("INTERNAL", T0, protected=True)
    assert sum(rates.admit("A", "h", T0).read_after_ms == 0 for _ in range(20)) == 10


def test_an_address_that_comes_too_often_is_closed_and_those_do_not_count() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_address("10.0.0.1", 2)
    assert rates.limited
    closed = [rates.admit("A", "10.0.0.1", T0).close_after_ms for _ in range(50)]
    assert closed[:20] == [None] * 20
    assert all(0 < (after or 0) <= 1000 for after in closed[20:])
    assert len(set(closed[20:])) == 1, "what is closed does not make the next wait longer"
    assert rates.admit("A", "10.0.0.2", T0).close_after_ms is None
    assert rates.admit("A", "10.0.0.1", T0 + 60_000).close_after_ms is None


def test_the_default_is_for_addresses_without_a_rate_of_their_own() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_address(None, 1)
    rates.limit_address("10.0.0.1", 1000)
    for address, most in (("10.0.0.2", 10), ("10.0.0.3", 10), ("10.0.0.1", 99)):
        admitted = [rates.admit("A", address, T0).close_after_ms is None for _ in range(99)]
        assert sum(admitted) == most
    rates.limit_address("10.0.0.2", 1000)
    assert rates.admit("A", "10.0.0.2", T0).close_after_ms is None
    rates.limit_address(None, None)
    rates.limit_address("10.0.0.1", None)
    rates.limit_address("10.0.0.2", None)
    assert not rates.limited


def test_no_more_addresses_are_known_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OWNERS", 10)
    rates = ConnectionRates(WINDOW)
    rates.limit_address(None, 1)
    for number in range(1000):
        rates.admit("A", f"10.0.{number // 256}.{number % 256}", T0 + number)
    assert len(rates._addresses) <= 10
