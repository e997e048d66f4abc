"""The disk of one life of an embedded node: what was open in it is closed at its end, whoever still knows of it."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path

import pytest

from odradek.storage.disk import OsDisk
from odradek.testing.kit.node_thread import MortalDisk


def _descriptors(folder: Path) -> list[str]:
    """Return what is open in the folder; other descriptors of the process come and go with what other tests have begun."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was that of the listing
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith(f"{folder}/")]


@pytest.mark.parametrize("sync", [True, False])
def test_what_nobody_knows_of_any_more_is_closed_all_the_same(tmp_path: Path, sync: bool) -> None:
    disk = MortalDisk(sync=sync)
    disk.lock(str(tmp_path / ".lock"))
    disk.open(str(tmp_path / "file"), create=True)
    gc.collect()
    assert len(_descriptors(tmp_path)) == 2
    disk.die()
    disk.close()
    assert _descriptors(tmp_path) == []
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
