"""Actions that each role takes without an event, and the next deadline of each role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.consensus.elections import end_pre_vote
from odradek.consensus.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest, FetchRequest, FetchSnapshotRequest, VoteRequest
from odradek.consensus.replication import wake_parked
from odradek.consensus.states import NEVER, FollowerState, LeaderState, NomineeState, ResignedState, Role
from odradek.consensus.voters import ReplicaKey

if TYPE_CHECKING:
    from odradek.consensus.raft import Raft

SNAPSHOT_FETCH_BYTES = 8 * 1024 * 1024
"""Largest number of snapshot bytes to ask for in one request (KafkaRaftClient.MAX_FETCH_SIZE_BYTES)."""


def poll(raft: Raft) -> int:
    """Let the role act until it no longer changes, and return the next deadline in milliseconds."""
    while True:
        role, epoch = raft.role, raft.epoch
        deadline = _POLL[role](raft)
        if raft.role is role and raft.epoch == epoch:
            return deadline


def _until_election(raft: Raft) -> int:
    """Return the end of the role's timeout; NEVER for a replica that shuts down, because it stands in no election."""
    return NEVER if raft.shutting_down else raft.state.deadline_ms


def _poll_unattached(raft: Raft) -> int:
    state = raft.state
    if raft.now_ms >= state.deadline_ms and not raft.shutting_down and raft.is_voter:
        raft.become_prospective()
        return 0
    return min(_until_election(raft), _fetch_from_bootstrap(raft))


def _poll_nominee(raft: Raft) -> int:
    state = raft.state
    assert isinstance(state, NomineeState)
    if raft.now_ms >= state.deadline_ms and not raft.shutting_down:
        if state.role is Role.CANDIDATE:
            raft.become_prospective()
        else:
            end_pre_vote(raft, state)
        return 0
    return min(_until_election(raft), _ask_for_votes(raft, state))


def _ask_for_votes(raft: Raft, state: NomineeState) -> int:
    next_ms = NEVER
    for voter_id in state.unrecorded:
        if raft.requests.ready(voter_id, raft.now_ms):
            voter = state.voters.get(voter_id)
            key = voter.key if voter is not None else ReplicaKey(voter_id)
            end = raft.log_end
            raft.send(voter_id, VoteRequest(key, raft.local.key, state.epoch, end.offset, end.epoch, state.role is Role.PROSPECTIVE))
        next_ms = min(next_ms, raft.requests.blocked_until(voter_id))
    return next_ms


def _poll_leader(raft: Raft) -> int:
    state = raft.state
    assert isinstance(state, LeaderState)
    if state.lost_quorum(raft.now_ms):
        # A majority has been silent and may have elected another leader. Leading on would only make clients wait.
        raft.become_resigned()
        return 0
    wake_parked(raft)
    next_ms = min((fetch.deadline_ms for fetch in raft.parked), default=NEVER)
    if any(voter.id != raft.local.id for voter in raft.voters.current):
        _announce(raft, state)
        next_ms = min(next_ms, state.begin_deadline_ms)
    return min(next_ms, state.check_quorum_deadline_ms)


def _announce(raft: Raft, state: LeaderState) -> None:
    """Send BeginQuorumEpoch, at each end of its timer, to the voters that have not fetched since the timer was set."""
    if raft.now_ms < state.begin_deadline_ms:
        return
    interval_ms = raft.timeouts.begin_quorum_ms
    state.begin_deadline_ms = raft.now_ms + interval_ms
    for voter in raft.voters.current:
        last_ms = state.progress.of(voter.key).last_fetch_ms
        silent = voter.id != raft.local.id and (last_ms < 0 or raft.now_ms - last_ms >= interval_ms)
        if silent and raft.requests.ready(voter.id, raft.now_ms):
            raft.send(voter.id, BeginQuorumEpochRequest(voter.key, raft.local.id, state.epoch, raft.local.endpoints))


