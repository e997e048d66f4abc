"""Whole clusters keep their promises in what a seed throws at them; the same seed is the same story in every process; and each family of
promises notices when the code that keeps it is broken.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.consensus import polling
from odradek.controller.core import producer_ids
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft import periodic
from odradek.coordinator.context import ShardContext
from odradek.replication.isr import PendingExpandIsr
from odradek.storage.flushing import Flush
from tests.simulation.hunts import HUNTS, play_hunt

ROOT = Path(__file__).parents[2]
_PLAY = """
import sys
from tests.simulation.whole.plan import Layout, Plan
from tests.simulation.whole.story import play
plan = Plan(3, mode="flushed", layout=Layout(3, False, False), replication_factor=3, members={"classic": 2, "consumer": 2}, copiers=1)
outcome = play(3, virtual_s=6, plan=plan, trace=True)
print(outcome.trace_hash, len(outcome.problems), sum(outcome.faults.values()))
"""


def _play_in_process(hash_seed: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.Popen([sys.executable, "-c", _PLAY], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def test_the_same_seed_is_the_same_story_in_processes_with_different_hash_seeds() -> None:
    first, second = [process.communicate(timeout=100)[0].split() for process in (_play_in_process(1), _play_in_process(77))]
    assert first == second
    assert len(first[0]) == 64
    assert first[1] == "0"
    assert int(first[2]) > 0


def edit(patch: pytest.MonkeyPatch, owner: Any, name: str, before: str, after: str) -> None:
    """Plants a bug in a function: a piece of its source, which is there once, is replaced."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(before) == 1, f"{name} has changed"
    made: dict[str, Any] = {}
    exec(compile(source.replace(before, after), inspect.getfile(function), "exec"), function.__globals__, made)
    patch.setattr(owner, name, made[name])


def _flush_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flush, "run", lambda self, disk: None)


def _give_blocks_that_overlap(patch: pytest.MonkeyPatch) -> None:
    edit(patch, producer_ids, "allocate_producer_ids", "next_producer_id=first + BLOCK_SIZE", "next_producer_id=first + 1")


def _never_balance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(periodic, "balance_leaders", lambda context: ControllerResult([], False))


def _fetch_metadata_without_waiting(patch: pytest.MonkeyPatch) -> None:
    fetch = polling._fetch
    patch.setattr(polling, "_fetch", lambda *arguments: fetch(*arguments)._replace(max_wait_ms=0))


def _forget_who_is_about_to_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingExpandIsr, "maximal_isr", property(lambda self: self.isr, lambda self, _: None), raising=False)


def _load_anew_in_each_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardContext, "lead_on", lambda self, leader_epoch: False)


@pytest.mark.parametrize(
    ("mutation", "hunt"),
    [
        (_flush_nothing, "votes"),
        (_give_blocks_that_overlap, "deposed controllers"),
        (_forget_who_is_about_to_join, "joining replicas"),
        (_load_anew_in_each_epoch, "epochs of coordinators"),
        (_never_balance, "balance"),
        (_fetch_metadata_without_waiting, "quorums without a leader"),
    ],
    ids=lambda each: each.__name__.removeprefix("_") if callable(each) else None,
)
def test_a_broken_promise_is_noticed(monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None], hunt: str) -> None:
    mutation(monkeypatch)
    outcome = play_hunt(HUNTS[hunt], 1)
    assert HUNTS[hunt].family in outcome.families, f"nobody noticed; found {outcome.problems[:5]}"
