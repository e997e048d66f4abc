"""File system as an argument.

Code that writes files receives a `Disk`. `storage.disk.OsDisk` is the real one. `testing.simulation.disk.VirtualDisk` keeps everything in
memory, knows what has been fsynced, can lose the rest and can fail on demand. Paths are plain `str`. All methods raise `OSError` (with
`errno`) exactly as the operating system would.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


def out_of_descriptors(error: object) -> bool:
    """Return whether an error says that the process (EMFILE) or the machine (ENFILE) has no free file descriptor.

    Such an error comes before any change and says nothing about the disk: the operation may be tried again. ENOMEM is not included, because
    it may come from the middle of a write or an fsync. For an error that was raised from an OSError, that OSError is examined.
    """
    if isinstance(error, BaseException) and not isinstance(error, OSError):
        error = error.__cause__
    return isinstance(error, OSError) and error.errno in _OUT_OF_DESCRIPTORS


class File(Protocol):
    """Open file. Offsets and sizes are bytes. Not thread-safe except for `pread`, `pread_into` and `fsync`."""

    path: str

    def size(self) -> int:
        """Return the current size of the file in bytes."""
        ...

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; fewer only at the end of the file."""
        ...

    def pread_into(self, buffer: memoryview, offset: int) -> int:
        """Read as `pread` does, into the caller's buffer. Return the number of bytes, which is below the buffer's size only at the end of
        the file.
        """
        ...

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        """Read as `pread` does, but return None when some bytes are not in the page cache (then use an executor)."""
        ...

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        """Let the kernel send `size` bytes from `offset` from the page cache to a non-blocking socket, given by its descriptor.

        Returns the number of bytes that the socket accepted, 0 when it is full. Returns None when the bytes are not in the page cache, or
        cannot be sent in this way.

        Raises OSError, ConnectionError for an error of the socket, EOFError at the end of the file.
        """
        ...

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        """Write all buffers at `offset`, in order. Return the number of bytes, always all of them."""
        ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Make data and size durable. A failure is final: the caller must never treat a retry as a success."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """Exclusive lock on a file, held by this process until released."""

    def release(self) -> None: ...


class Disk(Protocol):
    """File system."""

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        """Open for reading and writing, or only for reading; `create` creates the file when it is missing."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace `path` durably: write `path + ".tmp"`, fsync it, rename it, fsync the directory.

        With `durable` False nothing is fsynced: after a power cut the path may be missing or hold anything, until the caller has fsynced
        file and directory. Without a power cut every process sees the whole file or no file, even if this process is killed.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in the directory, sorted, so that runs are repeatable."""
        ...

    def makedirs(self, path: str) -> None:
        """Create the directory and its parents; an existing directory is not an error."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename atomically, replacing a file at `target`; durable only after `fsync_dir` of the parent."""
        ...

    def remove(self, path: str) -> None: ...

    def rmtree(self, path: str) -> None:
        """Remove a directory with its content; a missing directory is not an error."""
        ...

    def fsync_dir(self, path: str) -> None: ...

    def modified_ms(self, path: str) -> int:
        """Return the modification time in milliseconds since the Unix epoch."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the bytes of the file system that contains `path`: in total, and still usable by this process."""
        ...

    def set_modified_ms(self, path: str, time_ms: int) -> None: ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock the file exclusively, creating it if missing. Raises BlockingIOError when another process or lock holds it."""
        ...
