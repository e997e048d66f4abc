"""Votes, announcements and resignations: how an epoch gets its one leader (KIP-595, pre-vote KIP-996)."""

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
"""How many refused or broken connections in a row make a follower doubt its leader: one may be no more than the end of a connection."""


# What any message may teach ------------------------------------------------------------------------------------------------


def take_leader(raft: Raft, leader_id: int, epoch: int, endpoints: tuple[Endpoint, ...]) -> None:
    """A peer says that `leader_id` (-1: nobody it knows of) leads `epoch`. Older news and contradictions are ignored."""
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
    """Learns from a response; whether what it answers still matters."""
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
    """Whether a request that names its receiver means this replica; older versions name none."""
    if voter.id < 0:
        return True
    return voter.id == raft.local.id and (
        voter.directory_id is None or voter.directory_id.int == 0 or voter.directory_id == raft.local.directory_id
    )


# Votes ---------------------------------------------------------------------------------------------------------------------


def on_vote_request(raft: Raft, request: VoteRequest) -> VoteResponse:
    """Grants at most one vote an epoch, to a candidate whose log is at least as long as this one."""
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
    # Nobody gets a vote in this replica's own name.
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
    """Counts the vote, if the election it belongs to is still on."""
    state = raft.state
    if not isinstance(state, NomineeState) or request.pre_vote is not (state.role is Role.PROSPECTIVE) or request.epoch != state.epoch:
        return
    # A voter that cannot read a pre-vote will not hinder one either.
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
    # A candidate that lost waits for its election timeout: others are about to win.


def end_pre_vote(raft: Raft, state: NomineeState) -> None:
    """Refused, or not answered in time: back to following the leader it doubted, or to waiting for one."""
    if state.leader_id >= 0 and state.leader_endpoints:
        raft.become_follower(state.epoch, state.leader_id, state.leader_endpoints)
    else:
        raft.become_unattached(state.epoch, state.leader_id)


# A leader that cannot be reached -------------------------------------------------------------------------------------------


def doubt_leader(raft: Raft, destination: int) -> None:
    """Nobody answered at `destination`. When it is the leader's address for the second time in a row, its process is taken to be gone.

    A voter then stands for pre-vote soon, and helps another that does, where Kafka waits out the fetch timeout. To be wrong does no harm:
    a leader that is there refuses the pre-vote, and so do all who hear it.
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
    """A pre-vote was granted: whoever was about to stand as well lets the other try first."""
    state = raft.state
    if isinstance(state, FollowerState) and state.unreachable >= UNREACHABLE_TIMES:
        state.deadline_ms = max(state.deadline_ms, raft.now_ms + raft.timeouts.unreachable_max_ms)


# Announcements -------------------------------------------------------------------------------------------------------------


def on_begin_quorum_epoch_request(raft: Raft, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Follows the leader that makes itself known."""
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
        # A leader hears that it leads: Kafka agrees.
        return ErrorCode.NONE if raft.is_leader and epoch == raft.epoch else ErrorCode.INVALID_REQUEST
    if leader_id < 0 or (epoch == raft.epoch and raft.leader_id not in (-1, leader_id)):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


# Resignations --------------------------------------------------------------------------------------------------------------


def on_end_quorum_epoch_request(raft: Raft, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """The leader steps down: stand after a back-off that grows with the place among the preferred; the first stands at once."""
    error = _check_announcement(raft, request.leader_id, request.epoch)
    if error is ErrorCode.NONE:
        take_leader(raft, request.leader_id, request.epoch, request.endpoints)
        state = raft.state
        if isinstance(state, FollowerState) and state.leader_id == request.leader_id:
            state.deadline_ms = raft.now_ms + _end_epoch_backoff(raft, request.preferred)
            # There is no leader any more to be protected from the pre-votes of others.
            state.has_fetched = False
    return EndQuorumEpochResponse(error, raft.leader_id, raft.epoch, raft.state.leader_endpoints)


def _end_epoch_backoff(raft: Raft, preferred: tuple[ReplicaKey, ...]) -> int:
    """Nothing for the first of the preferred, and for all where nobody is preferred; the pauses of the others double from place to place,
    up to that of those who are not named (KafkaRaftClient.strictExponentialElectionBackoffMs).
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
