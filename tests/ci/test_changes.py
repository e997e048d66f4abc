"""What counts as the change: its base commit, and the files and lines that it touches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ci import changes

_HOUR = 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI_BASE", raising=False)
    changes.git("init", "-q", folder=tmp_path)
    return tmp_path


def commit(folder: Path, hour: int, **texts: str) -> str:
    for name, text in texts.items():
        (folder / name).write_text(text)
    changes.git("add", "-A", folder=folder)
    when = f"{1_700_000_000 + hour * _HOUR} +0000"
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    environment = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when, "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)}
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=folder, check=True, env=environment)
    return changes.git("rev-parse", "HEAD", folder=folder).strip()


def test_the_base_is_the_newest_commit_that_is_four_hours_older(folder: Path) -> None:
    commit(folder, 0)
    base = commit(folder, 1)
    commit(folder, 4)
    commit(folder, 5)
    assert changes.base(folder) == base


def test_the_first_commit_is_the_base_of_a_young_history(folder: Path) -> None:
    first = commit(folder, 0)
    commit(folder, 1)
    assert changes.base(folder) == first


def test_the_environment_names_the_base(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = commit(folder, 0)
    commit(folder, 9)
    commit(folder, 10)
    monkeypatch.setenv("CI_BASE", first[:12])
    assert changes.base(folder) == first


def test_changed_files_and_lines_are_those_of_the_work_tree(folder: Path) -> None:
    base = commit(folder, 0, kept="1\n2\n3\n4\n", gone="1\n", same="1\n")
    commit(folder, 1, new="a\nb\n")
    (folder / "kept").write_text("1\ntwo\n3\n4\n5\n++ 6\n")
    (folder / "gone").unlink()
    assert changes.files(base, folder) == ["kept", "new"]
    assert changes.lines(base, folder) == {"kept": {2, 5, 6}, "new": {1, 2}}


def test_lines_that_look_like_headers_are_lines() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- 1\n-2\n+++ b/y\n+@@ -9 +9 @@\n@@ -7 +7,0 @@\n-7\n--- a/z\n+++ b/z\n@@ -0,0 +3 @@\n+3\n"
    assert changes.parse_lines(diff) == {"x": {1, 2}, "z": {3}}


def test_an_archive_of_the_sources_has_no_change(tmp_path: Path) -> None:
    assert not changes.is_repository(tmp_path)
    assert changes.base(tmp_path) == ""
    assert changes.files("", tmp_path) == []
    assert changes.lines("", tmp_path) == {}
