"""Quotas of replication: which replicas they hold for, and when too much was moved."""

from __future__ import annotations

import pytest

from odradek.quotas.replication import ReplicationQuota
from odradek.quotas.samples import Window

T0 = 10**9


def quota(rate: int | None = None) -> ReplicationQuota:
    made = ReplicationQuota(Window(11, 1000))
    if rate is not None:
        made.limit(rate)
    return made


@pytest.mark.parametrize(
    ("replicas", "held"),
    [("*", {0, 1, 2}), ("0:1,1:2,2:1", {0, 2}), (" 1:1 , 2:3", {1}), ("0:2", set[int]()), ("", set[int]())],
)
def test_it_holds_for_the_replicas_that_the_topic_names(replicas: str, held: set[int]) -> None:
    made = quota(1)
    made.throttle("t", replicas, 1)
    assert {partition for partition in range(3) if made.holds_for("t", partition)} == held
    assert not made.holds_for("other", 0)
    assert not made.holds_for(None, 0)
    assert made.limited == bool(held)


def test_without_a_rate_nobody_is_held_back() -> None:
    made = quota()
    made.throttle("t", "*", 1)
    assert not made.limited
    made.limit(1000)
    assert made.limited
    made.throttle("t", "", 1)
    assert not made.limited


def test_what_is_too_much_counts_and_the_next_waits() -> None:
    made = quota(1000)
    made.record(900, T0)
    assert not made.exceeded(T0)
    made.record(5000, T0)
    assert made.exceeded(T0)
    assert made.exceeded(T0 + 5000)
    assert not made.exceeded(T0 + 5900)
