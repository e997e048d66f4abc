"""A whole broker and several clients survive what a seed throws at them, and the same seed is the same story in every process."""

from __future__ import annotations

import pytest

from odradek.storage.flushing import Flush
from odradek.testing.simulation.disk import VirtualDisk, VirtualFile
from tests.simulation.processes import output_in_process
from tests.simulation.scenario import FLUSHED, KILLS, UNFLUSHED, play

_PLAY = "from tests.simulation.test_scenario import told; print(told(6))"


@pytest.mark.parametrize(("mode", "seed", "end"), [(KILLS, 5, "killed"), (FLUSHED, 2, "power cut"), (UNFLUSHED, 15, "power cut")])
def test_what_was_promised_survives_kills_and_power_cuts(mode: str, seed: int, end: str) -> None:
    outcome = play(seed, mode=mode, virtual_s=15)
    assert outcome.problems == [], str(outcome)
    assert outcome.acked > 50
    assert outcome.ends.get(end, 0) > 0, "what the story is about"


@pytest.mark.long
@pytest.mark.parametrize("fsync", [(VirtualFile, "fsync"), (VirtualDisk, "fsync_dir"), (Flush, "run")], ids=lambda each: each[1])
def test_a_story_with_power_cuts_notices_that_nothing_is_made_durable(monkeypatch: pytest.MonkeyPatch, fsync: tuple[type, str]) -> None:
    monkeypatch.setattr(*fsync, lambda *arguments: None)
    outcome = play(2, mode=FLUSHED, virtual_s=15, keep_trace=False)
    assert "acked-is-there" in {problem.partition(":")[0] for problem in outcome.problems}, str(outcome)


def told(seed: int) -> str:
    """Play a story; return the hash of its trace, and how often the broker ended."""
    outcome = play(seed, virtual_s=12)
    return f"{outcome.trace_hash} {sum(outcome.ends.values())}"


@pytest.mark.timeout(600)
def test_the_same_seed_gives_the_same_trace_in_processes_with_different_hash_seeds() -> None:
    story = told(6)
    trace_hash, ends = story.split()
    assert len(trace_hash) == 64
    assert int(ends) > 0, "the story must have had a crash"
    assert output_in_process(_PLAY, hash_seed=77).strip() == story
    assert told(1).split()[0] != trace_hash
