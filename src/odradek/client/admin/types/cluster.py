"""Types of the controllers' quorum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID


class RaftVoterEndpoint(NamedTuple):
    """Address on which a voter listens for other controllers."""

    listener: str
    host: str
    port: int


class QuorumReplicaState(NamedTuple):
    """Progress of a voter or observer in the metadata log. Times are None where the leader does not report them."""

    replica_id: int
    replica_directory_id: UUID
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


class QuorumInfo(NamedTuple):
    """Raft quorum as its leader knows it; `nodes` has the listeners of the voters by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaState, ...]
    observers: tuple[QuorumReplicaState, ...]
    nodes: Mapping[int, tuple[RaftVoterEndpoint, ...]]
