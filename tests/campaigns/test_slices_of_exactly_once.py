"""Short slices of the campaign that copies records exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import exactly_once


@pytest.mark.long
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
