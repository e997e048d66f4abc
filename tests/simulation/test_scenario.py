"""A whole broker and several clients survive what a seed throws at them, and the same seed is the same story in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.storage.flushing import Flush
from odradek.testing.disk import VirtualDisk, VirtualFile
from tests.simulation.scenario import FLUSHED, KILLS, UNFLUSHED, play

ROOT = Path(__file__).parents[2]
_PLAY = """
import sys
from tests.simulation.scenario import play
outcome = play(int(sys.argv[1]), virtual_s=12)
print(outcome.trace_hash, sum(outcome.ends.values()))
"""


@pytest.mark.parametrize(("mode", "seed", "end"), [(KILLS, 5, "killed"), (FLUSHED, 2, "power cut"), (UNFLUSHED, 15, "power cut")])
def test_what_was_promised_survives_kills_and_power_cuts(mode: str, seed: int, end: str) -> None:
    outcome = play(seed, mode=mode, virtual_s=15)
    assert outcome.problems == [], str(outcome)
    assert outcome.acked > 50
    assert outcome.ends.get(end, 0) > 0, "what the story is about"


@pytest.mark.parametrize("fsync", [(VirtualFile, "fsync"), (VirtualDisk, "fsync_dir"), (Flush, "run")], ids=lambda each: each[1])
def test_a_story_with_power_cuts_notices_that_nothing_is_made_durable(monkeypatch: pytest.MonkeyPatch, fsync: tuple[type, str]) -> None:
    monkeypatch.setattr(*fsync, lambda *arguments: None)
    outcome = play(2, mode=FLUSHED, virtual_s=15, keep_trace=False)
    assert "acked-is-there" in {problem.partition(":")[0] for problem in outcome.problems}, str(outcome)


def _trace_in_process(seed: int, hash_seed: int) -> str:
    """The hash of the trace; the story must have had a crash."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", _PLAY, str(seed)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=100)
    trace_hash, ends = done.stdout.split()
    assert int(ends) > 0
    return trace_hash


def test_the_same_seed_gives_the_same_trace_in_processes_with_different_hash_seeds() -> None:
    first = _trace_in_process(6, 1)
    assert len(first) == 64
    assert _trace_in_process(6, 77) == first
    assert _trace_in_process(1, 1) != first
