"""File `quorum-state`: the epoch, its leader and this replica's vote, as JSON (FileQuorumStateStore, QuorumStateData v0 and v1)."""

from __future__ import annotations

import json
from typing import cast

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.base.ids import ZERO_UUID, uuid_from_string, uuid_to_string
from odradek.consensus.messages import ElectionState
from odradek.consensus.voters import ReplicaKey

QUORUM_STATE = "quorum-state"


def encode_quorum_state(election: ElectionState, *, kraft_version: int, voters: tuple[int, ...]) -> bytes:
    """Encode version 0, which lists the voters, under kraft.version 0; else version 1, which names the directory voted for."""
    voted = election.voted
    fields: dict[str, object]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": -1 if voted is None else voted.id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters],
            "data_version": 0,
        }
    else:
        directory = ZERO_UUID if voted is None or voted.directory_id is None else voted.directory_id
        fields = {
            "leaderId": election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": -1 if voted is None else voted.id,
            "votedDirectoryId": uuid_to_string(directory),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes, path: str) -> ElectionState:
    """Decode the file. Raises StorageError when Kafka would not write it: a guess could make this replica vote twice."""
    try:
        parsed: object = json.loads(data)
        if not isinstance(parsed, dict):
            raise ValueError("not an object")
        fields = cast("dict[str, object]", parsed)
        version = _integer(fields, "data_version")
        if version not in (0, 1):
            raise ValueError(f"version {version} is unknown")
        voted_id = _integer(fields, "votedId", -1)
        directory = uuid_from_string(str(fields["votedDirectoryId"])) if version == 1 and voted_id >= 0 else ZERO_UUID
        voted = ReplicaKey(voted_id, None if directory == ZERO_UUID else directory) if voted_id >= 0 else None
        return ElectionState(_integer(fields, "leaderEpoch"), _integer(fields, "leaderId", -1), voted)
    except (ValueError, KeyError) as error:
        raise StorageError(f"{path} cannot be used: {error}") from None


def _integer(fields: dict[str, object], name: str, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {'missing' if value is None else 'not a number'}")
    return value


def read_quorum_state(disk: Disk, directory: str) -> ElectionState | None:
    """Return the election state, or None without the file. Remove a `.tmp` file: its write was never completed."""
    path = f"{directory}/{QUORUM_STATE}"
    if disk.exists(path + ".tmp"):
        disk.remove(path + ".tmp")
    if not disk.exists(path):
        return None
    return decode_quorum_state(disk.read_bytes(path), path)


def write_quorum_state(disk: Disk, directory: str, election: ElectionState, *, kraft_version: int, voters: tuple[int, ...]) -> None:
    """Write the election state durably."""
    disk.write_atomic(f"{directory}/{QUORUM_STATE}", encode_quorum_state(election, kraft_version=kraft_version, voters=voters))
