"""The real file system."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.storage.disk import OsDisk


def test_vectored_writes_are_complete_however_many_buffers(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    buffers = [bytes([index % 251]) * (index % 7) for index in range(3000)]
    assert file.pwritev(buffers, 5) == sum(map(len, buffers))
    assert file.pread(1 << 20, 5) == b"".join(buffers)
    file.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.pwritev

    def stingy(descriptor: int, buffers: list[bytes], offset: int) -> int:
        return original(descriptor, [b"".join(bytes(buffer) for buffer in buffers)[:3]], offset)

    monkeypatch.setattr(os, "pwritev", stingy)
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    assert file.pwritev([b"abcd", b"", b"efg", b"hijklmnop"], 0) == 16
    assert file.pread(100, 0) == b"abcdefghijklmnop"
    file.close()


def test_cached_reads_equal_plain_ones_or_decline(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.pwritev([b"x" * 10_000], 0)
    for size, offset in ((100, 0), (10_000, 0), (100, 9_990), (10, 20_000)):
        cached = file.pread_cached(size, offset)
        assert cached is None or cached == file.pread(size, offset)
    file.close()


def _drained(receiving: socket.socket) -> bytes:
    pieces = []
    with contextlib.suppress(BlockingIOError):
        while piece := receiving.recv(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    sending, receiving = socket.socketpair()
    with sending, receiving:
        sending.setblocking(False)
        receiving.setblocking(False)
        yield sending, receiving


@pytest.mark.parametrize("folder", ["/var/tmp", "/dev/shm"])
def test_the_kernel_sends_what_is_in_its_cache_until_the_socket_is_full(folder: str, sockets: tuple[socket.socket, socket.socket]) -> None:
    sending, receiving = sockets
    data = random.Random(1).randbytes(3 << 20)
    with tempfile.NamedTemporaryFile(dir=folder) as named:
        file = OsDisk().open(named.name)
        file.pwritev([data], 0)
        position, received = 7, b""
        full = 0
        while position < len(data):
            sent = file.send_cached(sending.fileno(), position, min(1 << 20, len(data) - position))
            assert sent is not None
            if sent == 0:
                full += 1
                received += _drained(receiving)
            position += sent
        assert full
        assert received + _drained(receiving) == data[7:]
        file.close()


@pytest.mark.parametrize("hole", [(0, 1), (0, 4 << 20), (2 << 20, 128 << 10), ((4 << 20) - 1, 1)])
def test_what_is_not_in_the_cache_is_not_sent(
    tmp_path: Path, sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, hole: tuple[int, int]
) -> None:
    """Wherever the hole is. (The kernel forgets when it likes, and some file systems never.)"""
    sending, receiving = sockets
    size = 4 << 20
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.pwritev([bytes(size)], 0)
    start, length = hole
    original = os.preadv

    def preadv(descriptor: int, buffers: list[bytearray], offset: int, flags: int = 0) -> int:
        end = offset + sum(map(len, buffers))
        if flags == os.RWF_NOWAIT and offset < start + length and end > start:
            raise BlockingIOError
        return original(descriptor, buffers, offset, flags)

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.send_cached(sending.fileno(), 0, size) is None
    assert file.pread_cached(size, 0) is None
    assert _drained(receiving) == b""
    if start:
        assert file.send_cached(sending.fileno(), 0, start)
    file.close()


def test_the_end_of_a_file_and_a_socket_that_is_gone_are_errors(tmp_path: Path, sockets: tuple[socket.socket, socket.socket]) -> None:
    sending, receiving = sockets
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.pwritev([b"x" * 1000], 0)
    assert file.send_cached(sending.fileno(), 900, 200) == 100
    with pytest.raises(EOFError, match="ends before 1100"):
        file.send_cached(sending.fileno(), 1000, 100)
    receiving.close()
    with pytest.raises(ConnectionError):
        file.send_cached(sending.fileno(), 0, 1000)
    file.close()


def test_atomic_writes_replace_and_leave_nothing_behind(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / "f")
    disk.write_atomic(path, b"one")
    disk.write_atomic(path, b"two")
    assert disk.read_bytes(path) == b"two"
    assert disk.listdir(str(tmp_path)) == ["f"]


def test_locks_exclude(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / ".lock")
    held = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    held.release()
    held.release()
    disk.lock(path).release()


def test_a_lock_is_free_although_a_process_that_is_just_starting_has_a_copy(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = OsDisk().lock(path)
    copy = os.dup(held.fileno())
    held.release()
    OsDisk().lock(path).release()
    os.close(copy)


def test_a_lock_that_is_forgotten_stays_its_parents(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = OsDisk().lock(path)
    parents = os.dup(held.fileno())
    held.forget()
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path)
    os.close(parents)
    OsDisk().lock(path).release()


def test_times_and_trees(tmp_path: Path) -> None:
    disk = OsDisk()
    folder = str(tmp_path / "a" / "b")
    disk.makedirs(folder)
    disk.makedirs(folder)
    disk.open(f"{folder}/f", create=True).close()
    disk.set_modified_ms(f"{folder}/f", 1_234_567_890_123)
    assert disk.modified_ms(f"{folder}/f") == 1_234_567_890_123
    disk.fsync_dir(folder)
    disk.rmtree(str(tmp_path / "a"))
    disk.rmtree(str(tmp_path / "a"))
    assert not disk.exists(folder)


def test_a_lock_keeps_a_jvm_broker_out(tmp_path: Path) -> None:
    """FileChannel.tryLock takes a record lock (fcntl), which knows nothing of flock."""
    path = str(tmp_path / ".lock")
    attempt = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    held = OsDisk().lock(path)
    refused = subprocess.run([sys.executable, "-c", attempt, path], capture_output=True, check=False)
    assert b"BlockingIOError" in refused.stderr
    held.release()
    subprocess.run([sys.executable, "-c", attempt, path], check=True)


def test_what_is_written_atomically_is_durable_before_and_after_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        seen.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def record_replace(source: str, target: str) -> None:
        seen.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    OsDisk().write_atomic(str(tmp_path / "f"), b"x")
    assert seen == ["fsync f.tmp", "rename", f"fsync {tmp_path.name}"]
    seen.clear()
    OsDisk().write_atomic(str(tmp_path / "f"), b"y", durable=False)
    assert seen == ["rename"]
