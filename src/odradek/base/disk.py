"""The file system as an argument.

Whatever writes files receives a `Disk`. `storage.disk.OsDisk` is the real one; `testing.disk.VirtualDisk` keeps
everything in memory, knows what has been fsynced, can lose the rest and can fail on demand. Paths are plain `str`.
All methods raise `OSError` (with `errno`) exactly as the operating system would.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


def out_of_descriptors(error: object) -> bool:
    """Return whether an error says that the process (EMFILE) or the machine (ENFILE) has no file descriptor left.

    It comes before anything is touched, and says nothing about the disk: the operation may be tried again. ENOMEM is not among these
    errors, as it may come from the middle of a write or an fsync. Of an error that was raised from an OSError, that one counts.
    """
    if isinstance(error, BaseException) and not isinstance(error, OSError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


class File(Protocol):
    """An open file. Offsets and sizes are bytes. Not thread-safe except for `pread`, `pread_into` and `fsync`."""

    path: str

    def size(self) -> int:
        """Current size of the file in bytes."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`; shorter only at end of file."""
        ...

    def pread_into(self, buffer: memoryview, offset: int) -> int:
        """As `pread`, into the caller's buffer: how many bytes, fewer than it holds only at end of file."""
        ...

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        """As `pread`, but None when the bytes are not wholly in the page cache (then use an executor)."""
        ...

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        """Has the kernel send `size` bytes from `offset` from the page cache to a non-blocking socket, by its descriptor.

        Returns how many the socket took, 0 when it is full; None where they are not in the page cache, or cannot be sent so. OSError,
        ConnectionError when it is the socket's; EOFError at the end of the file.
        """
        ...

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        """Writes all of the buffers at `offset`, in order; returns the number of bytes, always all of them."""
        ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Makes data and size durable. A failure is final: the caller must never retry it as a success."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """An exclusive lock on a file, held by this process until released."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        """Opens for reading and writing (or only reading); `create` makes the file when it is missing."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces `path` durably: writes `path + ".tmp"`, fsyncs it, renames it, fsyncs the directory.

        With `durable` False there is no fsync: after a power cut the path may be missing or hold anything, until the caller has
        fsynced file and directory. Without a power cut every process sees the file whole or not at all, even when this one is killed.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Names in the directory, sorted, so that runs are repeatable."""
        ...

    def makedirs(self, path: str) -> None:
        """Creates the directory and its parents; no error when it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic rename, replacing a file at `target`; durable only after `fsync_dir` of the parent."""
        ...

    def remove(self, path: str) -> None: ...

    def rmtree(self, path: str) -> None:
        """Removes a directory with all in it; no error when it is missing."""
        ...

    def fsync_dir(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int:
        """Modification time, milliseconds since the Unix epoch."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the file system that `path` lies on: in all, and still usable by this process."""
        ...

    def set_modified_ms(self, path: str, time_ms: int) -> None: ...

    def lock(self, path: str) -> DirectoryLock:
        """Takes an exclusive lock on the file, creating it; raises BlockingIOError when another holds it."""
        ...
