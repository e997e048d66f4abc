"""Votes, announcements and resignations: how each epoch gets one leader (KIP-595; pre-vote, KIP-996)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.consensus.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from odradek.consensus.states import FollowerState, NomineeState, ResignedState, Role
from odradek.consensus.voters import Endpoint, ReplicaKey

if TYPE_CHECKING:
    from odradek.consensus.raft import Raft

UNREACHABLE_TIMES = 2
"""Number of consecutive refused or broken connections after which a follower doubts its leader.

A single one may be only the end of a connection.
"""


# Leader and epoch in any message -------------------------------------------------------------------------------------------


def take_leader(raft: Raft, leader_id: int, epoch: int, endpoints: tuple[Endpoint, ...]) -> None:
    """Follow `leader_id` in `epoch` as a peer reports it (-1: the peer knows no leader). Ignore older and contradicting reports."""
    state = raft.state
    if epoch < state.epoch or leader_id == raft.local.id:
        if epoch > state.epoch:
            raft.become_unattached(epoch)
        return
    endpoints = endpoints or raft.voters.current.endpoints(leader_id)
    if epoch > state.epoch:
        if leader_id >= 0 and endpoints:
            raft.become_follower(epoch, leader_id, endpoints)
        else:
            raft.become_unattached(epoch, leader_id)
    elif leader_id >= 0 and state.leader_id in (-1, leader_id) and endpoints:
        following = state.role is Role.FOLLOWER or (state.role is Role.PROSPECTIVE and state.leader_id >= 0)
        if not following:
            raft.become_follower(epoch, leader_id, endpoints)


def take_leader_from_response(raft: Raft, response: Response) -> bool:
    """Take leader and epoch from a response, and return whether the rest of the response is still useful."""
    if response.epoch > raft.epoch:
        take_leader(raft, response.leader_id, response.epoch, response.endpoints)
        return True
    if response.error in _UNHELPFUL:
        return False
    if response.epoch == raft.epoch and response.leader_id >= 0:
        take_leader(raft, response.leader_id, response.epoch, response.endpoints)
    return True


_UNHELPFUL = frozenset(
    {
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_VOTER_KEY,
    }
)


def _is_for_me(raft: Raft, voter: ReplicaKey) -> bool:
    """Return whether a request is for this replica.

    A request of an older version, which names no receiver, counts as addressed to this replica.
    """
    if voter.id < 0:
        return True
    return voter.id == raft.local.id and (
        voter.directory_id is None or voter.directory_id.int == 0 or voter.directory_id == raft.local.directory_id
    )


# Votes ---------------------------------------------------------------------------------------------------------------------


def on_vote_request(raft: Raft, request: VoteRequest) -> VoteResponse:
    """Grant at most one vote an epoch, to a candidate whose log is at least as up to date as this one."""
    illegal_epoch = request.last_epoch > request.epoch if request.pre_vote else request.last_epoch >= request.epoch
    if request.last_offset < 0 or request.last_epoch < 0 or illegal_epoch or request.replica.id < 0:
        return _vote_response(raft, ErrorCode.INVALID_REQUEST)
    if request.epoch < raft.epoch:
        return _vote_response(raft, ErrorCode.FENCED_LEADER_EPOCH)
    if request.epoch > raft.epoch:
        raft.become_unattached(request.epoch)
    if not _is_for_me(raft, request.voter):
        return _vote_response(raft, ErrorCode.INVALID_VOTER_KEY)
    up_to_date = (request.last_epoch, request.last_offset) >= (raft.log_end.epoch, raft.log_end.offset)
    # Refuse a vote for this replica's own id: another node uses it.
    granted = request.replica.id != raft.local.id and raft.state.would_vote(
        request.replica, up_to_date=up_to_date, pre_vote=request.pre_vote
    )
    if granted and not request.pre_vote and raft.state.voted is None:
        raft.become_voted(request.replica)
    elif granted and request.pre_vote:
        _give_way(raft)
    return _vote_response(raft, ErrorCode.NONE, granted=granted)


def _vote_response(raft: Raft, error: ErrorCode, *, granted: bool = False) -> VoteResponse:
    return VoteResponse(error, raft.leader_id, raft.epoch, granted, raft.state.leader_endpoints)


def on_vote_response(raft: Raft, voter: int, request: VoteRequest, response: VoteResponse) -> None:
    """Count the vote if its election still runs."""
    state = raft.state
    if not isinstance(state, NomineeState) or request.pre_vote is not (state.role is Role.PROSPECTIVE) or request.epoch != state.epoch:
        return
    # A voter that does not support pre-votes counts as granting: it does not prevent the election.
    unaware = request.pre_vote and response.error is ErrorCode.UNSUPPORTED_VERSION
    if response.error is not ErrorCode.NONE and not unaware:
        raft.requests.back_off(voter, raft.now_ms)
        return
    if voter in state.granted or voter in state.rejected:
        return
    (state.granted if response.granted or unaware else state.rejected).add(voter)
    if state.won:
        if state.role is Role.PROSPECTIVE:
            raft.become_candidate()
        else:
            raft.become_leader(state)
    elif state.lost and state.role is Role.PROSPECTIVE:
        end_pre_vote(raft, state)
    # A candidate that lost waits for its election timeout, because another one is about to win.


def end_pre_vote(raft: Raft, state: NomineeState) -> None:
    """End a pre-vote that was refused or timed out. Follow the former leader again, or wait for a leader."""
    if state.leader_id >= 0 and state.leader_endpoints:
        raft.become_follower(state.epoch, state.leader_id, state.leader_endpoints)
    else:
        raft.become_unattached(state.epoch, state.leader_id)


# Unreachable leaders -------------------------------------------------------------------------------------------------------


def note_unreachable_leader(raft: Raft, destination: int) -> None:
    """Note that no process answered at `destination`. After two failures in a row at the leader's address, assume that its process is gone.

    A voter then stands for pre-vote soon and supports another that does; Kafka waits for the fetch timeout. A wrong assumption does no
    harm: a leader that is alive refuses the pre-vote, and so do all voters that hear from it.
    """
    state = raft.state
    if not isinstance(state, FollowerState) or destination != state.leader_id or not raft.timeouts.unreachable_max_ms:
        return
    state.unreachable += 1
    if state.unreachable == UNREACHABLE_TIMES and raft.is_voter:
        state.has_fetched = False
        longest, shortest = raft.timeouts.unreachable_max_ms, raft.timeouts.unreachable_min_ms
        state.deadline_ms = min(state.deadline_ms, raft.now_ms + shortest + raft.rng.randrange(longest - shortest + 1))


def _give_way(raft: Raft) -> None:
    """Let the replica whose pre-vote was granted try first: delay this replica's own candidacy after an unreachable leader."""
    state = raft.state
    if isinstance(state, FollowerState) and state.unreachable >= UNREACHABLE_TIMES:
        state.deadline_ms = max(state.deadline_ms, raft.now_ms + raft.timeouts.unreachable_max_ms)


