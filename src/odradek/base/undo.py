"""Undo of state that was replayed before its commit.

The controller and the coordinators replay records as soon as they are appended, so that the next request already sees them. If the append
fails or the leadership is lost, the state returns to the last committed offset. Every mutation therefore records a call that undoes it,
with the offset of the record that caused it. A commit drops these calls; a failure runs them, newest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import repeat
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class UndoJournal:
    """Undo calls in the order of their offsets. While `recording` is False (a replay of committed records) no call is kept.

    A mutation may also record a call for its commit: `VersionedDict` then drops its copy of the former value.
    """

    __slots__ = ("_entries", "offset", "recording")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, Callable[..., object], Callable[..., object] | None, tuple[Any, ...]]] = deque()
        self.recording = True
        self.offset = -1
        """Offset of the record that is being replayed; `JournaledDict` records under it."""

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, offset: int, undo: Callable[..., object], committed: Callable[..., object] | None = None, *arguments: Any) -> None:
        """Keep `undo` for the mutation caused by the record at `offset`, and `committed` for its commit.

        Both are called with `arguments`: a tuple costs less than closures. Raises ValueError when offsets go backwards.
        """
        if not self.recording:
            return
        if self._entries and self._entries[-1][0] > offset:
            raise ValueError(f"undo for offset {offset} after one for offset {self._entries[-1][0]}")
        self._entries.append((offset, undo, committed, arguments))

    def revert_to(self, offset: int) -> None:
        """Undo all mutations of records at or above `offset`, newest first."""
        entries = self._entries
        recording, self.recording = self.recording, False
        try:
            while entries and entries[-1][0] >= offset:
                _, undo, _, arguments = entries.pop()
                undo(*arguments)
        finally:
            self.recording = recording

    def commit_to(self, offset: int) -> None:
        """Drop the undo calls of records below `offset` and run their calls for the commit."""
        entries = self._entries
        while entries and entries[0][0] < offset:
            _, _, committed, arguments = entries.popleft()
            if committed is not None:
                committed(*arguments)

    def clear(self) -> None:
        """Drop all calls without running them."""
        self._entries.clear()


class _Missing:
    """Marker for a missing key."""

    __slots__ = ()


_MISSING = _Missing()


class JournaledDict(Generic[K, V]):
    """Dictionary whose mutations can be undone. Values must be replaced, never changed in place.

    An undo restores keys and values, but not the insertion order of deleted keys.
    """

    __slots__ = ("_items", "_journal")

    def __init__(self, journal: UndoJournal) -> None:
        self._items: dict[K, V] = {}
        self._journal = journal

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._remember(key, value)
        self._items[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self._items:
            raise KeyError(key)
        self._remember(key, _MISSING)
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
        """Remove the key and return its value, or None when it is missing."""
        if key not in self._items:
            return None
        self._remember(key, _MISSING)
        return self._items.pop(key)

    def clear(self) -> None:
        for key in list(self._items):
            del self[key]

    def unjournaled(self) -> dict[K, V]:
        """Return the underlying dictionary, for many changes while nothing is recorded."""
        return self._items

    def keys(self) -> KeysView[K]:
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        return self._items.items()

    def _remember(self, key: K, value: V | _Missing) -> None:
        """Record the former value before a key is set or deleted."""
        journal = self._journal
        if not journal.recording:
            return
        journal.record(journal.offset, self._put_back, None, key, self._items.get(key, _MISSING))

    def _put_back(self, key: K, previous: V | _Missing) -> None:
        if isinstance(previous, _Missing):
            self._items.pop(key, None)
        else:
            self._items[key] = previous


class VersionedDict(JournaledDict[K, V]):
    """Dictionary with two states: the latest, and (by `committed*`) the committed one, without the changes that may still be undone.

    Where the two differ, the committed value is kept beside the items.
    """

    __slots__ = ("_former", "_uncommitted")

    def __init__(self, journal: UndoJournal) -> None:
        super().__init__(journal)
        self._former: dict[K, V | _Missing] = {}
        self._uncommitted = 0
        """Number of changes that are neither committed nor undone. At 0 both states are equal, and keys need not be compared."""

    @property
    def uncommitted(self) -> int:
        """Number of keys with two values, because the latest may still be undone."""
        return len(self._former)

    def committed(self, key: K) -> V | None:
        """Return the committed value, None when the committed state lacks the key."""
        former = self._former
        if key not in former:
            return self._items.get(key)
        value = former[key]
        return None if isinstance(value, _Missing) else value

    def committed_items(self) -> Iterator[tuple[K, V]]:
        """Yield all committed keys with their values. Keys whose deletion is not committed come last. Change nothing while iterating."""
        former = self._former
        for key, value in self._items.items():
            if key not in former:
                yield key, value
        for key, value_then in former.items():
            if not isinstance(value_then, _Missing):
                yield key, value_then

    def put_all(self, values: Mapping[K, V]) -> None:
        """Set all values as one change, of the record at the journal's offset: they are committed or undone together.

        `values` is kept until then, and must not be changed.
        """
        self._remember_all(values)
        self._items.update(values)

    def _remember(self, key: K, value: V | _Missing) -> None:
        # Does for one key what `_remember_all` does for many, without building dictionaries.
        journal = self._journal
        if not journal.recording:
            return
        previous = self._items.get(key, _MISSING)
        self._former.setdefault(key, previous)
        self._uncommitted += 1
        journal.record(journal.offset, self._undo, self._commit, key, previous, value)

    def _undo(self, key: K, previous: V | _Missing, _: V | _Missing) -> None:
        self._uncommitted -= 1
        self._restore(key, previous)

    def _commit(self, key: K, _: V | _Missing, value: V | _Missing) -> None:
        self._uncommitted -= 1
        if self._uncommitted:
            self._show_committed(key, value)
        else:
            self._former.clear()

    def _restore(self, key: K, previous: V | _Missing) -> None:
        committed_value = self._former.get(key, self._items.get(key, _MISSING))
        self._put_back(key, previous)
        self._show_committed(key, committed_value)

    def _remember_all(self, values: Mapping[K, V]) -> None:
        journal = self._journal
        if not journal.recording:
            return
        items, former = self._items, self._former
        previous: dict[K, V | _Missing] = dict(zip(values, map(items.get, values, repeat(_MISSING)), strict=True))
        if former:
            for key, value in previous.items():
                former.setdefault(key, value)
        else:
            former.update(previous)
        self._uncommitted += 1
        journal.record(journal.offset, self._undo_all, self._commit_all, previous, values)

    def _undo_all(self, previous: Mapping[K, V | _Missing], _: Mapping[K, V]) -> None:
        self._uncommitted -= 1
        for key, value in previous.items():
            self._restore(key, value)

    def _commit_all(self, _: Mapping[K, V | _Missing], values: Mapping[K, V]) -> None:
        self._uncommitted -= 1
        if not self._uncommitted:
            self._former.clear()
            return
        for key, value in values.items():
            self._show_committed(key, value)

    def _show_committed(self, key: K, value: V | _Missing) -> None:
        """Record `value` as the key's committed value, unless the items hold the same object (not only an equal one)."""
        if self._items.get(key, _MISSING) is value:
            self._former.pop(key, None)
        else:
            self._former[key] = value
