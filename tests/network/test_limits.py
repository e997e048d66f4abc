"""Limits that need no socket."""

from __future__ import annotations

import logging

import pytest

from odradek.network.limits import AcceptorLimits, QuietLog
from tests.clock import ManualClock


def test_peers_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = QuietLog(logging.getLogger("quiet"), clock, burst=3, interval_s=10)
    with caplog.at_level(logging.WARNING, "quiet"):
        for number in range(100):
            log.warning("closing %d", number)
        assert [record.getMessage() for record in caplog.records] == ["closing 0", "closing 1", "closing 2"]
        clock.advance_s(10)
        log.warning("closing %d", 100)
        log.warning("closing %d", 101)
    assert [record.getMessage() for record in caplog.records][3:] == ["closing 100 (and 97 more such messages suppressed)", "closing 101"]


def test_each_interval_has_its_own_lines_however_many_there_were_before(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = QuietLog(logging.getLogger("quiet"), clock, burst=2, interval_s=10)
    with caplog.at_level(logging.WARNING, "quiet"):
        for _ in range(3):
            for _ in range(5):
                log.warning("closing")
            clock.advance_s(10)
        for _ in range(2):
            log.warning("closing")
            clock.advance_s(5)
    held_back = "closing (and 3 more such messages suppressed)"
    assert [record.getMessage() for record in caplog.records] == ["closing", "closing", *[held_back, "closing"] * 3]


def test_an_address_may_have_a_limit_of_its_own() -> None:
    limits = AcceptorLimits(max_connections_per_ip=5, per_ip_overrides={"10.0.0.1": 2})
    assert (limits.for_ip("10.0.0.1"), limits.for_ip("10.0.0.2")) == (2, 5)
