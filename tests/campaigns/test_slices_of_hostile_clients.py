"""Short slices of the campaigns of hostile clients."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.campaigns import hostile, hostile_descriptors, hostile_flood, hostile_rows, slow_readers


def test_a_few_hostile_frames_hurt_nobody(tmp_path: Path) -> None:
    assert hostile.campaign(150, 1, tmp_path) == []


@pytest.mark.long
def test_some_frames_logins_and_half_handshakes_side_by_side_hurt_nobody(tmp_path: Path) -> None:
    shares = {"frames": 80, "frames over TLS": 5, "logins": 14, "garbage": 1}
    # A test beside others does not judge the neighbour's latency.
    plan = hostile_flood.Plan(1_000, shares, crowd=30, slower=math.inf, quiet_s=0.5)
    problems, seen = hostile_flood.one_round(plan, 1, tmp_path)
    assert problems == []
    assert seen.frames >= 950
    assert seen.counts["answered"] > 500
    assert seen.counts["logins"] > 100


@pytest.mark.long
def test_idle_clients_do_not_use_up_the_descriptors_of_a_broker(tmp_path: Path) -> None:
    # Without a limit of time, and with the records of one round.
    assert hostile_descriptors.campaign(hostile_descriptors.Plan(256, rounds=1, longest_s=math.inf), tmp_path) == []


def test_names_that_are_repeated_cost_a_broker_little(tmp_path: Path) -> None:
    # A test beside others does not judge the neighbour's latency.
    options = hostile_rows.arguments(["--rows", "repeats", "--times", "300", "--longest", "inf"])
    assert hostile_rows.run(options, tmp_path) == []


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["records", "answers"])
def test_a_few_hundred_slow_readers_harm_nobody_and_leave_no_memory_behind(tmp_path: Path, kind: str) -> None:
    # A test beside others does not judge the neighbour's speed: the neighbour has to get the right bytes.
    plan = slow_readers.Plan(400, kind, patient=6, hold_s=0, rounds=5, least_speed=0, deadline_s=60, pause_s=0.2)
    assert slow_readers.campaign(plan, 1, tmp_path) == []
