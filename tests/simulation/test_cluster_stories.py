"""Whole clusters keep their promises in what a seed throws at them; the same seed is the same story in every process; and each family of
promises notices when the code that keeps it is broken.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
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
from tests.simulation.processes import output_in_process
from tests.simulation.whole.plan import Layout, Plan
from tests.simulation.whole.story import play

_PLAY = "from tests.simulation.test_cluster_stories import told; print(told())"


def told() -> str:
    """Play a story; return the hash of its trace, how many promises were broken, and how many faults there were."""
    layout = Layout(3, False, False)
    plan = Plan(3, mode="flushed", layout=layout, replication_factor=3, members={"classic": 2, "consumer": 2}, copiers=1)
    outcome = play(3, virtual_s=3, plan=plan, trace=True)
    return f"{outcome.trace_hash} {len(outcome.problems)} {sum(outcome.faults.values())}"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_same_seed_is_the_same_story_in_processes_with_different_hash_seeds() -> None:
    story = told()
    assert output_in_process(_PLAY, hash_seed=77).strip() == story
    trace_hash, problems, faults = story.split()
    assert len(trace_hash) == 64
    assert problems == "0"
    assert int(faults) > 0


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
    patch.setattr(ShardContext, "continue_leading", lambda self, leader_epoch: False)


@pytest.mark.long
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
