"""The disk of one life of an embedded node: what was open in it is closed at its end, whoever still knows of it."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from odradek.storage.disk import OsDisk
from odradek.testing.node_thread import MortalDisk


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("sync", [True, False])
def test_what_nobody_knows_of_any_more_is_closed_all_the_same(tmp_path: Path, sync: bool) -> None:
    gc.collect()  # what other tests have left
    before = _descriptors()
    disk = MortalDisk(sync=sync)
    disk.lock(str(tmp_path / ".lock"))
    disk.open(str(tmp_path / "file"), create=True)
    gc.collect()
    disk.die()
    disk.close()
    assert _descriptors() == before
    OsDisk().lock(str(tmp_path / ".lock")).release()


def test_what_is_closed_is_not_kept(tmp_path: Path) -> None:
    disk = MortalDisk()
    held = disk.lock(str(tmp_path / ".lock"))
    file = disk.open(str(tmp_path / "file"), create=True)
    file.close()
    held.release()
    assert disk._open == set()


def test_nothing_is_changed_after_the_end(tmp_path: Path) -> None:
    disk = MortalDisk()
    disk.die()
    for change in (
        lambda: disk.open(str(tmp_path / "file"), create=True),
        lambda: disk.lock(str(tmp_path / ".lock")),
        lambda: disk.makedirs(str(tmp_path / "folder")),
        lambda: disk.write_atomic(str(tmp_path / "file"), b"x"),
    ):
        with pytest.raises(OSError, match="Bad file descriptor"):
            change()
    assert os.listdir(tmp_path) == []