# Announcements -------------------------------------------------------------------------------------------------------------


def on_begin_quorum_epoch_request(raft: Raft, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Follow the leader that announces itself."""
    error = _check_announcement(raft, request.leader_id, request.epoch)
    if error is ErrorCode.NONE:
        take_leader(raft, request.leader_id, request.epoch, request.endpoints)
        if not _is_for_me(raft, request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
    return BeginQuorumEpochResponse(error, raft.leader_id, raft.epoch, raft.state.leader_endpoints)


def _check_announcement(raft: Raft, leader_id: int, epoch: int) -> ErrorCode:
    if epoch < raft.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id == raft.local.id:
        # Like Kafka, accept an announcement that a leader gets about itself.
        return ErrorCode.NONE if raft.is_leader and epoch == raft.epoch else ErrorCode.INVALID_REQUEST
    if leader_id < 0 or (epoch == raft.epoch and raft.leader_id not in (-1, leader_id)):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


# Resignations --------------------------------------------------------------------------------------------------------------


def on_end_quorum_epoch_request(raft: Raft, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Stand for election after the leader's resignation. The back-off grows with the position in `preferred` (first: 0 ms)."""
    error = _check_announcement(raft, request.leader_id, request.epoch)
    if error is ErrorCode.NONE:
        take_leader(raft, request.leader_id, request.epoch, request.endpoints)
        state = raft.state
        if isinstance(state, FollowerState) and state.leader_id == request.leader_id:
            state.deadline_ms = raft.now_ms + _end_epoch_backoff(raft, request.preferred)
            # Without a leader there is nothing to protect from pre-votes of others.
            state.has_fetched = False
    return EndQuorumEpochResponse(error, raft.leader_id, raft.epoch, raft.state.leader_endpoints)


def _end_epoch_backoff(raft: Raft, preferred: tuple[ReplicaKey, ...]) -> int:
    """Return the back-off in milliseconds before a replica stands for election.

    The back-off is 0 for the first of `preferred`, and for all replicas when `preferred` is empty. Each further position doubles the
    back-off. Replicas that are not listed wait for the maximum (KafkaRaftClient.strictExponentialElectionBackoffMs).
    """
    position = next((place for place, candidate in enumerate(preferred) if _is_for_me(raft, candidate)), len(preferred))
    if position == 0:
        return 0
    longest = raft.timeouts.election_backoff_max_ms
    if position >= len(preferred):
        return longest
    return min(longest, longest >> (len(preferred) - 1) << (position - 1))


def on_end_quorum_epoch_response(raft: Raft, voter: int, response: EndQuorumEpochResponse) -> None:
    state = raft.state
    if isinstance(state, ResignedState) and response.error is ErrorCode.NONE and voter in state.unacknowledged:
        state.unacknowledged.remove(voter)
