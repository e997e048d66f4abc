"""Short slices of the campaigns that kill brokers and fail their disks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaigns import cluster_faults, failing_directories, kills, power_cuts


def test_nothing_acked_is_lost_or_doubled_by_a_few_kills(tmp_path: Path) -> None:
    assert kills.campaign(3, 1, tmp_path, 300) == []


@pytest.mark.long
def test_a_file_system_that_is_cut_off_takes_nothing_acknowledged_along(tmp_path: Path) -> None:
    reason = failing_directories.unavailable()
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")
    assert failing_directories.one_failure("shut down", 1, tmp_path) == []
    (tmp_path / "last").mkdir()
    assert failing_directories.last_failure("full", tmp_path / "last") == []


@pytest.mark.long
@pytest.mark.timeout(240)
def test_forty_embedded_brokers_start_and_leave_nothing_behind() -> None:
    # In a separate process: brokers of other tests' fixtures may start threads in this process at the same time.
    command = [sys.executable, "-m", "tests.campaigns.embedded_starts", "--count", "40", "--seed", "7", "--processes", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("40 starts (")
    assert re.search(r"[1-9]\d* process, ", done.stdout)


@pytest.mark.long
def test_a_few_power_cuts(tmp_path: Path) -> None:
    lacking = power_cuts.why_not()
    if lacking:
        pytest.skip(lacking)
    assert power_cuts.campaign(6, 1, tmp_path, 300) == []


@pytest.mark.long
def test_nothing_acked_is_lost_or_doubled_by_a_kill_and_a_pause_of_nodes_of_a_cluster(tmp_path: Path) -> None:
    plan = cluster_faults.Plan("kill,pause", 2, seed=1, spread_s=0.3, times=cluster_faults.Times(pause=(1.5, 2.0)))
    assert cluster_faults.campaign(plan, tmp_path) == []
