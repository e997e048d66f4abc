"""Replica keys, voter sets, and their changes along the log (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

T = TypeVar("T")


class OffsetAndEpoch(NamedTuple):
    """Position in the log: the next offset, and the epoch of the record before it."""

    offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)
"""Id of the snapshot that `storage format` writes: voters and kraft.version before the first record."""


class ReplicaKey(NamedTuple):
    """Replica by node id and, where known, by the id of the directory that holds its log."""

    id: int
    directory_id: UUID | None = None


class Endpoint(NamedTuple):
    """Address of one listener of a node, with the listener's name."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """Member of a voter set. `directory_id` has the value None in a static set (kraft.version 0)."""

    id: int
    directory_id: UUID | None = None
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id)


class VoterSet:
    """Replicas whose majority decides; immutable and ordered by id."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters: dict[int, Voter] = {voter.id: voter for voter in sorted(voters, key=lambda voter: voter.id)}

    def __len__(self) -> int:
        return len(self._voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(tuple(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({list(self._voters.values())!r})"

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._voters)

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._voters.get(node_id)

    def contains(self, key: ReplicaKey) -> bool:
        """Return whether the key belongs to a voter. The directory ids must match if the voter has one."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        return voter.directory_id is None or voter.directory_id == key.directory_id

    def is_only(self, key: ReplicaKey) -> bool:
        """Return whether the key belongs to the only voter."""
        return len(self._voters) == 1 and self.contains(key)

    def endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        voter = self._voters.get(node_id)
        return voter.endpoints if voter is not None else ()

    def replace(self, voter: Voter) -> VoterSet:
        """Return the set with `voter` instead of the present voter with that id."""
        voters: Mapping[int, Voter] = {**self._voters, voter.id: voter}
        return VoterSet(voters.values())

    def needs_update(self, local: Voter) -> bool:
        """Return whether the set lists `local` with endpoints or versions that differ from its present ones."""
        known = self._voters.get(local.id)
        return known is not None and self.contains(local.key) and known != local


class VoterHistory:
    """Voter sets and kraft.versions of the log, by the offset of their record. -1 stands for a snapshot at the start of the log.

    A set takes effect when it is appended, committed or not; a truncation brings the former set back.
    """

    __slots__ = ("_kraft_versions", "_sets", "_static")

    def __init__(self, static_voters: VoterSet) -> None:
        self._static = static_voters
        self._sets: list[tuple[int, VoterSet]] = []
        self._kraft_versions: list[tuple[int, int]] = []

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        """Add the set of a VotersRecord at `offset`. Raises ValueError when `offset` is not above the last one."""
        _append(self._sets, offset, voters)

    def add_kraft_version(self, offset: int, level: int) -> None:
        """Add the level of a KRaftVersionRecord at `offset`. Raises ValueError when `offset` is not above the last one."""
        _append(self._kraft_versions, offset, level)

    @property
    def current(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else self._static

    @property
    def current_offset(self) -> int | None:
        """Offset of the current set's record: -1 when only the bootstrap snapshot has the set, None for the static set."""
        return self._sets[-1][0] if self._sets else None

    @property
    def kraft_version(self) -> int:
        return self._kraft_versions[-1][1] if self._kraft_versions else 0

    def at(self, offset: int) -> tuple[VoterSet, int]:
        """Return voter set and kraft.version after all records below `offset`, for a snapshot that ends there."""
        voters = [entry for at, entry in self._sets if at < offset]
        levels = [entry for at, entry in self._kraft_versions if at < offset]
        return (voters[-1] if voters else self._static), (levels[-1] if levels else 0)

    def truncate_from(self, offset: int) -> None:
        """Remove the sets and levels of records at or above `offset`."""
        self._sets = [entry for entry in self._sets if entry[0] < offset]
        self._kraft_versions = [entry for entry in self._kraft_versions if entry[0] < offset]

    def restart(self, voters: VoterSet | None, kraft_version: int, offset: int) -> None:
        """Replace the history by the voters and kraft.version of a snapshot that ends at `offset` (exclusive)."""
        self._sets = [] if voters is None else [(offset - 1, voters)]
        self._kraft_versions = [(offset - 1, kraft_version)]


def _append(entries: list[tuple[int, T]], offset: int, value: T) -> None:
    if entries and entries[-1][0] >= offset:
        raise ValueError(f"control record at offset {offset} after one at {entries[-1][0]}")
    entries.append((offset, value))
