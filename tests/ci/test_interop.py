"""The slice of the comparison with JVM Kafka: what a change touches, within a budget, and nothing that the table forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci import interop
from tests.ci.changes import ROOT
from tests.conftest import JVM_FILES


def test_every_file_with_a_jvm_is_in_the_table(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[JVM_FILES] <= interop.SECONDS.keys(), "say in tests/ci/interop.py how long these files take"


def test_the_table_names_files_and_packages_that_are_there() -> None:
    assert [path for path in [*interop.SECONDS, *interop.CORE] if not (ROOT / path).is_file()] == []
    rooms = {path.name for path in (ROOT / "src" / "odradek").iterdir() if path.is_dir()}
    for path in interop.SECONDS:
        if path not in interop.CORE and path.split("/")[1] != "campaigns":
            assert interop.concerns(path) <= rooms, path


def test_paths_of_a_change_name_packages() -> None:
    paths = [
        "src/odradek/storage/log.py",
        "tests/quotas/test_x.py",
        "src/pyspark_odradek/__init__.py",
        "docs/cli.md",
        "src/odradek/__init__.py",
    ]
    assert interop.touched(paths) == {"storage", "quotas", "spark"}


def slice_of(changed: list[str], budget_s: float = 10_000, seed: str = "a") -> tuple[list[str], list[str]]:
    return interop.chosen(sorted(interop.SECONDS), changed, budget_s, seed)


def test_a_change_of_documents_runs_the_core() -> None:
    assert sorted(slice_of(["README.md"])[0]) == sorted(interop.CORE)


def test_a_change_runs_what_shows_its_packages() -> None:
    chosen, over = slice_of(["src/odradek/quotas/clients.py"])
    assert set(chosen) == {*interop.CORE, "tests/interop/test_quotas.py", "tests/quotas/test_jvm.py"}
    assert over == []


def test_the_budget_is_kept_and_a_changed_file_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop, "SECONDS", dict.fromkeys(interop.SECONDS, 10))
    changed = ["src/odradek/client/producer/engine.py", "tests/interop/test_client_choices.py"]
    budget = (len(interop.CORE) + 3) * 5
    seen = set()
    for seed in "abcdefgh":
        chosen, over = slice_of(changed, budget, seed)
        assert len(chosen) == len(interop.CORE) + 3
        assert "tests/interop/test_client_choices.py" in chosen
        assert not set(chosen) & set(over)
        seen.update(chosen)
    assert len(seen) > len(interop.CORE) + 3, "another change runs other files"


def test_long_files_begin_first() -> None:
    chosen, _ = slice_of(["src/odradek/client/x.py", "src/odradek/security/x.py"])
    assert [interop.SECONDS[path] for path in chosen] == sorted((interop.SECONDS[path] for path in chosen), reverse=True)


def test_files_of_tests_are_named_once() -> None:
    names = {Path(path).stem for path in interop.SECONDS if path.split("/")[1] == "interop"}
    assert names <= interop.CONCERNS.keys()
