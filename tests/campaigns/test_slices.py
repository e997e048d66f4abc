"""A short slice of the campaigns that run against a broker process; the others have theirs beside the rooms they search."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import (
    cluster,
    cluster_faults,
    coordinator_interleavings,
    coordinator_moves,
    crash_states,
    exactly_once,
    failing_directories,
    hostile,
    hostile_flood,
    kills,
    power_cuts,
    rebalances,
    slow_readers,
)


def test_nothing_acked_is_lost_or_doubled_by_a_few_kills(tmp_path: Path) -> None:
    assert kills.campaign(3, 1, tmp_path, 300) == []


def test_a_file_system_that_is_cut_off_takes_nothing_acknowledged_along(tmp_path: Path) -> None:
    reason = failing_directories.unavailable()
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")
    assert failing_directories.one_failure("shut down", 1, tmp_path) == []
    (tmp_path / "last").mkdir()
    assert failing_directories.last_failure("full", tmp_path / "last") == []


@pytest.mark.timeout(240)
def test_a_hundred_embedded_brokers_start_and_leave_nothing_behind() -> None:
    # In a process of its own: brokers of other tests' fixtures may start threads meanwhile in this one.
    command = [sys.executable, "-m", "tests.campaigns.embedded_starts", "--count", "100", "--seed", "7", "--processes", "25"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("100 starts (")
    assert re.search(r"[1-9]\d* process, ", done.stdout)


def test_a_few_hostile_frames_hurt_nobody(tmp_path: Path) -> None:
    assert hostile.campaign(150, 1, tmp_path) == []


def test_some_frames_logins_and_half_handshakes_side_by_side_hurt_nobody(tmp_path: Path) -> None:
    shares = {"frames": 80, "frames over TLS": 5, "logins": 14, "garbage": 1}
    # How long the neighbour waits is no business of a test beside others.
    plan = hostile_flood.Plan(1_000, shares, crowd=30, slower=math.inf, quiet_s=0.5)
    problems, seen = hostile_flood.one_round(plan, 1, tmp_path)
    assert problems == []
    assert seen.frames >= 950
    assert seen.counts["answered"] > 500
    assert seen.counts["logins"] > 100


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["records", "answers"])
def test_a_few_hundred_slow_readers_harm_nobody_and_leave_no_memory_behind(tmp_path: Path, kind: str) -> None:
    # How fast the neighbour is, is no business of a test beside others: it has to be answered, and with the right bytes.
    plan = slow_readers.Plan(400, kind, patient=6, hold_s=0, rounds=5, least_speed=0, deadline_s=60, pause_s=0.2)
    assert slow_readers.campaign(plan, 1, tmp_path) == []


def test_a_few_hundred_crash_states_of_the_log_layer() -> None:
    run = crash_states.campaign(1000, 1)
    assert run.failures == []
    assert run.states >= 1000


def test_a_few_power_cuts(tmp_path: Path) -> None:
    lacking = power_cuts.why_not()
    if lacking:
        pytest.skip(lacking)
    assert power_cuts.campaign(6, 1, tmp_path, 300) == []


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_few_rebalances(tmp_path: Path, protocol: str) -> None:
    assert rebalances.campaign(10, protocol, 1, tmp_path, groups=3) == []


@pytest.mark.timeout(150)
@pytest.mark.parametrize("client", ["librdkafka", "odradek"])
def test_everything_is_copied_exactly_once_in_spite_of_a_few_kills(tmp_path: Path, client: str) -> None:
    plan = exactly_once.Plan(
        5_000, client=client, rate=700, kill_copier_every=2, kill_broker_every=2.5, transaction_timeout_ms=4_000, batch=100, most=2
    )
    problems, disruptions = exactly_once.campaign(plan, tmp_path)
    assert problems == []
    assert disruptions.copier_kills + disruptions.zombies >= 1
    assert disruptions.broker_kills >= 1


@pytest.mark.parametrize(("core", "count"), [("classic", 300), ("consumer", 200), ("transaction", 500)])
def test_some_interleavings_of_coordinators(core: str, count: int) -> None:
    run = coordinator_interleavings.campaign([core], 7, range(count))
    assert run.failures == []
    assert run.counts["replays"] > count


def test_a_few_stories_of_whole_clusters() -> None:
    played = list(cluster.campaign(range(1, 5), seconds=8))
    assert [(each.seed, each.problems) for each in played if each.problems] == []
    assert sum(each.virtual_s for each in played) > 100


def test_a_few_moves_of_coordinators_between_brokers() -> None:
    problems, told = coordinator_moves.campaign(1, 8)
    assert problems == []
    assert told > 8, "the stories have come to a standstill"


def test_nothing_acked_is_lost_or_doubled_by_a_kill_and_a_pause_of_nodes_of_a_cluster(tmp_path: Path) -> None:
    plan = cluster_faults.Plan("kill,pause", 2, seed=1, spread_s=0.3, times=cluster_faults.Times(pause=(1.5, 2.0)))
    assert cluster_faults.campaign(plan, tmp_path) == []
