"""A short slice of the campaigns that run against a broker process; the others have theirs beside the rooms they search."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns import hostile, kills


def test_nothing_acked_is_lost_or_doubled_by_a_few_kills(tmp_path: Path) -> None:
    assert kills.campaign(3, 1, tmp_path, 300) == []


def test_a_few_hostile_frames_hurt_nobody(tmp_path: Path) -> None:
    assert hostile.campaign(500, 1, tmp_path) == []
