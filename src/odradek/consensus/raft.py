"""Consensus core: one replica of one log. `step(event, now_ms)` returns work and has no other effect.

How the parts work together:

1. `Raft.step` passes each event to one function of `elections` or `replication`.
2. The event functions change the role by the `become_*` methods, which note the state that must be durable before messages are sent.
3. At the end of each step `polling.poll` acts for the role (asks for votes, fetches, announces) and returns the next deadline.

The shell performs each `Ready` completely and in order before it takes the next step. Only fsync may come later; `Flushed` reports it.
"""

from __future__ import annotations

import random

from odradek.base.errors import ErrorCode
from odradek.consensus import elections, polling, replication
from odradek.consensus.log import RaftLog
from odradek.consensus.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ControlRecord,
    ElectionState,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Event,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Flushed,
    KRaftVersionChange,
    LeaderAndEpoch,
    LeaderChange,
    LogAppend,
    Outbound,
    Propose,
    Ready,
    Request,
    RequestReceived,
    Resign,
    Response,
    ResponseReceived,
    Shutdown,
    SnapshotInstalled,
    Tick,
    VoteRequest,
    VoteResponse,
    VotersChange,
)
from odradek.consensus.requests import RequestManager
from odradek.consensus.states import NEVER, TRANSITIONS, FollowerState, LeaderState, NomineeState, ResignedState, Role, RoleState
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey, Voter, VoterHistory
from odradek.metrics.histogram import Histogram


class RaftTimeouts:
    """Timeouts in milliseconds, with Kafka's defaults (controller.quorum.*)."""

    __slots__ = (
        "election_backoff_max_ms",
        "election_ms",
        "fetch_max_wait_ms",
        "fetch_ms",
        "request_ms",
        "retry_backoff_ms",
        "unreachable_max_ms",
        "unreachable_min_ms",
    )

    def __init__(
        self,
        *,
        election_ms: int = 1000,
        election_backoff_max_ms: int = 1000,
        fetch_ms: int = 2000,
        request_ms: int = 2000,
        retry_backoff_ms: int = 20,
        fetch_max_wait_ms: int = 500,
        unreachable_min_ms: int = 50,
        unreachable_max_ms: int = 200,
    ) -> None:
        """Create the timeouts. A voter that cannot reach its leader stands for election after `unreachable_min_ms` to `unreachable_max_ms`.

        With `unreachable_max_ms` 0 a voter stands only after the fetch timeout, as in Kafka.
        """
        self.election_ms = election_ms
        self.election_backoff_max_ms = election_backoff_max_ms
        self.fetch_ms = fetch_ms
        self.request_ms = request_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.fetch_max_wait_ms = fetch_max_wait_ms
        self.unreachable_min_ms = min(unreachable_min_ms, unreachable_max_ms)
        self.unreachable_max_ms = unreachable_max_ms

    @property
    def check_quorum_ms(self) -> int:
        """Milliseconds that a leader leads without fetches from a majority (KIP-835: 1.5 fetch timeouts)."""
        return self.fetch_ms * 3 // 2

    @property
    def begin_quorum_ms(self) -> int:
        """Milliseconds between two announcements of the epoch to voters that do not fetch."""
        return self.fetch_ms // 2


class ParkedFetch:
    """Fetch that waits on the leader for records or a higher high watermark."""

    __slots__ = ("deadline_ms", "request", "token")

    def __init__(self, token: int, request: FetchRequest, deadline_ms: int) -> None:
        self.token = token
        self.request = request
        self.deadline_ms = deadline_ms


