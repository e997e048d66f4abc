"""The real file system behind `base.disk.Disk`."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from odradek.base.disk import out_of_descriptors

P = ParamSpec("P")
T = TypeVar("T")

_IOV_MAX = 512
"""Buffers per system call, well below the IOV_MAX (1024) of Linux."""

_READ_AHEAD = 1 << 16

_SPARE: Final = 16
"""Descriptors of `OsDisk.keep_spare`: more than the threads that open files at the same time."""

_PROBE_EVERY = 128 * 1024
"""Distance in bytes between the pages looked up in the page cache. A smaller hole is missed, and costs one disk read."""

_RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


class OsFile:
    """An open descriptor; see `base.disk.File` for the contract."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size or not data:
            return data
        # The kernel moves at most 2 GiB a call and may stop early on a signal; only an empty read means the end of the file.
        parts = [data]
        missing = size - len(data)
        while missing > 0:
            data = os.pread(self._descriptor, missing, offset + size - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def pread_into(self, buffer: memoryview, offset: int) -> int:
        count = os.preadv(self._descriptor, [buffer], offset)
        while 0 < count < len(buffer):
            # Either a signal stopped the read or the file ends here; only an empty read tells the two apart.
            more = os.preadv(self._descriptor, [buffer[count:]], offset + count)
            if not more:
                break
            count += more
        return count

    def pread_cached(self, size: int, offset: int) -> bytes | bytearray | None:
        if not _RWF_NOWAIT:
            return None
        buffer = bytearray(size)
        try:
            count = os.preadv(self._descriptor, [buffer], offset, _RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                # tmpfs keeps all files in memory and does not support RWF_NOWAIT: a plain read never waits for a device there.
                return self.pread(size, offset)
            raise
        if count == size:
            # Returned without a copy: copying a megabyte into bytes costs five times the read (allocation and page faults).
            return buffer
        return buffer[:count] if offset + count >= self.size() else None

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        if not _RWF_NOWAIT or not self._is_cached(offset, size):
            return None
        try:
            sent = os.sendfile(socket, self._descriptor, offset, size)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOSYS):
                return None
            raise
        if sent == 0:
            raise EOFError(f"{self.path} ends before {offset + size}")
        return sent

    def _is_cached(self, offset: int, size: int) -> bool:
        """Return whether sampled pages of the range are in memory.

        The kernel reads and evicts files in runs of many pages, so sampling is enough.
        """
        one = [bytearray(1)]
        last = offset + size - 1
        try:
            for position in range(offset, last, _PROBE_EVERY):
                os.preadv(self._descriptor, one, position, _RWF_NOWAIT)
            os.preadv(self._descriptor, one, last, _RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            # tmpfs: see `pread_cached`.
            return error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
        return True

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        total = 0
        for buffer in buffers:
            total += len(buffer)
        written = os.pwritev(self._descriptor, buffers, offset) if len(buffers) <= _IOV_MAX else 0
        if written != total:
            self._write_rest(buffers, offset, written)
        return total

    def _write_rest(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int, written: int) -> None:
        pending: list[memoryview] = []
        skip = written
        for buffer in buffers:
            view = memoryview(buffer)
            if skip >= len(view):
                skip -= len(view)
                continue
            pending.append(view[skip:])
            skip = 0
        position = offset + written
        while pending:
            count = os.pwritev(self._descriptor, pending[:_IOV_MAX], position)
            if count == 0:
                raise OSError(errno.EIO, "the file system wrote no bytes", self.path)
            position += count
            while pending and count >= len(pending[0]):
                count -= len(pending[0])
                del pending[0]
            if count:
                pending[0] = pending[0][count:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsDirectoryLock:
    """Lock of a file: an flock(2) lock, plus a POSIX record lock, which the JVM's FileChannel.tryLock takes."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor of the locked file."""
        return self._descriptor

    def release(self) -> None:
        """Free the lock."""
        if self._descriptor >= 0:
            # A process that another thread is starting holds a copy of the descriptor until its exec; that copy would keep the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close the descriptor in a forked process, without freeing the lock, which the parent keeps."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class OsDisk:
    """The operating system's file system; see `base.disk.Disk` for the contract."""

    __slots__ = ("_most_spare", "_spare")

    def __init__(self) -> None:
        self._spare: list[int] = []
        self._most_spare = 0

    def keep_spare(self, count: int = _SPARE) -> None:
        """Keep `count` descriptors open as a reserve. A call that finds no free descriptor gets one of them.

        An operation of several steps that has begun (a truncation, a roll, a checkpoint) can thus end when connections or files have used
        up all other descriptors. The next call that finds enough free descriptors refills the reserve.
        """
        self._most_spare = count
        self._refill()

    def _refill(self) -> None:
        try:
            while len(self._spare) < self._most_spare:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if not out_of_descriptors(error):
                raise

    def _try(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`; give up spare descriptors while no other descriptor is free."""
        while True:
            try:
                result = call(*args, **kwargs)
            except OSError as error:
                if not out_of_descriptors(error) or not self._give_up_one():
                    raise
            else:
                if len(self._spare) < self._most_spare:
                    self._refill()
                return result

    def _give_up_one(self) -> bool:
        try:
            descriptor = self._spare.pop()
        except IndexError:
            return False
        os.close(descriptor)
        return True

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> OsFile:
        flags = os.O_CLOEXEC | (os.O_RDONLY if readonly else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        return OsFile(path, self._try(os.open, path, flags, 0o644))

    def read_bytes(self, path: str) -> bytes:
        descriptor = self._try(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, _READ_AHEAD)
            if len(data) < _READ_AHEAD:
                return data
            parts = [data]
            while data:
                data = os.read(descriptor, _READ_AHEAD)
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        descriptor = self._try(os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if durable:
            self.fsync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._try(os.listdir, path))

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def rmtree(self, path: str) -> None:
        import shutil  # imported here because its many dependencies are needed for deletions only

        try:
            self._try(shutil.rmtree, path)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise

    def fsync_dir(self, path: str) -> None:
        descriptor = self._try(os.open, path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        nanoseconds = time_ms * 1_000_000
        os.utime(path, ns=(nanoseconds, nanoseconds))

    def lock(self, path: str) -> OsDirectoryLock:
        descriptor = self._try(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # flock keeps out a second broker of this process (record locks belong to the process); lockf keeps out a JVM broker.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(error.errno, "held by another process", path) from None
            raise
        return OsDirectoryLock(descriptor)
