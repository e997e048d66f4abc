"""Bounded cache for all threads and for forked children."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from odradek.client.calls.forks import renew_after_fork

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """LRU cache of at most `capacity` entries."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value, or None for a missing or evicted key."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> V:
        """Store a value and return it."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        return value

    def pop(self, key: K) -> V | None:
        """Remove and return the value, or None for a missing key."""
        with self._lock:
            return self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
