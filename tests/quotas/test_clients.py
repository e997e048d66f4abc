"""What clients have used: who has to wait, for how long, and that no more is kept of them than has to be."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.quotas import clients
from odradek.quotas.clients import IDLE_MS, ClientRates
from odradek.quotas.entities import DEFAULT, Name, Owner, QuotaKind
from odradek.quotas.managers import ClientQuotas, address_changes
from odradek.quotas.mutations import MutationRates
from odradek.quotas.samples import UNLIMITED, Window

WINDOW = Window(11, 1000)
T0 = 10**12


def rates(kind: QuotaKind = QuotaKind.PRODUCE, *quotas: tuple[Name, Name, float]) -> ClientRates:
    made = ClientRates(kind, WINDOW)
    for user, client_id, limit in quotas:
        made.usages.table.update(user, client_id, limit)
    made.usages.settle()
    return made


def test_without_a_quota_nothing_is_kept() -> None:
    made = rates()
    assert made.record("u", "c", 1e9, T0) == 0
    made.note("u", "c", 1e9, T0)
    assert len(made.usages) == 0
    assert not made.enabled
    assert made.most_at_once("u", "c", T0) == float("inf")


def test_a_client_that_keeps_what_it_is_told_settles_at_its_quota() -> None:
    made, now, sent = rates(QuotaKind.PRODUCE, (None, DEFAULT, 1000.0)), T0, 0
    for _ in range(400):
        sent += 300
        now += made.record("u", "c", 300, now) + 1
    assert sent / ((now - T0) / 1000) == pytest.approx(1000, rel=0.1)


def test_those_who_share_a_quota_share_its_rate() -> None:
    made = rates(QuotaKind.PRODUCE, ("u", None, 1000.0))
    assert made.record("u", "one", 10_000, T0) == 0
    assert made.record("u", "two", 1_000, T0) == 1000
    assert made.record("v", "one", 10**9, T0) == 0


def test_time_is_throttled_for_no_longer_than_a_sample() -> None:
    made = rates(QuotaKind.REQUEST, ("u", None, 1.0))
    assert made.record("u", "c", 5000, T0) == 1000
    assert rates(QuotaKind.FETCH, ("u", None, 1.0)).record("u", "c", 5000, T0) > 1000


def test_what_was_used_stays_known_when_the_quota_changes() -> None:
    made = rates(QuotaKind.FETCH, ("u", None, 1e6))
    assert made.record("u", "c", 20_000, T0) == 0
    made.usages.table.update("u", None, 1000.0)
    made.usages.settle()
    assert made.record("u", "c", 0, T0) == 10_000


def test_most_at_once_is_what_a_window_holds() -> None:
    made = rates(QuotaKind.FETCH, ("u", None, 1000.0))
    assert made.most_at_once("u", "c", T0) == 10_000
    assert made.record("u", "c", 10_000, T0) == 0
    assert made.most_at_once("v", "c", T0) == float("inf")


def test_idle_clients_are_forgotten_and_no_more_than_so_many_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_OWNERS", 100)
    made = rates(QuotaKind.PRODUCE, (None, DEFAULT, 1000.0))
    for number in range(1000):
        made.record("u", f"c{number}", 1, T0 + number)
        assert len(made.usages) <= 100
    assert made.record("u", "c999", 20_000, T0 + 1000) > 0, "the latest are known still"
    made.record("u", "new", 1, T0 + IDLE_MS + 1001)
    assert [owner for owner, _ in made.usages] == [Owner("", "new")]
    assert made.record("u", "new", 1, T0 + 2 * IDLE_MS + 1003) == 0


def test_long_names_take_the_place_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_CHARACTERS", 10_000)
    made = rates(QuotaKind.PRODUCE, (None, DEFAULT, 1000.0))
    for number in range(300):
        made.record("u", f"{number}".rjust(1000, "x"), 1, T0)
        assert len(made.usages) <= 10
    for number in range(300):
        made.record("u", f"{number}", 1, T0)
    assert len(made.usages) >= 300


def test_the_one_that_was_used_least_recently_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_OWNERS", 2)
    made = rates(QuotaKind.PRODUCE, (None, DEFAULT, 1000.0))
    for name in ("a", "b", "a", "c"):
        made.record("u", name, 1, T0)
    assert [owner.client_id for owner, _ in made.usages] == ["a", "c"]


def test_a_quota_that_comes_back_finds_what_was_used() -> None:
    made = rates(QuotaKind.PRODUCE, ("u", None, 100.0))
    made.record("u", "c", 2000, T0)
    for limit in (None, 100.0):
        made.usages.table.update("u", None, limit)
        made.usages.settle()
        assert made.enabled == (limit is not None)
    assert made.record("u", "c", 0, T0) == 10_000


# -- mutations ----------------------------------------------------------------------------------------------------------------------------


def mutations(limit: float = 2.0) -> MutationRates:
    made = MutationRates(WINDOW)
    made.usages.table.update("u", None, limit)
    made.usages.settle()
    return made


def test_a_strict_quota_lets_one_request_go_beyond_and_refuses_the_next() -> None:
    made = mutations()
    first = made.quota_for("u", "c", T0, strict=True)
    assert first is not None
    first.record(30, T0)  # of 22
    assert first.throttle_ms(T0) == 0
    with pytest.raises(KafkaError) as refused:
        first.record(1, T0)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first.throttle_ms(T0) == 4000
    assert first.throttle_ms(T0 + 1500) == 2500
    later = made.quota_for("u", "c", T0 + 4000, strict=True)
    assert later is not None
    later.record(1, T0 + 4000)  # nothing is owed any more, and what was refused was not counted


def test_a_permissive_quota_refuses_nothing_and_has_the_client_wait() -> None:
    made = mutations()
    quota = made.quota_for("u", "c", T0, strict=False)
    assert quota is not None
    quota.record(22, T0)
    assert quota.throttle_ms(T0) == 0
    quota.record(5, T0)
    quota.record(1, T0)
    assert quota.throttle_ms(T0) == 3000


def test_nobody_has_a_mutation_quota_while_there_is_none() -> None:
    assert MutationRates(WINDOW).quota_for("u", "c", T0, strict=True) is None
    other = mutations().quota_for("v", "c", T0, strict=True)
    assert other is not None
    for _ in range(100):
        other.record(1000, T0)


# -- all of them --------------------------------------------------------------------------------------------------------------------------


def test_quotas_are_those_that_the_metadata_has() -> None:
    quotas = ClientQuotas(WINDOW, WINDOW)
    alice, anybody = (("user", "alice"),), (("client-id", None), ("user", None))
    quotas.apply(
        {
            alice: {"producer_byte_rate": 1000.0, "unknown": 1.0},
            anybody: {"request_percentage": 50.0},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
            (("group", "g"),): {"producer_byte_rate": 1.0},
            (): {"producer_byte_rate": 1.0},
        }
    )
    assert (quotas.produce.enabled, quotas.fetch.enabled, quotas.request.enabled, quotas.mutation.enabled) == (True, False, True, False)
    assert quotas.produce.record("alice", "c", 20_000, T0) == 10_000
    assert quotas.request.record("bob", "c", 505, T0) == 100
    quotas.apply({alice: {"producer_byte_rate": None}, anybody: {"request_percentage": None}})
    assert not quotas.enabled


def test_rates_of_addresses_are_told_apart() -> None:
    changes = {
        (("ip", "::ffff:10.0.0.1"),): {"connection_creation_rate": 3.0},
        (("ip", None),): {"connection_creation_rate": None},
        (("ip", "some.host"),): {"connection_creation_rate": 4.0},
        (("user", "u"),): {"connection_creation_rate": 5.0},
    }
    assert list(address_changes(changes)) == [("10.0.0.1", 3), (None, None)]


def test_random_changes_leave_everybody_with_the_limit_of_the_table() -> None:
    rng = random.Random(8)
    made, names = rates(), [None, DEFAULT, "a", "b"]
    for step in range(400):
        user, client_id = rng.choice(names), rng.choice(names)
        if user is not None or client_id is not None:
            made.usages.table.update(user, client_id, rng.choice([None, float(rng.randrange(1, 9))]))
            made.usages.settle()
        made.record(rng.choice("abc"), rng.choice("abc"), 1, T0 + step)
        for owner, usage in made.usages:
            found = made.usages.table.limit(owner)
            assert usage.limit == (UNLIMITED if found is None else found)
