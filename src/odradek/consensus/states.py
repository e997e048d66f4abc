"""Roles of a replica, and the transitions between roles.

Rules that hold in every role:

- The epoch only grows. A replica that learns of a larger epoch becomes Unattached, or Follower when it also learns that epoch's leader.
- A replica votes at most once in an epoch. The vote is durable before the response is sent. A pre-vote is not binding.
- Only the leader of an epoch appends records of that epoch. A leader that restarts begins as Resigned, not as Leader of the same epoch: a
  crash may have lost records that were not flushed.
- Observer is not a role. An observer is a replica outside the voter set; it is Unattached or Follower, and its timers start no election.

`Prospective` (KIP-996) collects pre-votes before it starts an epoch that would interrupt the other replicas.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from odradek.consensus.messages import ElectionState
from odradek.consensus.progress import QuorumProgress
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey, VoterSet


class Role(Enum):
    UNATTACHED = "Unattached"
    VOTED = "Unattached (voted)"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


TRANSITIONS: Final[dict[Role, frozenset[Role]]] = {
    # A larger epoch, a granted vote, a known leader, or the election timeout.
    Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.VOTED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    # A majority of pre-votes makes a candidate. A prospective that loses becomes Unattached or Follower again. A prospective may also vote
    # for another candidate.
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE}),
    # A majority of votes makes a leader; after the election timeout the candidate asks for pre-votes again.
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    # Only a larger epoch or a resignation ends leadership.
    Role.LEADER: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.RESIGNED}),
    # After the fetch timeout the follower asks for pre-votes; a new leader comes with a larger epoch.
    Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    # After the election timeout the replica moves to the next epoch. A sole voter stands for election at once.
    Role.RESIGNED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
}

NEVER: Final = 2**63 - 1
"""Deadline in milliseconds that is never reached."""


class RoleState:
    """State that every role has. Deadlines are milliseconds on the clock of `Raft.step`."""

    __slots__ = ("deadline_ms", "epoch", "leader_endpoints", "leader_id", "role", "voted")

    def __init__(
        self,
        role: Role,
        epoch: int,
        *,
        leader_id: int = -1,
        leader_endpoints: tuple[Endpoint, ...] = (),
        voted: ReplicaKey | None = None,
        deadline_ms: int = NEVER,
    ) -> None:
        self.role = role
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted
        self.deadline_ms = deadline_ms

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Return whether the replica may vote for `candidate` in the epoch of this state (EpochState.canGrantVote)."""
        if pre_vote:
            return up_to_date
        if self.voted is not None:
            return self.voted.id == candidate.id and (self.voted.directory_id is None or self.voted.directory_id == candidate.directory_id)
        return self.leader_id < 0 and up_to_date


class NomineeState(RoleState):
    """State of a prospective or candidate: the votes of one election, counted once per voter."""

    __slots__ = ("granted", "rejected", "voters")

    def __init__(self, role: Role, former: RoleState, epoch: int, local: ReplicaKey, voters: VoterSet, deadline_ms: int) -> None:
        """Start an election in `epoch`. A candidate votes for itself; a prospective keeps the vote and the leader of `former`."""
        if role is Role.CANDIDATE:
            super().__init__(role, epoch, voted=local, deadline_ms=deadline_ms)
        else:
            super().__init__(
                role,
                epoch,
                leader_id=former.leader_id,
                leader_endpoints=former.leader_endpoints,
                voted=former.voted,
                deadline_ms=deadline_ms,
            )
        self.voters = voters
        self.granted: set[int] = {local.id}
        self.rejected: set[int] = set()

    @property
    def won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def lost(self) -> bool:
        return len(self.voters) - len(self.rejected) < self.voters.majority

    @property
    def unrecorded(self) -> list[int]:
        return [voter for voter in self.voters.ids if voter not in self.granted and voter not in self.rejected]

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        if self.role is Role.CANDIDATE:
            return pre_vote and up_to_date
        return super().would_vote(candidate, up_to_date=up_to_date, pre_vote=pre_vote)


class FollowerState(RoleState):
    """State of a follower, which fetches from a known leader until the leader is silent for the fetch timeout."""

    __slots__ = ("fetching_position", "fetching_snapshot", "has_fetched", "installing_snapshot", "unreachable")

    def __init__(self, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...], voted: ReplicaKey | None, deadline_ms: int) -> None:
        super().__init__(Role.FOLLOWER, epoch, leader_id=leader_id, leader_endpoints=endpoints, voted=voted, deadline_ms=deadline_ms)
        self.has_fetched = False
        """Whether the leader has answered a fetch; if so, the follower grants no pre-vote."""
        self.unreachable = 0
        """Number of consecutive requests that found no process at the leader's address."""
        self.fetching_snapshot: OffsetAndEpoch | None = None
        self.fetching_position = 0
        self.installing_snapshot = False

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Return whether to grant a pre-vote; grant no vote, because the epoch already has a leader (FollowerState.canGrantVote)."""
        return pre_vote and up_to_date and not self.has_fetched


class LeaderState(RoleState):
    """State of a leader; `progress` holds the log ends of the other replicas."""

    __slots__ = ("begin_deadline_ms", "check_quorum_deadline_ms", "epoch_start_offset", "fetched", "progress")

    def __init__(self, epoch: int, local: ReplicaKey, endpoints: tuple[Endpoint, ...], epoch_start_offset: int, voters: VoterSet) -> None:
        super().__init__(Role.LEADER, epoch, leader_id=local.id, leader_endpoints=endpoints, voted=local)
        self.epoch_start_offset = epoch_start_offset
        self.progress = QuorumProgress(local, voters, epoch_start_offset)
        self.fetched: set[int] = set()
        """Voters that have fetched since the last time a majority had fetched."""
        self.check_quorum_deadline_ms = NEVER
        """Time in milliseconds at which the leader resigns unless a majority has fetched; NEVER for a sole voter."""
        self.begin_deadline_ms = 0
        """Time in milliseconds of the next BeginQuorumEpoch requests to voters that do not fetch."""

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, None)

    def lost_quorum(self, now_ms: int) -> bool:
        """Return whether a majority has been silent until the check-quorum deadline, after which another replica may lead."""
        return now_ms >= self.check_quorum_deadline_ms

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Return False, even before the leader's first commit: the vote response names the leader (LeaderState.canGrantVote)."""
        return False


class ResignedState(RoleState):
    """State of a replica that led this epoch before, and now only sends EndQuorumEpoch requests to the voters."""

    __slots__ = ("preferred", "unacknowledged")

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        endpoints: tuple[Endpoint, ...],
        voters: VoterSet,
        preferred: tuple[ReplicaKey, ...],
        deadline_ms: int,
    ) -> None:
        super().__init__(Role.RESIGNED, epoch, leader_id=local.id, leader_endpoints=endpoints, deadline_ms=deadline_ms)
        self.preferred = preferred
        self.unacknowledged = [voter for voter in voters.ids if voter != local.id]

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
