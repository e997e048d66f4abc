"""Stories that look for one kind of bug each, with the faults that bring it to light.

    pytest tests/simulation/hunts.py -k deposed

Not among the tests that are collected by themselves: each plays up to some tens of seeds. A hunt fails when a promise of its family is
broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import pytest

from tests.simulation.whole.plan import FLUSHED, KILLS, RAPID, SINK, SOURCE, Layout, Plan
from tests.simulation.whole.story import Outcome, play

_SMALL: Final[Mapping[str, object]] = {
    "layout": Layout(3, False, False),
    "replication_factor": 3,
    "producers": 1,
    "readers": 1,
    "members": {},
    "copiers": 0,
    "committers": 1,
    "latency_s": RAPID,
}


class Hunt(NamedTuple):
    """`faults` happen for so many virtual seconds in each of the first `seeds` seeds, in plans that are small but for `plan`."""

    family: str
    faults: tuple[str, ...]
    mode: str = KILLS
    seeds: int = 10
    virtual_s: float = 20.0
    plan: Mapping[str, object] = {}


HUNTS: Final[Mapping[str, Hunt]] = {
    "votes": Hunt("raft", ("kill", "kill all", "power cut of all"), FLUSHED, seeds=4, plan={"latency_s": (0.001, 0.03)}),
    "deposed controllers": Hunt("controller", ("pause",), seeds=6, plan={"pause_between_faults_s": (0.2, 2.0), "askers": 6}),
    # Elections are asked of a controller that stands still, and need as many batches as partitions to move.
    "divided operations": Hunt(
        "controller",
        ("pause", "kill"),
        seeds=3,
        virtual_s=30.0,
        plan={
            "pause_between_faults_s": (0.2, 2.0),
            "metadata_batch_bytes": 1_120,
            "electors": 6,
            "topics": {**{f"main-{number}": 3 for number in range(4)}, SOURCE: 2, SINK: 2},
        },
    ),
    "leaderless partitions": Hunt("controller", ("kill",), seeds=2, plan={"replication_factor": 1, "elr_comes_late": True}),
    "joining replicas": Hunt("replication", ("kill", "kill all"), seeds=24),
    "power cuts": Hunt("replication", ("power cut of all",), FLUSHED, seeds=3, plan={"layout": Layout(3, True, False)}),
    "failovers of groups": Hunt("coordinators", ("kill",), seeds=5, plan={"committers": 3}),
    # Up to 3.5 a partition gets a new leader epoch, of the same leader, with each replica that falls out of sync.
    "epochs of coordinators": Hunt("coordinators", ("kill",), seeds=3, plan={"release_version": "3.5", "layout": Layout(3, False, True)}),
    "transactions": Hunt("coordinators", ("kill",), seeds=3, plan={"copiers": 2, "readers": 3}),
    "balance": Hunt("liveness", ("kill",), seeds=2, virtual_s=6.0),
    "quorums without a leader": Hunt("traffic", ("kill all", "pause", "isolate"), seeds=3),
}


def play_hunt(hunt: Hunt, seed: int) -> Outcome:
    """One story of the hunt, which ends with the first promise of its family that is broken."""
    plan = Plan(seed, mode=hunt.mode, **{**_SMALL, **hunt.plan})
    return play(seed, virtual_s=hunt.virtual_s, plan=plan, faults=hunt.faults, until=hunt.family)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("hunt", HUNTS.values(), ids=HUNTS.keys())
def test_hunt(hunt: Hunt) -> None:
    for seed in range(1, hunt.seeds + 1):
        outcome = play_hunt(hunt, seed)
        assert hunt.family not in outcome.families, (str(outcome), outcome.problems[:5])
