"""Waiting a moment at a time: what is passed on, and when it ends."""

from __future__ import annotations

import time

import pytest

from odradek.client.calls import waiting


def test_it_waits_until_it_is_so() -> None:
    answers = iter([False, False, True])
    assert waiting.wait_in_moments(lambda _: next(answers))


@pytest.mark.timeout(10)
def test_a_timeout_ends_it_and_no_moment_reaches_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    moments: list[float] = []

    def wait(seconds: float) -> bool:
        nonlocal now
        moments.append(seconds)
        now += seconds
        return False

    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert not waiting.wait_in_moments(wait, 1.2)
    assert sum(moments) == pytest.approx(1.2)
    assert max(moments) < 1


def test_no_time_looks_once() -> None:
    moments: list[float] = []
    assert not waiting.wait_in_moments(lambda seconds: bool(moments.append(seconds)), 0)
    assert moments == [0.0]
    assert waiting.wait_in_moments(lambda _: True, -1)