class Raft:
    """Replica of one log. The given log must be durable up to its end; `voters` must hold the log's voter records."""

    def __init__(
        self,
        *,
        local: Voter,
        log: RaftLog,
        voters: VoterHistory,
        election: ElectionState | None,
        rng: random.Random,
        timeouts: RaftTimeouts | None = None,
        bootstrap: tuple[int, ...] = (),
    ) -> None:
        self.local = local
        self.log = log
        self.voters = voters
        self.timeouts = timeouts or RaftTimeouts()
        self.bootstrap = tuple(server for server in bootstrap if server != local.id)
        self.rng = rng
        self.requests = RequestManager(request_timeout_ms=self.timeouts.request_ms, retry_backoff_ms=self.timeouts.retry_backoff_ms)
        self.state = RoleState(Role.UNATTACHED, 0)
        self.high_watermark = -1
        """Offset below which this replica knows everything to be committed; -1 when unknown. The offset never decreases."""
        self.log_end = log.end
        self.flushed_offset = log.end.offset
        self.parked: list[ParkedFetch] = []
        self.now_ms = 0
        self.deadline_ms = NEVER
        """Time of the next `Tick` in milliseconds on the clock of `step`; NEVER without a deadline."""
        self.shutting_down = False
        self.ready = Ready()
        self._recovered = election
        self._durable: ElectionState | None = election
        self._reported = LeaderAndEpoch(-1, -1)
        self._stands_since_ms: int | None = None
        self.election_times_ms = Histogram()
        """Milliseconds from this node's candidacy to a leader, be it this node or another one."""

    # State -----------------------------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self.state.role

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        return self.state.leader_id

    @property
    def is_leader(self) -> bool:
        return self.state.role is Role.LEADER

    @property
    def is_voter(self) -> bool:
        return self.voters.current.contains(self.local.key)

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """Leader and epoch for the state machine above. A resigned leader is reported as -1, though `quorum-state` still names it."""
        return LeaderAndEpoch(-1 if self.state.role is Role.RESIGNED else self.state.leader_id, self.state.epoch)

    def leader_state(self) -> LeaderState | None:
        """Return the leader's state, with the progress of the replicas, or None when this replica does not lead."""
        return self.state if isinstance(self.state, LeaderState) else None

    # Steps -----------------------------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> Ready:
        """Take the role that the recovered election state allows. A sole voter leads at once."""
        self._begin(now_ms)
        recovered = self._recovered or ElectionState(0)
        voters = self.voters.current
        if recovered.epoch < self.log_end.epoch:
            self.state = RoleState(Role.UNATTACHED, self.log_end.epoch, deadline_ms=self.election_deadline())
        elif recovered.leader_id == self.local.id:
            self.state = ResignedState(recovered.epoch, self.local.key, self.local.endpoints, voters, (), self.election_deadline())
        elif recovered.leader_id >= 0 and voters.endpoints(recovered.leader_id):
            endpoints = voters.endpoints(recovered.leader_id)
            self.state = FollowerState(recovered.epoch, recovered.leader_id, endpoints, recovered.voted, now_ms + self.timeouts.fetch_ms)
        elif recovered.voted == self.local.key and self.is_voter:
            self.state = RoleState(Role.VOTED, recovered.epoch, voted=recovered.voted, deadline_ms=self.election_deadline())
        else:
            role = Role.UNATTACHED if recovered.voted is None else Role.VOTED
            self.state = RoleState(
                role, recovered.epoch, leader_id=recovered.leader_id, voted=recovered.voted, deadline_ms=self.election_deadline()
            )
        self._note_election()
        if voters.is_only(self.local.key):
            self.become_prospective()
        return self._finish()

    def step(self, event: Event, now_ms: int) -> Ready:
        """Process one event and return the work to do before the next step. `now_ms` is monotonic."""
        self._begin(now_ms)
        if isinstance(event, RequestReceived):
            self._on_request(event)
        elif isinstance(event, ResponseReceived):
            self._on_response(event)
        elif isinstance(event, Propose):
            replication.on_propose(self, event)
        elif isinstance(event, Flushed):
            replication.on_flushed(self, event)
        elif isinstance(event, SnapshotInstalled):
            replication.on_snapshot_installed(self, event)
        elif isinstance(event, Resign):
            if self.is_leader and event.epoch == self.epoch:
                self.become_resigned()
        elif isinstance(event, Shutdown):
            self.shutting_down = True
            if self.is_leader:
                self.become_resigned()
        else:
            assert isinstance(event, Tick)
        return self._finish()

    def _begin(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.ready = Ready()
        self.log_end = self.log.end

    def _finish(self) -> Ready:
        self.deadline_ms = polling.poll(self)
        leader = self.leader_and_epoch
        if leader != self._reported:
            self._reported = leader
            self.ready.leader = leader
        return self.ready

    def _on_request(self, event: RequestReceived) -> None:
        token, request = event
        if self.shutting_down and not isinstance(request, VoteRequest | FetchSnapshotRequest):
            self.reply(token, _error_response(request, ErrorCode.BROKER_NOT_AVAILABLE, self))
        elif isinstance(request, VoteRequest):
            self.reply(token, elections.on_vote_request(self, request))
        elif isinstance(request, BeginQuorumEpochRequest):
            self.reply(token, elections.on_begin_quorum_epoch_request(self, request))
        elif isinstance(request, EndQuorumEpochRequest):
            self.reply(token, elections.on_end_quorum_epoch_request(self, request))
        elif isinstance(request, FetchRequest):
            replication.on_fetch_request(self, token, request)
        else:
            self.reply(token, replication.on_fetch_snapshot_request(self, request))

    def _on_response(self, event: ResponseReceived) -> None:
        answered = self.requests.answered(event.correlation, self.now_ms, failed=event.response is None)
        if answered is None:
            return
        destination, request = answered
        response = event.response
        if response is None:
            if event.unreachable:
                elections.note_unreachable_leader(self, destination)
            return
        if isinstance(self.state, FollowerState) and destination == self.state.leader_id:
            self.state.unreachable = 0
        if not elections.take_leader_from_response(self, response):
            self.requests.back_off(destination, self.now_ms)
        elif isinstance(response, VoteResponse) and isinstance(request, VoteRequest):
            elections.on_vote_response(self, destination, request, response)
        elif isinstance(response, EndQuorumEpochResponse):
            elections.on_end_quorum_epoch_response(self, destination, response)
        elif isinstance(response, FetchResponse) and isinstance(request, FetchRequest):
            replication.on_fetch_response(self, destination, request, response)
        elif isinstance(response, FetchSnapshotResponse) and isinstance(request, FetchSnapshotRequest):
            replication.on_fetch_snapshot_response(self, destination, request, response)

    # Helpers of the event functions ----------------------------------------------------------------------------------------

    def election_deadline(self) -> int:
        """Return the end of a new election timeout: one to two times `election_ms` from now. NEVER for an observer."""
        if not self.is_voter:
            return NEVER
        timeout_ms = max(self.timeouts.election_ms, 1)
        return self.now_ms + timeout_ms + self.rng.randrange(timeout_ms)

    def reply(self, token: int, response: Response) -> None:
        self.ready.replies.append((token, response))

    def send(self, destination: int, request: Request, endpoints: tuple[Endpoint, ...] = ()) -> None:
        """Send a request to a voter or bootstrap server. The caller has checked that no request to it is in flight."""
        correlation = self.requests.sent(destination, request, self.now_ms)
        self.ready.messages.append(Outbound(correlation, destination, request, endpoints or self.voters.current.endpoints(destination)))

    def append(self, count: int, epoch: int, *, control: tuple[ControlRecord, ...] = (), payload: object = None) -> None:
        """Append one batch of this leader at the end of the log."""
        base = self.log_end.offset
        self.ready.appends.append(LogAppend(base, base + count, epoch, control, payload))
        self.log_end = OffsetAndEpoch(base + count, epoch)
        for position, record in enumerate(control):
            if isinstance(record, VotersChange):
                self.voters.add_voters(base + position, record.voters)
            elif isinstance(record, KRaftVersionChange):
                self.voters.add_kraft_version(base + position, record.level)

    def raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.ready.high_watermark = offset

    # Changes of role -------------------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, leader_id: int = -1) -> None:
        """Become Unattached in `epoch`, with at most the id of the leader (QuorumState.transitionToUnattached).

        A running election timeout goes on; a follower's fetch timeout does not. The fetch timeouts of all followers end at nearly the same
        time, so all of them would stand for election at once.
        """
        former = self.state
        assert epoch >= former.epoch
        voted = former.voted if epoch == former.epoch else None
        refused = isinstance(former, NomineeState) and former.role is Role.PROSPECTIVE and former.lost
        deadline = NEVER if refused or former.role not in _ELECTION_TIMEOUT else former.deadline_ms
        if deadline == NEVER or not self.is_voter:
            deadline = self.election_deadline()
        role = Role.UNATTACHED if voted is None else Role.VOTED
        self._become(RoleState(role, epoch, leader_id=leader_id, voted=voted, deadline_ms=deadline))

    def become_voted(self, candidate: ReplicaKey) -> None:
        """Vote for `candidate` in this epoch, and restart the election timeout, because the candidate may win.

        A prospective only notes the vote and continues to ask for pre-votes.
        """
        state = self.state
        if state.role is Role.PROSPECTIVE:
            state.voted = candidate
            self._note_election()
        else:
            self._become(RoleState(Role.VOTED, state.epoch, voted=candidate, deadline_ms=self.election_deadline()))

    def become_follower(self, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        voted = self.state.voted if epoch == self.state.epoch else None
        self._become(FollowerState(epoch, leader_id, endpoints, voted, self.now_ms + self.timeouts.fetch_ms))

    def become_prospective(self) -> None:
        """Ask for pre-votes in the current epoch. A sole voter becomes candidate at once."""
        state = NomineeState(Role.PROSPECTIVE, self.state, self.epoch, self.local.key, self.voters.current, self.election_deadline())
        self._become(state)
        if state.won:
            self.become_candidate()

    def become_candidate(self) -> None:
        """Start a new epoch and vote for this replica. The vote is durable before requests are sent."""
        state = NomineeState(Role.CANDIDATE, self.state, self.epoch + 1, self.local.key, self.voters.current, self.election_deadline())
        self._become(state)
        if state.won:
            self.become_leader(state)

    def become_leader(self, candidate: NomineeState) -> None:
        """Become leader and append the first records of the epoch at once, because the high watermark only moves with them.

        The LeaderChange record has version 0, without directory ids, whatever kraft.version is: Kafka 4.3's tools read no other version.
        """
        voters = self.voters.current
        leader = LeaderState(candidate.epoch, self.local.key, self.local.endpoints, self.log_end.offset, voters)
        self._become(leader)
        keys = {voter.id: voter.key for voter in voters}
        granting = tuple(keys[voter] for voter in sorted(candidate.granted))
        control: list[ControlRecord] = [LeaderChange(0, self.local.id, tuple(keys.values()), granting)]
        offset = self.voters.current_offset
        if self.voters.kraft_version >= 1 and (offset == -1 or voters.needs_update(self.local)):
            control.append(KRaftVersionChange(self.voters.kraft_version))
            control.append(VotersChange(voters.replace(self.local)))
        self.append(len(control), candidate.epoch, control=tuple(control))
        replication.after_local_progress(self)

    def become_resigned(self) -> None:
        """Resign, and ask the voters with the longest logs to stand for election."""
        leader = self.leader_state()
        assert leader is not None
        preferred = leader.progress.by_descending_offset()
        deadline = self.election_deadline()
        self._become(ResignedState(self.epoch, self.local.key, self.local.endpoints, self.voters.current, preferred, deadline))

    def _become(self, state: RoleState) -> None:
        former = self.state
        if state.role not in TRANSITIONS[former.role]:
            raise AssertionError(f"{former.role.value} in epoch {former.epoch} cannot become {state.role.value} in epoch {state.epoch}")
        self.state = state
        if state.role in _STANDS:
            if self._stands_since_ms is None:
                self._stands_since_ms = self.now_ms
        elif self._stands_since_ms is not None and state.leader_id >= 0:
            self.election_times_ms.record(self.now_ms - self._stands_since_ms, self.now_ms / 1000)
            self._stands_since_ms = None
        if not (former.role in _UNBOUND and state.role in _UNBOUND and state.epoch == former.epoch):
            self.requests.reset()
        if former.role is Role.LEADER:
            replication.refuse_parked(self)
        self._note_election()

    def _note_election(self) -> None:
        election = self.state.election()
        if election != self._durable:
            self._durable = election
            self.ready.quorum_state = election


_UNBOUND = frozenset({Role.UNATTACHED, Role.VOTED})
"""Roles that send the same requests to the same nodes."""

_STANDS = frozenset({Role.PROSPECTIVE, Role.CANDIDATE})
"""Roles that ask for votes."""

_ELECTION_TIMEOUT = frozenset({Role.UNATTACHED, Role.VOTED, Role.PROSPECTIVE, Role.CANDIDATE, Role.RESIGNED})
"""Roles whose deadline is an election timeout."""


def _error_response(request: Request, error: ErrorCode, raft: Raft) -> Response:
    known = (error, raft.leader_id, raft.epoch)
    if isinstance(request, VoteRequest):
        return VoteResponse(*known)
    if isinstance(request, BeginQuorumEpochRequest):
        return BeginQuorumEpochResponse(*known)
    if isinstance(request, EndQuorumEpochRequest):
        return EndQuorumEpochResponse(*known)
    if isinstance(request, FetchRequest):
        return FetchResponse(*known)
    return FetchSnapshotResponse(*known)
