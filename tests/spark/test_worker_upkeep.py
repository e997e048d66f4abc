"""What is done in workers so that tasks begin and end quickly."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from odradek.spark import worker_upkeep


def test_a_worker_of_spark_spares_what_it_has_once(monkeypatch: pytest.MonkeyPatch) -> None:
    froze: list[str] = []
    monkeypatch.setattr(worker_upkeep.gc, "freeze", lambda: froze.append("now"))
    monkeypatch.setattr(worker_upkeep, "_spared", None)
    worker_upkeep.spare_what_stays()
    assert froze == [], "the process of a user"
    monkeypatch.setattr(worker_upkeep.TaskContext, "get", lambda: "a task")
    for _ in range(3):
        worker_upkeep.spare_what_stays()
    assert froze == ["now"]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive on the path, which has been imported from."""
    path = tmp_path / "modules.zip"
    write(path, "kept_one", "WHAT = 1")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.import_module("kept_one").WHAT == 1
    return path


def write(path: Path, *modules: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in zip(modules[::2], modules[1::2], strict=True):
            file.writestr(f"{name}.py", text)


def test_an_archive_is_listed_again_only_when_it_has_changed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    original = zipimporter.invalidate_caches

    def counted(importer: zipimporter) -> None:
        listed.append(importer.archive)
        original(importer)

    monkeypatch.setattr(zipimporter, "invalidate_caches", counted)
    worker_upkeep.keep_archives()
    for _ in range(5):
        importlib.invalidate_caches()
        worker_upkeep.keep_archives()
    assert listed.count(str(archive)) == 1, "what was listed before may be older than the file"
    write(archive, "kept_one", "WHAT = 1", "kept_two", "WHAT = 2")
    importlib.invalidate_caches()
    assert listed.count(str(archive)) == 2
    assert importlib.import_module("kept_two").WHAT == 2


def test_what_came_into_an_archive_before_it_was_kept_is_found(archive: Path) -> None:
    write(archive, "kept_one", "WHAT = 1", "kept_three", "WHAT = 3")
    worker_upkeep.keep_archives()
    importlib.invalidate_caches()
    assert importlib.import_module("kept_three").WHAT == 3


def test_an_archive_that_is_gone_hinders_nobody(archive: Path) -> None:
    worker_upkeep.keep_archives()
    importlib.invalidate_caches()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("kept_four")
    assert type(sys.path_importer_cache[str(archive)]) is not zipimporter
