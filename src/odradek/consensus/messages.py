"""What goes into the core and what comes out of it.

The wire's messages carry topics, partitions and version differences; the shell strips those off, so that the core sees one request for
one log.
`-1` stands for "unknown" in ids, epochs and offsets, as on the wire.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from odradek.base.errors import ErrorCode
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey, VoterSet

# Requests ------------------------------------------------------------------------------------------------------------------


class VoteRequest(NamedTuple):
    """A candidate asks for a vote (`pre_vote`: would you, if I stood? in the epoch I have now)."""

    voter: ReplicaKey
    """Who is asked; id -1 when the sender's version does not say."""
    replica: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    """A new leader makes itself known."""

    voter: ReplicaKey
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpochRequest(NamedTuple):
    """A leader steps down and names who should stand first."""

    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


class FetchRequest(NamedTuple):
    """A replica asks for what follows its log's end, and thereby says how far it has come."""

    replica: ReplicaKey
    epoch: int
    """The leader epoch the replica knows."""
    offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    high_watermark: int = 2**63 - 1
    """The high watermark the replica knows (KIP-1166); the default never makes the leader answer early."""


class FetchSnapshotRequest(NamedTuple):
    """A replica asks for a piece of a snapshot, from byte `position`."""

    replica: ReplicaKey
    epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


Request: TypeAlias = VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest | FetchRequest | FetchSnapshotRequest

# Responses -----------------------------------------------------------------------------------------------------------------


class VoteResponse(NamedTuple):
    error: ErrorCode
    leader_id: int
    epoch: int
    granted: bool = False
    endpoints: tuple[Endpoint, ...] = ()


class BeginQuorumEpochResponse(NamedTuple):
    error: ErrorCode
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpochResponse(NamedTuple):
    error: ErrorCode
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()


class ControlUpdate(NamedTuple):
    """A control record that changes who votes, found in a batch at `offset`."""

    offset: int
    voters: VoterSet | None = None
    kraft_version: int | None = None


class FetchedRecords(NamedTuple):
    """Whole batches as a leader sent them. `payload` is the shell's own; the core never looks inside."""

    payload: object
    base_offset: int
    end_offset: int
    """One past the last record."""
    last_epoch: int
    control: tuple[ControlUpdate, ...] = ()


class FetchResponse(NamedTuple):
    """On the leader's side `read_from` asks the shell to attach what the log holds from there (up to its size limit)."""

    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    read_from: int | None = None
    records: FetchedRecords | None = None
    endpoints: tuple[Endpoint, ...] = ()


class FetchSnapshotResponse(NamedTuple):
    """On the leader's side `max_bytes` asks the shell to attach that much of the snapshot."""

    error: ErrorCode
    leader_id: int
    epoch: int
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(-1, -1)
    size: int = 0
    position: int = 0
    max_bytes: int = 0
    data: bytes = b""
    endpoints: tuple[Endpoint, ...] = ()


Response: TypeAlias = VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse | FetchResponse | FetchSnapshotResponse

# Events --------------------------------------------------------------------------------------------------------------------


class Tick(NamedTuple):
    """Time has passed: `Raft.deadline_ms` was reached."""


class RequestReceived(NamedTuple):
    """A peer's request; its answer comes out under the same token, now or later."""

    token: int
    request: Request


class ResponseReceived(NamedTuple):
    """The answer to the message sent under `correlation`; None when the connection failed or the request timed out."""

    correlation: int
    response: Response | None
    unreachable: bool = False
    """Of a missing answer: the connection was refused or broke, so that the process at its other end is probably gone."""


class Propose(NamedTuple):
    """The state machine above appends `record_count` records, in one batch, in the epoch in which it believes itself the leader."""

    epoch: int
    record_count: int
    payload: object


class Flushed(NamedTuple):
    """Everything below `end_offset` is durable in the local log."""

    end_offset: int


class SnapshotInstalled(NamedTuple):
    """The fetched snapshot is complete and durable, and the log has been restarted at its end."""

    snapshot_id: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class Resign(NamedTuple):
    """Step down from leading `epoch` (the state machine above cannot go on, or the process shuts down)."""

    epoch: int


class Shutdown(NamedTuple):
    """The process goes away: resign, stand for nothing any more."""


Event: TypeAlias = Tick | RequestReceived | ResponseReceived | Propose | Flushed | SnapshotInstalled | Resign | Shutdown

# What comes out ------------------------------------------------------------------------------------------------------------


class ElectionState(NamedTuple):
    """What must survive a crash: the epoch, and whom this replica follows or voted for in it (the file `quorum-state`)."""

    epoch: int
    leader_id: int = -1
    voted: ReplicaKey | None = None


class LeaderChange(NamedTuple):
    """The first control record of an epoch."""

    version: int
    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]


class VotersChange(NamedTuple):
    voters: VoterSet


class KRaftVersionChange(NamedTuple):
    level: int


ControlRecord: TypeAlias = LeaderChange | VotersChange | KRaftVersionChange


class LogAppend(NamedTuple):
    """One batch to append at `base_offset`: control records, the proposer's payload, or a leader's batches as they came."""

    base_offset: int
    end_offset: int
    epoch: int
    control: tuple[ControlRecord, ...] = ()
    payload: object = None
    fetched: FetchedRecords | None = None


class Outbound(NamedTuple):
    """A request for another node: a node id, or (negative: -2 is the first) one of the bootstrap servers."""

    correlation: int
    destination: int
    request: Request
    endpoints: tuple[Endpoint, ...] = ()


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot that is being fetched, to be written at `position`; `last` completes it."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes
    last: bool


class LeaderAndEpoch(NamedTuple):
    leader_id: int
    epoch: int


class Ready:
    """The work of one step, to be done in this order before the next step is taken:

    1. `quorum_state` made durable;
    2. `truncate_to`, then `appends` written to the log (their fsync may come later and is told by `Flushed`);
    3. `snapshot_chunks` written (the last one ends in `SnapshotInstalled`);
    4. `messages` and `replies` sent;
    5. `high_watermark` and `leader` told to the state machine above.
    """

    __slots__ = ("appends", "high_watermark", "leader", "messages", "quorum_state", "replies", "snapshot_chunks", "truncate_to")

    def __init__(self) -> None:
        self.quorum_state: ElectionState | None = None
        self.truncate_to: int | None = None
        self.appends: list[LogAppend] = []
        self.snapshot_chunks: list[SnapshotChunk] = []
        self.messages: list[Outbound] = []
        self.replies: list[tuple[int, Response]] = []
        self.high_watermark: int | None = None
        self.leader: LeaderAndEpoch | None = None
