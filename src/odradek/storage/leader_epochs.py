"""Start offsets of the leader epochs in a log, and `leader-epoch-checkpoint` (KIP-101; Kafka's LeaderEpochFileCache)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from odradek.base.disk import Disk
from odradek.storage.checkpoints import read_epoch_checkpoint, write_epoch_checkpoint

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class _Order:
    """Order of the writes of one checkpoint: the order in which they were begun, whatever threads they run in."""

    __slots__ = ("begun", "lock", "written")

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.begun = 0
        self.written = 0


class EpochWrite:
    """New contents of the checkpoint, collected on the loop; `run` may be called in any thread."""

    __slots__ = ("_order", "_path", "entries", "number")

    def __init__(self, path: str, entries: list[EpochEntry], order: _Order) -> None:
        order.begun += 1
        self._path = path
        self._order = order
        self.entries = entries
        self.number = order.begun

    @property
    def directory(self) -> str:
        return self._path.rpartition("/")[0]

    def run(self, disk: Disk) -> None:
        """Write the file durably, unless a write that was begun later has been written. Raises OSError from the disk."""
        order = self._order
        with order.lock:
            if self.number > order.written:
                write_epoch_checkpoint(disk, self._path, self.entries)
                order.written = self.number


class LeaderEpochCache:
    """Leader epochs with their start offsets; both rise from entry to entry.

    The checkpoint file is written when the log is flushed (`is_behind`). Until then recovery finds the epochs in the batches and drops
    entries that lie outside the log. The next start drops an epoch without a record in any case.

    Errors: OSError from the disk; StorageError from `load` when the file is malformed.
    """

    __slots__ = ("_disk", "_epochs", "_order", "_starts", "_written", "latest_epoch", "path")

    def __init__(self, disk: Disk, path: str, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock` is a threading.Lock where flushes and truncations run in different threads."""
        self._disk = disk
        self._order = _Order(lock or nullcontext())
        self.path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self._written: list[EpochEntry] | None = None
        """Entries in the file; None when the file holds the entries of the cache."""

    def load(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self._written = [EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)]  # holds if the file cannot be read
        for epoch, start_offset in read_epoch_checkpoint(self._disk, self.path):
            self._assign(epoch, start_offset)
        self._written = None
        self._refresh()

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    @property
    def earliest(self) -> EpochEntry | None:
        """First known entry."""
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int, *, flush: bool = False) -> None:
        """Record that `epoch` begins at `start_offset`, and drop entries that contradict it. Raises ValueError for a negative number."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset}: neither may be negative")
        before = self._kept()
        if self._assign(epoch, start_offset):
            self._written = before
            self._refresh()
            if flush:
                self.flush()

    def _kept(self) -> list[EpochEntry]:
        """Return the entries in the file; called before a change."""
        return self.entries if self._written is None else self._written

    def _assign(self, epoch: int, start_offset: int) -> bool:
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def _refresh(self) -> None:
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch <= `epoch` and the offset where it ends (exclusive); (-1, -1) when unknown.

        For an epoch below the first known one, return `epoch` and the first known start offset, as Kafka does.
        """
        epochs = self._epochs
        if epoch == UNDEFINED_EPOCH or not epochs:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(epochs, epoch)
        if higher == len(epochs):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if higher == 0:
            return epoch, self._starts[0]
        return epochs[higher - 1], self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which `offset` was (or will be) written, None before the first entry."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the entries that begin at or after `end_offset`."""
        if end_offset < 0 or not self._starts or self._starts[-1] < end_offset:
            return
        self._written = self._kept()
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
        self._refresh()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove entries wholly before `start_offset`; the entry that covers `start_offset` begins there from now on."""
        covered = bisect_right(self._starts, start_offset)
        if not covered or (covered == 1 and self._starts[0] == start_offset):
            return
        self._written = self._kept()
        del self._epochs[: covered - 1], self._starts[: covered - 1]
        self._starts[0] = start_offset

    def clear(self) -> None:
        if self._epochs:
            self._written = self._kept()
            self._epochs.clear()
            self._starts.clear()
            self._refresh()

    def complete(self, entries: Sequence[EpochEntry]) -> None:
        """Prepend the entries that begin before the first known one; all entries when the cache is empty.

        `entries` must rise in both columns.
        """
        known = self.entries
        missing = [
            entry for entry in entries if not known or (entry.start_offset < known[0].start_offset and entry.epoch <= known[0].epoch)
        ]
        if missing:
            self.begin_with([*missing, *(known[1:] if known and missing[-1].epoch == known[0].epoch else known)])

    def begin_with(self, entries: Sequence[EpochEntry]) -> None:
        """Replace all entries by `entries`, which rise in both columns."""
        self._written = self._kept()
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]
        self._refresh()

    @property
    def dirty(self) -> bool:
        """Return whether the file holds other entries than the cache."""
        return self._written is not None

    def is_behind(self, log_end_offset: int) -> bool:
        """Return whether cache and file differ in epochs that begin below the log end, which alone count after a restart."""
        if self._written is None:
            return False
        return [entry for entry in self.entries if entry[1] < log_end_offset] != [
            entry for entry in self._written if entry[1] < log_end_offset
        ]

    def is_ahead(self, log_end_offset: int) -> bool:
        """Return whether the file holds epochs that begin beyond the log end, as after the loss of records that had been flushed."""
        return any(start > log_end_offset for _, start in self._kept())

    def begin_write(self) -> EpochWrite:
        """Return a write of the current entries, for a flush."""
        return EpochWrite(self.path, self.entries, self._order)

    def finish_write(self, write: EpochWrite) -> None:
        """Record that the write ran, unless a truncation has written other entries since."""
        if self._order.written == write.number:
            self._written = None if write.entries == self.entries else write.entries

    def flush(self) -> None:
        """Write the checkpoint file durably, on this thread."""
        self.begin_write().run(self._disk)
        self._written = None
