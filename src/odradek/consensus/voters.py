"""Who may vote: replica keys, voter sets, and how both change along the log (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

T = TypeVar("T")


class OffsetAndEpoch(NamedTuple):
    """A position in the log: the next offset, and the epoch of the record before it."""

    offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)
"""The snapshot that `storage format` writes: voters and kraft.version before the first record."""


class ReplicaKey(NamedTuple):
    """A replica by its node id and, where it is known, the directory that holds its log."""

    id: int
    directory_id: UUID | None = None


class Endpoint(NamedTuple):
    """Where a node listens, under the name of the listener."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """One member of a voter set. `directory_id` is None in a static set (kraft.version 0)."""

    id: int
    directory_id: UUID | None = None
    endpoints: tuple[Endpoint, ...] = ()
    min_kraft_version: int = 0
    max_kraft_version: int = 1

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id)


class VoterSet:
    """The replicas whose majority decides; immutable, in the order of their ids."""

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
        """Whether the key is a voter: the directory must match where the set names one."""
        voter = self._voters.get(key.id)
        if voter is None:
            return False
        return voter.directory_id is None or voter.directory_id == key.directory_id

    def is_only(self, key: ReplicaKey) -> bool:
        """Whether the key is the one and only voter."""
        return len(self._voters) == 1 and self.contains(key)

    def endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        voter = self._voters.get(node_id)
        return voter.endpoints if voter is not None else ()

    def replace(self, voter: Voter) -> VoterSet:
        """The set with `voter` in the place of the one with its id."""
        voters: Mapping[int, Voter] = {**self._voters, voter.id: voter}
        return VoterSet(voters.values())

    def needs_update(self, local: Voter) -> bool:
        """Whether the set holds `local` under other endpoints or versions than it has now."""
        known = self._voters.get(local.id)
        return known is not None and self.contains(local.key) and known != local


class VoterHistory:
    """The voter sets and kraft.versions of the log, by the offset of the record that brought them (-1: from a snapshot at the start).

    A set counts from the moment it is appended, committed or not; truncation brings the former one back.
    """

    __slots__ = ("_kraft_versions", "_sets", "_static")

    def __init__(self, static_voters: VoterSet) -> None:
        self._static = static_voters
        self._sets: list[tuple[int, VoterSet]] = []
        self._kraft_versions: list[tuple[int, int]] = []

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        """A VotersRecord at `offset`; records must come in the order of the log."""
        _append(self._sets, offset, voters)

    def add_kraft_version(self, offset: int, level: int) -> None:
        """A KRaftVersionRecord at `offset`."""
        _append(self._kraft_versions, offset, level)

    @property
    def current(self) -> VoterSet:
        return self._sets[-1][1] if self._sets else self._static

    @property
    def current_offset(self) -> int | None:
        """Where the current set stands: -1 when only the bootstrap snapshot has it, None when it is the static one."""
        return self._sets[-1][0] if self._sets else None

    @property
    def kraft_version(self) -> int:
        return self._kraft_versions[-1][1] if self._kraft_versions else 0

    def at(self, offset: int) -> tuple[VoterSet, int]:
        """The set and kraft.version in force after all records below `offset`, for a snapshot that ends there."""
        voters = [entry for at, entry in self._sets if at < offset]
        levels = [entry for at, entry in self._kraft_versions if at < offset]
        return (voters[-1] if voters else self._static), (levels[-1] if levels else 0)

    def truncate_from(self, offset: int) -> None:
        """Forgets what records at `offset` and beyond brought."""
        self._sets = [entry for entry in self._sets if entry[0] < offset]
        self._kraft_versions = [entry for entry in self._kraft_versions if entry[0] < offset]

    def restart(self, voters: VoterSet | None, kraft_version: int, offset: int) -> None:
        """The log was replaced by a snapshot that ends at `offset` and holds these."""
        self._sets = [] if voters is None else [(offset - 1, voters)]
        self._kraft_versions = [(offset - 1, kraft_version)]


def _append(entries: list[tuple[int, T]], offset: int, value: T) -> None:
    if entries and entries[-1][0] >= offset:
        raise ValueError(f"control record at offset {offset} after one at {entries[-1][0]}")
    entries.append((offset, value))