def _poll_follower(raft: Raft) -> int:
    state = raft.state
    assert isinstance(state, FollowerState)
    if raft.is_voter and raft.now_ms >= state.deadline_ms and not raft.shutting_down:
        raft.become_prospective()
        return 0
    next_ms = _until_election(raft) if raft.is_voter else NEVER
    if raft.shutting_down or state.installing_snapshot or not _may_fetch(raft):
        return next_ms
    requests, leader = raft.requests, state.leader_id
    if requests.timed_out(leader, raft.now_ms):
        requests.back_off(leader, raft.now_ms)
    if requests.backing_off(leader, raft.now_ms):
        # Bootstrap servers may know a newer leader by now (KafkaRaftClient.maybeSendFetchToBestNode).
        next_ms = min(next_ms, _fetch_from_bootstrap(raft))
    elif requests.ready(leader, raft.now_ms):
        if state.fetching_snapshot is not None:
            request = FetchSnapshotRequest(
                raft.local.key, state.epoch, state.fetching_snapshot, state.fetching_position, SNAPSHOT_FETCH_BYTES
            )
            raft.send(leader, request, state.leader_endpoints)
        else:
            # After an unreachable leader, ask without a wait, so that a leader that is there answers at once.
            wait_ms = 0 if state.unreachable else raft.timeouts.fetch_max_wait_ms
            raft.send(leader, _fetch(raft, wait_ms), state.leader_endpoints)
    return min(next_ms, requests.blocked_until(leader))


def _poll_resigned(raft: Raft) -> int:
    state = raft.state
    assert isinstance(state, ResignedState)
    if raft.now_ms >= state.deadline_ms and not raft.shutting_down:
        # This epoch has had its leader, so stand in the next one.
        raft.become_unattached(state.epoch + 1)
        return 0
    next_ms = _until_election(raft)
    for voter in state.unacknowledged:
        if raft.requests.ready(voter, raft.now_ms):
            raft.send(voter, EndQuorumEpochRequest(raft.local.id, state.epoch, state.preferred, raft.local.endpoints))
        next_ms = min(next_ms, raft.requests.blocked_until(voter))
    return next_ms


def _may_fetch(raft: Raft) -> bool:
    """Return whether to fetch. A voter that fetches from an offset promises that everything below is durable; an observer does not."""
    return raft.flushed_offset >= raft.log_end.offset or not raft.is_voter


def _fetch(raft: Raft, wait_ms: int) -> FetchRequest:
    end = raft.log_end
    return FetchRequest(raft.local.key, raft.epoch, end.offset, end.epoch, wait_ms, raft.high_watermark)


def _fetch_from_bootstrap(raft: Raft) -> int:
    """Send a fetch to a random bootstrap server to learn the leader. A server that does not lead refuses the fetch and names the leader."""
    if raft.shutting_down or not raft.bootstrap or not _may_fetch(raft):
        return NEVER
    busy = [raft.requests.blocked_until(server) for server in raft.bootstrap if raft.requests.in_flight(server) is not None]
    if busy and raft.now_ms < min(busy):
        return min(busy)
    free = [server for server in raft.bootstrap if raft.requests.ready(server, raft.now_ms)]
    if free:
        raft.send(free[raft.rng.randrange(len(free))], _fetch(raft, raft.timeouts.fetch_max_wait_ms))
    return max(raft.requests.next_free_ms(raft.bootstrap), raft.now_ms + raft.timeouts.retry_backoff_ms)


_POLL: Final[dict[Role, Callable[[Raft], int]]] = {
    Role.UNATTACHED: _poll_unattached,
    Role.VOTED: _poll_unattached,
    Role.PROSPECTIVE: _poll_nominee,
    Role.CANDIDATE: _poll_nominee,
    Role.LEADER: _poll_leader,
    Role.FOLLOWER: _poll_follower,
    Role.RESIGNED: _poll_resigned,
}
