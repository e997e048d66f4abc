"""Disk in memory that models power cuts and disk failures.

The model is a journalling file system that keeps as little as it may: `fsync` makes a file's bytes and size durable, `fsync_dir` makes the
names in a directory durable. Other changes may be lost. `crash` returns a disk that a machine could find after a power cut: a prefix of the
unsynced name changes has happened, and any subset of each file's unsynced writes, the last of them possibly torn. `fail` makes operations
fail as disks do: EIO, ENOSPC, EROFS or EACCES, at once or after a number of operations.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection, Sequence

FaultHook = Callable[[str, str], None]
"""Called as hook(operation, path) before each operation. Raises OSError (or `PowerCut`) to make the operation fail."""


NONE, ALL, PREFIX, DIRECTORIES, SUBSET = "none", "all", "prefix", "directories", "subset"
"""Changes that a power cut keeps, among those that are not durable; see `VirtualDisk.crash`."""


class PowerCut(BaseException):
    """Power cut at this operation, raised by a fault hook to stop the program. Not an `Exception`, so that no handler catches it."""


CHANGES = frozenset({"write", "truncate", "fsync", "create", "open", "rename", "remove", "mkdir", "rmdir", "fsync_dir"})
"""Every operation that a file system mounted read-only refuses. "open" is the opening of an existing file for writing."""
EVERYTHING = CHANGES | {"read"}


class Failure:
    """Failure of a part of the disk, made by `VirtualDisk.fail`."""

    __slots__ = ("_after", "error", "hits", "lifted", "operations", "prefix", "times")

    def __init__(self, prefix: str, operations: frozenset[str], error: int, after: int, times: int | None) -> None:
        self.prefix = prefix
        self.operations = operations
        self.error = error
        self.times = times
        self.hits = 0
        """Number of operations that have failed."""
        self.lifted = False
        self._after = after

    def lift(self) -> None:
        """End the failure."""
        self.lifted = True

    def strikes(self, operation: str, path: str, other: str) -> bool:
        """Return whether this operation fails, and count the operation."""
        if self.lifted or operation not in self.operations or not (self._covers(path) or (other and self._covers(other))):
            return False
        if self._after > 0:
            self._after -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True

    def _covers(self, path: str) -> bool:
        return path.startswith(self.prefix)


class _Inode:
    """File: its current bytes, its bytes at the last fsync, and the writes since then."""

    __slots__ = ("abandoned", "data", "durable", "modified_ms", "unsynced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.unsynced: list[tuple[int, bytes | None]] = []
        """(offset, bytes) of a write; (size, None) of a truncation."""
        self.abandoned = False
        """Whether an fsync has failed. Bytes written before a failed fsync stay in memory only, even when a later fsync succeeds."""
        self.modified_ms = 0

    def write(self, offset: int, data: bytes) -> None:
        _apply(self.data, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        _apply(self.data, size, None)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        if self.abandoned:
            durable = bytearray(self.durable)
            for offset, piece in self.unsynced:
                _apply(durable, offset, piece)
            self.durable = bytes(durable)
        else:
            self.durable = bytes(self.data)
        self.unsynced.clear()

    def abandon(self) -> None:
        """Mark the unsynced writes as clean, as Linux does when an fsync fails. The next fsync succeeds without writing them."""
        self.abandoned = True
        self.unsynced.clear()

    def after_crash(self, rng: random.Random, data: str) -> _Inode:
        """Return the file as a power cut may leave it."""
        survivor = _Inode()
        if data != ALL or self.abandoned:
            content = bytearray(self.durable)
            if data != NONE:
                last = len(self.unsynced) - 1
                for index, (offset, piece) in enumerate(self.unsynced):
                    if data == ALL:
                        _apply(content, offset, piece)
                    else:
                        _survive(content, offset, piece, rng, torn=index == last)
        else:
            content = bytearray(self.data)
        survivor.data = content
        survivor.durable = bytes(content)
        survivor.modified_ms = self.modified_ms
        return survivor


def _survive(data: bytearray, offset: int, piece: bytes | None, rng: random.Random, *, torn: bool) -> None:
    """Apply one write or truncation to `data`, or do not.

    Chance decides: no change, the whole change, the new size without the bytes, or a torn write. The last write is torn whenever it is
    applied. Bytes that existed before are either the old or the new bytes, since their blocks are allocated already.
    """
    chance = rng.random()
    if chance < 0.45:
        return
    if piece is not None and (torn or chance > 0.9):
        if chance > 0.95:
            # The size became durable; the blocks did not.
            piece = bytes(data[offset : offset + len(piece)]).ljust(len(piece), b"\0")
        else:
            piece = piece[: rng.randint(0, len(piece))]
    _apply(data, offset, piece)


def _apply(data: bytearray, offset: int, piece: bytes | None) -> None:
    size = len(data)
    if piece is None:
        if offset < size:
            del data[offset:]
        else:
            data.extend(bytes(offset - size))
        return
    if offset > size:
        data.extend(bytes(offset - size))
    data[offset : offset + len(piece)] = piece


_NameChange = tuple[str, str, _Inode | None, str]


class VirtualFile:
    """Open file of a `VirtualDisk`. The file stays usable after a rename or removal, as on Unix."""

    def __init__(self, disk: VirtualDisk, path: str, inode: _Inode, readonly: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._readonly = readonly
        self._closed = False

    def _enter(self, operation: str, *, changes: bool = False) -> None:
        if self._closed or (changes and self._readonly):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        self._disk.step(operation, self.path)

    def size(self) -> int:
        return len(self._inode.data)

    def pread(self, size: int, offset: int) -> bytes:
        self._enter("read")
        self._disk.check("read", self.path)
        return bytes(self._inode.data[offset : offset + size])

    def pread_into(self, buffer: memoryview, offset: int) -> int:
        data = self.pread(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def pread_cached(self, size: int, offset: int) -> bytes | None:
        return self.pread(size, offset)

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        return None

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        self._enter("write", changes=True)
        data = b"".join(buffers)
        try:
            self._disk.check("write", self.path)
            self._disk.take_space(max(0, offset + len(data) - len(self._inode.data)), self.path)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                # The part that still had space was written.
                self._write(data[: len(data) // 2], offset)
            raise
        self._write(data, offset)
        return len(data)

    def _write(self, data: bytes, offset: int) -> None:
        if data:
            self._inode.write(offset, data)
            self._inode.modified_ms = self._disk.time_ms()

    def truncate(self, size: int) -> None:
        self._enter("truncate", changes=True)
        self._disk.check("truncate", self.path)
        self._inode.truncate(size)
        self._inode.modified_ms = self._disk.time_ms()

    def fsync(self) -> None:
        self._enter("fsync")
        try:
            self._disk.check("fsync", self.path)
        except OSError:
            self._inode.abandon()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._closed = True


class _VirtualLock:
    def __init__(self, disk: VirtualDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class VirtualDisk:
    """`base.disk.Disk` in memory.

    `fault` is called before every operation on the disk. `steps` counts the operations that change the disk, so that a test can cut the
    power at each operation in turn. When the files would exceed `capacity` bytes, writes fail with ENOSPC.
    """

    def __init__(self, *, time_ms: Callable[[], int] = lambda: 0, fault: FaultHook | None = None, capacity: int | None = None) -> None:
        self.time_ms = time_ms
        self.fault = fault
        self.capacity = capacity
        self.steps = 0
        self.locks: set[str] = set()
        self._failures: list[Failure] = []
        self._files: dict[str, _Inode] = {}
        self._directories: set[str] = {"/"}
        self._durable_files: dict[str, _Inode] = {}
        self._durable_directories: set[str] = {"/"}
        self._unsynced_names: list[_NameChange] = []
        """(kind, path, inode, other path) in the order they happened; kind is link, unlink, rename, mkdir or rmdir."""

    def fail(
        self,
        prefix: str,
        operations: str | Collection[str] = EVERYTHING,
        error: int = errno.EIO,
        *,
        after: int = 0,
        times: int | None = None,
    ) -> Failure:
        """Make `operations` (a name or several of `EVERYTHING`) fail with `OSError(error)` on paths that begin with `prefix`.

        The first `after` of these operations succeed, and at most `times` fail. A write that fails with ENOSPC leaves its first half. After
        a failed fsync later fsyncs succeed, but a power cut still loses the bytes written before the failed fsync. Raises ValueError for an
        unknown operation.

        A failure stays with this disk until `Failure.lift`. The disks that `kill` and `crash` return have no failures.
        """
        chosen = frozenset({operations} if isinstance(operations, str) else operations)
        unknown = chosen - EVERYTHING
        if unknown:
            raise ValueError(f"unknown disk operation {', '.join(sorted(unknown))}")
        failure = Failure(prefix, chosen, error, after, times)
        self.fail_by(failure)
        return failure

    def fail_by(self, failure: Failure) -> None:
        """Let `failure.strikes` decide which operations fail; for a subclass that knows more than prefix and count."""
        self._failures.append(failure)

    def lift_failures(self) -> None:
        """End all failures."""
        self._failures.clear()

    def check(self, operation: str, path: str, other: str = "") -> None:
        """Raise OSError when a `Failure` applies to the operation."""
        for failure in self._failures:
            if failure.strikes(operation, path, other):
                raise OSError(failure.error, os.strerror(failure.error), path)

    def step(self, operation: str, path: str, other: str = "", *, check: bool = False) -> None:
        """Call the fault hook and count the operation; with `check`, also apply failures. Called before each operation."""
        if self.fault is not None:
            self.fault(operation, path)
        if operation != "read":
            self.steps += 1
        if check and self._failures:
            self.check(operation, path, other)

    def take_space(self, size: int, path: str) -> None:
        if self.capacity is not None and size and sum(len(inode.data) for inode in self._files.values()) + size > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> VirtualFile:
        path = os.path.normpath(path)
        inode = self._files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if os.path.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.step("create", path, check=True)
            inode = _Inode()
            inode.modified_ms = self.time_ms()
            self._files[path] = inode
            self._unsynced_names.append(("link", path, inode, ""))
        else:
            self.check("read" if readonly else "open", path)
        return VirtualFile(self, path, inode, readonly)

    def _inode(self, path: str) -> _Inode:
        inode = self._files.get(os.path.normpath(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def read_bytes(self, path: str) -> bytes:
        self.step("read", path, check=True)
        return bytes(self._inode(path).data)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwritev([data], 0)
            if durable:
                file.fsync()
        finally:
            file.close()
        self.rename(temporary, path)
        if durable:
            self.fsync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        path = os.path.normpath(path)
        return path in self._files or path in self._directories

    def is_dir(self, path: str) -> bool:
        return os.path.normpath(path) in self._directories

    def listdir(self, path: str) -> list[str]:
        path = os.path.normpath(path)
        self.step("read", path, check=True)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        prefix = path.rstrip("/") + "/"
        names = {name[len(prefix) :].split("/", 1)[0] for name in (*self._files, *self._directories) if name.startswith(prefix)}
        return sorted(names - {""})

    def makedirs(self, path: str) -> None:
        path = os.path.normpath(path)
        missing: list[str] = []
        while path not in self._directories:
            if path in self._files:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            missing.append(path)
            path = os.path.dirname(path) or "/"
        for directory in reversed(missing):
            self.step("mkdir", directory, check=True)
            self._directories.add(directory)
            self._unsynced_names.append(("mkdir", directory, None, ""))

    def rename(self, source: str, target: str) -> None:
        source, target = os.path.normpath(source), os.path.normpath(target)
        self.step("rename", source, target, check=True)
        if not self.exists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if source in self._directories and any(name.startswith(target + "/") for name in (*self._files, *self._directories)):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        _rename(self._files, self._directories, source, target)
        self._unsynced_names.append(("rename", source, None, target))

    def remove(self, path: str) -> None:
        path = os.path.normpath(path)
        self.step("remove", path, check=True)
        self._inode(path)
        del self._files[path]
        self._unsynced_names.append(("unlink", path, None, ""))

    def rmtree(self, path: str) -> None:
        path = os.path.normpath(path)
        for name in sorted(name for name in self._files if name.startswith(path + "/")):
            self.remove(name)
        for name in sorted((name for name in self._directories if name == path or name.startswith(path + "/")), reverse=True):
            self.step("rmdir", name, check=True)
            self._directories.discard(name)
            self._unsynced_names.append(("rmdir", name, None, ""))

    def fsync_dir(self, path: str) -> None:
        path = os.path.normpath(path)
        self.step("fsync_dir", path, check=True)
        later: list[_NameChange] = []
        for operation in self._unsynced_names:
            kind, name, _, other = operation
            if path in (os.path.dirname(name), os.path.dirname(other)) or (kind == "mkdir" and name == path):
                if kind == "rename" and name in self._durable_directories:
                    # Changes that are not durable inside the directory stay inside the directory, under its new name.
                    later = [_moved(each, name, other) for each in later]
                _replay(self._durable_files, self._durable_directories, operation)
            else:
                later.append(operation)
        self._unsynced_names = later

    # Methods for checkers: these are not operations of the program, so they are not counted and never fail.

    def peek(self, path: str) -> bytes | bytearray | None:
        """Return the file's current bytes, which the caller must not change, or None without a file."""
        inode = self._files.get(os.path.normpath(path))
        return None if inode is None else inode.data

    def peek_durable(self, path: str) -> bytes | bytearray | None:
        """Return the bytes that are in the file after any power cut, or None when a power cut may lose the file itself."""
        inode = self._durable_files.get(os.path.normpath(path))
        return None if inode is None else inode.durable

    def peek_names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory, sorted."""
        prefix = os.path.normpath(directory) + "/"
        return sorted(name[len(prefix) :] for name in self._files if name.startswith(prefix) and "/" not in name[len(prefix) :])

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def space(self, path: str) -> tuple[int, int]:
        """Return (total, free) bytes. Without `capacity` the total is 1 TiB."""
        self.step("read", path, check=True)
        total = 1 << 40 if self.capacity is None else self.capacity
        return total, max(0, total - sum(len(inode.data) for inode in self._files.values()))

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        self._inode(path).modified_ms = time_ms

    def lock(self, path: str) -> _VirtualLock:
        path = os.path.normpath(path)
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.open(path, create=True).close()
        self.locks.add(path)
        return _VirtualLock(self, path)

    def kill(self) -> VirtualDisk:
        """Return the disk as a killed process leaves the disk: all writes are kept, and no lock is held."""
        survivor = self._rebuilt(dict(self._files), set(self._directories), lambda inode: inode)
        survivor._durable_files = dict(self._durable_files)
        survivor._durable_directories = set(self._durable_directories)
        survivor._unsynced_names = list(self._unsynced_names)
        return survivor

    def crash(self, rng: random.Random, *, names: str = PREFIX, data: str = SUBSET) -> VirtualDisk:
        """Return a disk that a power cut at this moment could leave. This disk does not change.

        `names` chooses the name changes that happened, among those not yet durable: NONE, ALL, a PREFIX (as with a journal), or a separate
        prefix in each directory (DIRECTORIES). `data` chooses the unsynced writes and truncations: NONE, ALL, or any SUBSET, possibly torn.
        """
        files, directories = dict(self._durable_files), set(self._durable_directories)
        for operation in _surviving(self._unsynced_names, rng, names):
            _replay(files, directories, operation)
        # A file or directory is lost with the directory that contains it.
        directories = {path for path in directories if _is_reachable(path, directories)}
        files = {path: inode for path, inode in files.items() if os.path.dirname(path) in directories}
        return self._rebuilt(files, directories, lambda inode: inode.after_crash(rng, data))

    def _rebuilt(self, files: dict[str, _Inode], directories: set[str], copy: Callable[[_Inode], _Inode]) -> VirtualDisk:
        disk = VirtualDisk(time_ms=self.time_ms, capacity=self.capacity)
        disk._files = {path: copy(files[path]) for path in sorted(files)}
        disk._directories = directories
        disk._durable_files = dict(disk._files)
        disk._durable_directories = set(directories)
        return disk


def _moved(operation: _NameChange, source: str, target: str) -> _NameChange:
    kind, name, inode, other = operation
    prefix = source + "/"
    name = target + name[len(source) :] if name.startswith(prefix) else name
    other = target + other[len(source) :] if other.startswith(prefix) else other
    return kind, name, inode, other


def _is_reachable(path: str, directories: set[str]) -> bool:
    while path in directories:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def _surviving(operations: list[_NameChange], rng: random.Random, names: str) -> list[_NameChange]:
    if names == ALL or not operations:
        return operations
    if names == NONE:
        return []
    if names == PREFIX:
        return operations[: rng.randint(0, len(operations))]
    left: dict[str, int] = {}
    for _, path, _, _ in operations:
        parent = os.path.dirname(path)
        left[parent] = left.get(parent, 0) + 1
    left = {parent: rng.randint(0, count) for parent, count in left.items()}
    chosen: list[_NameChange] = []
    for operation in operations:
        parent = os.path.dirname(operation[1])
        if left[parent] > 0:
            left[parent] -= 1
            chosen.append(operation)
    return chosen


def _rename(files: dict[str, _Inode], directories: set[str], source: str, target: str) -> None:
    if source in directories:
        for name in [name for name in files if name.startswith(source + "/")]:
            files[target + name[len(source) :]] = files.pop(name)
        for name in [name for name in directories if name == source or name.startswith(source + "/")]:
            directories.discard(name)
            directories.add(target + name[len(source) :])
    elif source in files:
        files[target] = files.pop(source)


def _replay(files: dict[str, _Inode], directories: set[str], operation: _NameChange) -> None:
    kind, path, inode, other = operation
    if kind == "link" and inode is not None:
        files[path] = inode
    elif kind == "unlink":
        files.pop(path, None)
    elif kind == "rename":
        _rename(files, directories, path, other)
    elif kind == "mkdir":
        directories.add(path)
    elif kind == "rmdir":
        directories.discard(path)
