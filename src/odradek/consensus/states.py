"""The roles of a replica, and from which to which it may go.

Rules that hold in every role:

- The epoch only grows. Whoever learns of a larger epoch gives up its role for Unattached (or Follower, when the leader is known with it).
- A replica votes at most once in an epoch, and what it voted is durable before the vote is sent. A pre-vote binds nobody.
- Records of an epoch are appended by its one leader. A leader that restarts begins as Resigned, never again as Leader of the same epoch:
  records it had not flushed may be gone.
- Observer is not a role: it is a replica outside the voter set, Unattached or Follower, whose timers start no election.

`Prospective` (KIP-996) asks for pre-votes before it disturbs anybody with a new epoch.
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
    # A larger epoch, a vote given, a leader found, or the election timeout.
    Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.VOTED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    # A majority of pre-votes makes a candidate; a loss goes back to where it came from; it may vote for another meanwhile.
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE}),
    # A majority of votes makes a leader; the timeout asks for pre-votes again.
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    # Only a larger epoch or a resignation ends leading.
    Role.LEADER: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.RESIGNED}),
    # The fetch timeout asks for pre-votes; a new leader comes with a larger epoch.
    Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
    # The election timeout moves on to the next epoch (a sole voter stands for it at once).
    Role.RESIGNED: frozenset({Role.UNATTACHED, Role.VOTED, Role.FOLLOWER, Role.PROSPECTIVE}),
}

NEVER: Final = 2**63 - 1
"""A deadline that is not reached."""


class RoleState:
    """What every role knows. Deadlines are milliseconds on the clock of `Raft.step`."""

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
        """Whether the vote may be given, in the epoch of this state (EpochState.canGrantVote)."""
        if pre_vote:
            return up_to_date
        if self.voted is not None:
            return self.voted.id == candidate.id and (self.voted.directory_id is None or self.voted.directory_id == candidate.directory_id)
        return self.leader_id < 0 and up_to_date


class NomineeState(RoleState):
    """Prospective and Candidate: the votes of one election, counted once per voter."""

    __slots__ = ("granted", "rejected", "voters")

    def __init__(self, role: Role, former: RoleState, epoch: int, local: ReplicaKey, voters: VoterSet, deadline_ms: int) -> None:
        """A candidate has voted for itself in a new epoch; a prospective stays in the epoch and with the vote and leader it knew."""
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
    """Fetches from a known leader until that stays silent for the fetch timeout."""

    __slots__ = ("fetching_position", "fetching_snapshot", "has_fetched", "installing_snapshot", "unreachable")

    def __init__(self, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...], voted: ReplicaKey | None, deadline_ms: int) -> None:
        super().__init__(Role.FOLLOWER, epoch, leader_id=leader_id, leader_endpoints=endpoints, voted=voted, deadline_ms=deadline_ms)
        self.has_fetched = False
        """Whether it hears the leader: then it grants no pre-vote against it."""
        self.unreachable = 0
        """How many requests in a row found nobody at the leader's address."""
        self.fetching_snapshot: OffsetAndEpoch | None = None
        self.fetching_position = 0
        self.installing_snapshot = False

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """The vote of an epoch that has its leader is no use to anybody, not even to the one who got it (FollowerState.canGrantVote)."""
        return pre_vote and up_to_date and not self.has_fetched


class LeaderState(RoleState):
    """Leads its epoch; what the others have is in `progress`."""

    __slots__ = ("begin_deadline_ms", "check_quorum_deadline_ms", "epoch_start_offset", "fetched", "progress")

    def __init__(self, epoch: int, local: ReplicaKey, endpoints: tuple[Endpoint, ...], epoch_start_offset: int, voters: VoterSet) -> None:
        super().__init__(Role.LEADER, epoch, leader_id=local.id, leader_endpoints=endpoints, voted=local)
        self.epoch_start_offset = epoch_start_offset
        self.progress = QuorumProgress(local, voters, epoch_start_offset)
        self.fetched: set[int] = set()
        """Voters that fetched since the quorum was last seen to be there."""
        self.check_quorum_deadline_ms = NEVER
        """When this replica leads no more unless a majority fetches; NEVER for the only voter."""
        self.begin_deadline_ms = 0
        """When voters that do not fetch are told of the epoch next."""

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, None)

    def lost_quorum(self, now_ms: int) -> bool:
        """Whether a majority has been silent for so long that another may lead by now."""
        return now_ms >= self.check_quorum_deadline_ms

    def would_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Never, not even before its first commit: who asks is told who leads (LeaderState.canGrantVote)."""
        return False


class ResignedState(RoleState):
    """Led this epoch once and does nothing more in it but tell the voters."""

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
