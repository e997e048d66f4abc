"""A short slice of the quorum campaign, and the proof that its invariants notice a broken core."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.consensus import polling, progress, raft, replication, states, voters
from odradek.consensus.messages import ElectionState
from odradek.consensus.voters import ReplicaKey
from tests.campaigns.quorum import run
from tests.consensus import simulation
from tests.consensus.support import check_former_epochs, check_remembered_vote

SEEDS = range(1, 251)
"""The invariants are shown to notice broken cores in no longer runs than the core itself has to pass."""


def test_invariants_hold_under_random_faults() -> None:
    for seed in SEEDS:
        run(seed)


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = run(17), run(17)
    assert (first.steps, first.committed, first.leaders) == (second.steps, second.committed, second.leaders)


def _votes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def would_vote(self: states.RoleState, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return up_to_date

    monkeypatch.setattr(states.RoleState, "would_vote", would_vote)


def _votes_for_short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    original = states.RoleState.would_vote

    def would_vote(self: states.RoleState, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return original(self, candidate, up_to_date=True, pre_vote=pre_vote)

    monkeypatch.setattr(states.RoleState, "would_vote", would_vote)


def _forgets_its_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    original = states.RoleState.election

    def election(self: states.RoleState) -> ElectionState:
        return original(self)._replace(voted=None)

    monkeypatch.setattr(states.RoleState, "election", election)


def _commits_former_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    original = progress.QuorumProgress.__init__

    def init(self: progress.QuorumProgress, local: ReplicaKey, members: voters.VoterSet, epoch_start_offset: int) -> None:
        original(self, local, members, -1)

    monkeypatch.setattr(progress.QuorumProgress, "__init__", init)


def _counts_unflushed_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    original = replication.after_local_progress

    def after_local_progress(core: raft.Raft) -> None:
        core.flushed_offset = core.log_end.offset
        original(core)

    monkeypatch.setattr(replication, "after_local_progress", after_local_progress)


def _fetches_before_its_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    original = polling.poll

    def poll(core: raft.Raft) -> int:
        core.flushed_offset = core.log_end.offset
        return original(core)

    monkeypatch.setattr(polling, "poll", poll)


def _needs_no_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voters.VoterSet, "majority", property(lambda self: max(1, len(self) // 2)))
    monkeypatch.setattr(simulation.Cluster, "check_durable", lambda self, batch: None)


def _leads_its_old_epoch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted leader goes on leading; what it had not flushed is written anew."""

    def become_unattached(self: raft.Raft, epoch: int, leader_id: int = -1) -> None:
        epoch = max(self.epoch, epoch - 1) if self.role is states.Role.RESIGNED else epoch
        original(self, epoch, leader_id)

    original = raft.Raft.become_unattached
    monkeypatch.setattr(raft.Raft, "become_unattached", become_unattached)
    candidate = raft.Raft.become_candidate

    def become_candidate(self: raft.Raft) -> None:
        if self._durable is not None and self._durable.leader_id == self.local.id:
            self.state.epoch -= 1
        candidate(self)

    monkeypatch.setattr(raft.Raft, "become_candidate", become_candidate)


def test_a_vote_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _forgets_its_vote(monkeypatch)
    with pytest.raises(AssertionError, match=r"\[True, True, False\]"):
        check_remembered_vote()


def test_a_commit_of_former_epochs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _commits_former_epochs(monkeypatch)
    with pytest.raises(AssertionError, match="below the high watermark"):
        check_former_epochs()


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    _votes_twice,
    _votes_for_short_logs,
    _counts_unflushed_appends,
    _fetches_before_its_flush,
    _needs_no_majority,
    _leads_its_old_epoch_again,
]


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__.strip("_"))
def test_a_broken_core_is_noticed(mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    for seed in SEEDS:
        try:
            run(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            return
    pytest.fail(f"{len(SEEDS)} histories went by and no invariant broke")
