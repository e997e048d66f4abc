"""Short slices of the campaigns of groups, transactions and whole clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import cluster, coordinator_interleavings, coordinator_moves, crash_states, rebalances


def test_a_few_hundred_crash_states_of_the_log_layer() -> None:
    run = crash_states.campaign(300, 1, per_step=1)
    assert run.failures == []
    assert run.states >= 300


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_few_rebalances(tmp_path: Path, protocol: str) -> None:
    assert rebalances.campaign(10, protocol, 1, tmp_path, groups=3) == []


@pytest.mark.parametrize(("core", "count"), [("classic", 300), ("consumer", 200), ("transaction", 500)])
def test_some_interleavings_of_coordinators(core: str, count: int) -> None:
    run = coordinator_interleavings.campaign([core], 7, range(count))
    assert run.failures == []
    assert run.counts["replays"] > count


def test_a_few_stories_of_whole_clusters() -> None:
    played = list(cluster.campaign(range(1, 3), seconds=8))
    assert [(each.seed, each.problems) for each in played if each.problems] == []
    assert sum(each.virtual_s for each in played) > 50


def test_a_few_moves_of_coordinators_between_brokers() -> None:
    problems, told = coordinator_moves.campaign(1, 8)
    assert problems == []
    assert told > 8, "the stories have come to a standstill"
