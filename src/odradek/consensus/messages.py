"""Inputs and outputs of the consensus core.

Messages on the wire carry topics, partitions and version differences. The shell removes these, so that a request in the core is for one
log. In ids, epochs and offsets `-1` means "unknown", as on the wire.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from odradek.base.errors import ErrorCode
from odradek.consensus.voters import Endpoint, OffsetAndEpoch, ReplicaKey, VoterSet

# Requests ------------------------------------------------------------------------------------------------------------------


class VoteRequest(NamedTuple):
    """Request of a candidate for a vote. With `pre_vote` a prospective asks whether it would get the vote, in its current epoch."""

    voter: ReplicaKey
    """Replica that is asked; id -1 when the sender's version does not name it."""
    replica: ReplicaKey
    epoch: int
    last_offset: int
    last_epoch: int
    pre_vote: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    """Announcement of a new leader."""

    voter: ReplicaKey
    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpochRequest(NamedTuple):
    """Resignation of a leader, with the voters that should stand for election first."""

    leader_id: int
    epoch: int
    preferred: tuple[ReplicaKey, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


class FetchRequest(NamedTuple):
    """Request of a replica for the records from the end of its log on; `offset` also tells the leader how far the replica has come."""

    replica: ReplicaKey
    epoch: int
    """Leader epoch that the replica knows."""
    offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    high_watermark: int = 2**63 - 1
    """High watermark that the replica knows (KIP-1166).

    With the default the leader never answers early because of a newer high watermark.
    """


class FetchSnapshotRequest(NamedTuple):
    """Request of a replica for a chunk of a snapshot, from byte `position`."""

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
    """Control record at `offset` that changes the voters or the kraft.version."""

    offset: int
    voters: VoterSet | None = None
    kraft_version: int | None = None


class FetchedRecords(NamedTuple):
    """Whole batches as a leader sent them. The shell owns `payload`; the core never reads it."""

    payload: object
    base_offset: int
    end_offset: int
    """Offset after the last record."""
    last_epoch: int
    control: tuple[ControlUpdate, ...] = ()


class FetchResponse(NamedTuple):
    """Response to a fetch.

    On the leader, `read_from` tells the shell to attach records from that offset on, up to the shell's size limit.
    """

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
    """Response to a snapshot fetch. On the leader, `max_bytes` tells the shell to attach that many bytes of the snapshot."""

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
    """Notice that the time `Raft.deadline_ms` was reached."""


class RequestReceived(NamedTuple):
    """Request of a peer. The core answers under the same token, in this step or in a later one."""

    token: int
    request: Request


class ResponseReceived(NamedTuple):
    """Response to the message sent under `correlation`; None when the connection failed or the request timed out."""

    correlation: int
    response: Response | None
    unreachable: bool = False
    """Whether the connection was refused or broke, so that the peer's process is probably gone. Only set without a response."""


class Propose(NamedTuple):
    """Append of `record_count` records in one batch. `epoch` is the epoch in which the state machine above believes that it leads."""

    epoch: int
    record_count: int
    payload: object


class Flushed(NamedTuple):
    """Notice that everything below `end_offset` is durable in the local log."""

    end_offset: int


class SnapshotInstalled(NamedTuple):
    """Notice that the fetched snapshot is complete and durable, and that the log restarted at the snapshot's end."""

    snapshot_id: OffsetAndEpoch
    voters: VoterSet | None
    kraft_version: int


class Resign(NamedTuple):
    """Order to resign from `epoch`, because the state machine above cannot go on or the process shuts down."""

    epoch: int


class Shutdown(NamedTuple):
    """Notice that the process shuts down: the replica resigns and stands in no further election."""


Event: TypeAlias = Tick | RequestReceived | ResponseReceived | Propose | Flushed | SnapshotInstalled | Resign | Shutdown

# Outputs -------------------------------------------------------------------------------------------------------------------


class ElectionState(NamedTuple):
    """Election state that must survive a crash: the epoch, and its leader or the replica's vote in it (the file `quorum-state`)."""

    epoch: int
    leader_id: int = -1
    voted: ReplicaKey | None = None


class LeaderChange(NamedTuple):
    """First control record of an epoch."""

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
    """Batch to append at `base_offset`: control records, a proposer's payload, or batches fetched from a leader."""

    base_offset: int
    end_offset: int
    epoch: int
    control: tuple[ControlRecord, ...] = ()
    payload: object = None
    fetched: FetchedRecords | None = None


class Outbound(NamedTuple):
    """Request for another node. `destination` is a node id, or a negative number (from -2 down) for a bootstrap server."""

    correlation: int
    destination: int
    request: Request
    endpoints: tuple[Endpoint, ...] = ()


class SnapshotChunk(NamedTuple):
    """Bytes of a fetched snapshot, to write at byte `position`; `last` completes the snapshot."""

    snapshot_id: OffsetAndEpoch
    position: int
    data: bytes
    last: bool


class LeaderAndEpoch(NamedTuple):
    leader_id: int
    epoch: int


class Ready:
    """Work of one step. The shell does it in this order before it takes the next step:

    1. Make `quorum_state` durable.
    2. Truncate to `truncate_to`, then write `appends` to the log. The fsync of `appends` may come later; `Flushed` reports it.
    3. Write `snapshot_chunks`. After the last chunk the shell sends `SnapshotInstalled`.
    4. Send `messages` and `replies`.
    5. Pass `high_watermark` and `leader` to the state machine above.
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
