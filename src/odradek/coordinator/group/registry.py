"""Registry of a shard's groups of all types by id; a join or commit creates a missing classic group."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal, VersionedDict
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.group import Group


class Groups:
    """Groups of one shard. The table is journaled: reverting an uncommitted record reverts its creation or removal of a group."""

    __slots__ = ("_groups", "_time_ms")

    def __init__(self, journal: UndoJournal, time_ms: Callable[[], int]) -> None:
        self._groups: VersionedDict[str, Group] = VersionedDict(journal)
        self._time_ms = time_ms

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def ids(self) -> list[str]:
        return list(self._groups)

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def find_committed(self, group_id: str) -> Group | None:
        return self._groups.committed(group_id)

    def committed(self) -> Iterator[Group]:
        """Iterate over the groups of the committed state. The table must not change during the iteration."""
        return (group for _, group in self._groups.committed_items())

    def get(self, group_id: str) -> Group:
        """Return the group. Raises KafkaError with GROUP_ID_NOT_FOUND for an unknown group."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group; None for an unknown group or another type."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def get_or_create_classic(self, group_id: str) -> ClassicGroup:
        """Return the classic group, created if necessary. Raises KafkaError with GROUP_ID_NOT_FOUND for a group of another type."""
        group = self._groups.get(group_id)
        if group is None:
            group = ClassicGroup(group_id, time_ms=self._time_ms)
            self._groups[group_id] = group
            return group
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def put(self, group: Group) -> None:
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> Group | None:
        return self._groups.pop(group_id)
