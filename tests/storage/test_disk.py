"""The real file system."""

from __future__ import annotations

import os
import subprocess
import sys
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
