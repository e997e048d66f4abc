"""Parts of a virtual disk that fail."""

from __future__ import annotations

import errno
import random

import pytest

from odradek.testing.simulation.disk import CHANGES, VirtualDisk


def test_only_the_operations_under_the_prefix_fail_and_only_until_it_is_lifted() -> None:
    disk = VirtualDisk()
    disk.makedirs("/a")
    disk.makedirs("/b")
    one, other = disk.open("/a/f", create=True), disk.open("/b/f", create=True)
    failure = disk.fail("/a", "write", errno.EIO, after=1, times=2)
    one.pwritev([b"1"], 0)
    for _ in range(2):
        with pytest.raises(OSError, match="error") as caught:
            one.pwritev([b"2"], 1)
        assert caught.value.errno == errno.EIO
    one.pwritev([b"3"], 1)
    other.pwritev([b"4"], 0)
    one.fsync()
    assert (disk.read_bytes("/a/f"), failure.hits) == (b"13", 2)
    disk.fail("/a", error=errno.EIO).lift()
    assert disk.listdir("/a") == ["f"]
    with pytest.raises(ValueError, match="wriet"):
        disk.fail("/a", "wriet")


def test_a_read_only_disk_reads() -> None:
    disk = VirtualDisk()
    disk.makedirs("/a/d")
    disk.makedirs("/b")
    disk.write_atomic("/a/f", b"1")
    disk.fail("/a", CHANGES, errno.EROFS)
    assert disk.read_bytes("/a/f") == b"1"
    assert disk.open("/a/f", readonly=True).pread(1, 0) == b"1"
    for change in (
        lambda: disk.open("/a/f"),
        lambda: disk.open("/a/g", create=True),
        lambda: disk.rename("/a/f", "/b/f"),
        lambda: disk.remove("/a/f"),
        lambda: disk.makedirs("/a/e"),
        lambda: disk.rmtree("/a/d"),
        lambda: disk.fsync_dir("/a"),
        lambda: disk.lock("/a/.lock"),
    ):
        with pytest.raises(OSError, match=r"(?i)read-only"):
            change()


def test_a_full_disk_keeps_the_first_half_of_a_write() -> None:
    disk = VirtualDisk()
    file = disk.open("/f", create=True)
    disk.fail("/", "write", errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        file.pwritev([b"abcd"], 0)
    assert disk.read_bytes("/f") == b"ab"


def test_what_a_failed_fsync_did_not_write_is_never_durable() -> None:
    disk = VirtualDisk()
    file = disk.open("/f", create=True)
    disk.fsync_dir("/")
    file.pwritev([b"abcd"], 0)
    file.fsync()
    file.pwritev([b"XX"], 0)
    disk.fail("/f", "fsync", times=1)
    with pytest.raises(OSError, match="error"):
        file.fsync()
    file.pwritev([b"ef"], 4)
    file.fsync()
    assert file.pread(10, 0) == b"XXcdef"
    assert disk.crash(random.Random(1)).read_bytes("/f") == b"abcdef"
