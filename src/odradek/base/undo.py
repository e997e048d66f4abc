"""How state that was replayed before its commit is taken back.

The controller and the coordinators replay records as soon as they are appended, so that the next request already sees them. Should the
append fail or the leadership go, the state returns to the last committed offset. Every mutation therefore leaves a closure that takes it
back, keyed by the offset of the record that caused it; a commit forgets closures, a failure runs them newest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class UndoJournal:
    """Closures in the order of their offsets. While `recording` is False (a replay of committed records) nothing is kept."""

    __slots__ = ("_entries", "offset", "recording")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, Callable[[], object]]] = deque()
        self.recording = True
        self.offset = -1
        """The offset of the record that is being replayed; `JournaledDict` records under it."""

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, offset: int, undo: Callable[[], object]) -> None:
        """Keeps `undo` for the mutation caused by the record at `offset`; ValueError when offsets go backwards."""
        if not self.recording:
            return
        if self._entries and self._entries[-1][0] > offset:
            raise ValueError(f"undo for offset {offset} after one for offset {self._entries[-1][0]}")
        self._entries.append((offset, undo))

    def revert_to(self, offset: int) -> None:
        """Takes back everything caused by records at `offset` or beyond, newest first; `offset` is the first that never happened."""
        entries = self._entries
        recording, self.recording = self.recording, False
        try:
            while entries and entries[-1][0] >= offset:
                entries.pop()[1]()
        finally:
            self.recording = recording

    def commit_to(self, offset: int) -> None:
        """Forgets what was caused by records below `offset`: they can no longer be taken back."""
        entries = self._entries
        while entries and entries[0][0] < offset:
            entries.popleft()

    def clear(self) -> None:
        """Forgets everything, without running it."""
        self._entries.clear()


class JournaledDict(Generic[K, V]):
    """A dictionary whose mutations can be taken back. Values must be replaced, never changed in place.

    Reverting restores keys and values, not the insertion order of keys that were deleted.
    """

    __slots__ = ("_items", "_journal")

    def __init__(self, journal: UndoJournal) -> None:
        self._items: dict[K, V] = {}
        self._journal = journal

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._remember(key)
        self._items[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self._items:
            raise KeyError(key)
        self._remember(key)
        del self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"JournaledDict({self._items!r})"

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def pop(self, key: K) -> V | None:
        """Removes the key; its value, or None when it was not there."""
        if key not in self._items:
            return None
        self._remember(key)
        return self._items.pop(key)

    def clear(self) -> None:
        for key in list(self._items):
            del self[key]

    def keys(self) -> KeysView[K]:
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        return self._items.items()

    def _remember(self, key: K) -> None:
        journal = self._journal
        if not journal.recording:
            return
        items = self._items
        if key in items:
            previous = items[key]

            def restore() -> None:
                items[key] = previous

            journal.record(journal.offset, restore)
        else:

            def remove() -> None:
                items.pop(key, None)

            journal.record(journal.offset, remove)
