"""A slice of the campaign that tests the history checker."""

from __future__ import annotations

from tests.campaigns import history
from tests.campaigns.history_seeds import SEEDS


def test_clean_histories_are_clean_and_each_anomaly_is_named() -> None:
    run = history.campaign(12, 1)
    assert run.false == []
    assert run.missed == []
    assert set(run.seeded) == set(SEEDS)
