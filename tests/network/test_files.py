"""Files that settings name: what is no regular file neither blocks nor fills the memory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from odradek.network.files import read_file


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_file(str(tmp_path / "file")) == read_file(str(tmp_path / "link"), 7) == b"content"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(OSError, match="it has more than 6 bytes"):
        read_file(str(tmp_path / "file"), 6)


@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "socket", "missing"])
def test_what_is_no_file_is_an_error_at_once(tmp_path: Path, kind: str) -> None:
    path = "/dev/zero" if kind == "device" else str(tmp_path / kind)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        os.mkdir(path)
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "socket":
            bound.bind(path)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OSError, match=r"[a-z]") as failed:
            read_file(path)
        assert failed.value.strerror
        assert len(os.listdir("/proc/self/fd")) == len(before)
