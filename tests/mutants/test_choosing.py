"""Choice of tests and bugs, in a small repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import __main__ as mutants
from tests.mutants import bug, choosing, released
from tests.mutants.bug import Bug

SOURCE = "class Log:\n    def read_slice(self, offset):\n        return offset < self.end\n"
BUG = Bug("odradek/storage/log.py", SOURCE.index("<"), "<", "<=", "an offset beyond the retention is read", is_row=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    texts = {
        "conftest.py": '_LONGEST = (\n    "storage/test_long.py",  # long\n)\n',
        "storage/test_log.py": "from odradek.storage.log import Log\n",
        "storage/test_long.py": "from odradek.storage.log import Log\nread_slice\n",
        "storage/test_parts.py": "from odradek.storage import (\n    index,\n    log as l,\n)\n",
        "storage/test_slices.py": "import tests.storage.support\nLog().read_slice(5)\n",
        "storage/test_retention.py": "def test_no_offset_beyond_retention_counts(): ...\n",
        "storage/test_other.py": "\n",
        "storage/test_jvm.py": "pytestmark = pytest.mark.jvm\nread_slice\n",
        "storage/support.py": "import odradek.storage.log\n",
        "client/test_far.py": "\n",
        "client/test_importing.py": "from odradek.storage.log import Log\n",
        "campaigns/test_campaign.py": "from odradek.storage.log import Log\n",
    }
    for name, text in texts.items():
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    return tmp_path


def test_near_files_name_the_module_or_share_rare_words(root: Path) -> None:
    chosen = [file.removeprefix("tests/") for file in choosing.first(BUG, SOURCE, 9, root)]
    assert chosen[0] == "storage/test_log.py"
    assert {"storage/test_parts.py", "storage/test_slices.py", "storage/test_retention.py"} == set(chosen[1:4])
    assert "client/test_importing.py" in chosen
    assert not {"client/test_far.py", "storage/test_long.py", "storage/test_jvm.py", "campaigns/test_campaign.py"} & set(chosen)
    assert choosing.first(BUG, SOURCE, 1, root) == ["tests/storage/test_log.py"]


def test_a_package_has_a_folder_of_tests(root: Path) -> None:
    assert choosing.package("odradek/storage/log.py", root) == "tests/storage"
    assert choosing.package("odradek/absent/log.py", root) == ""
    assert choosing.package("pyspark_odradek/source.py") == "tests/spark"


def test_rows_in_changed_lines_are_touched() -> None:
    rows = list(bug.rows(["storage"]))
    one = rows[0]
    numbers = one.line_numbers(mutants.text_of(one.path))
    path = f"src/{one.path}"
    assert one in mutants.touched(rows, {path: {numbers[0]}})
    assert one not in mutants.touched(rows, {path: {numbers[0] - 1, numbers[-1] + 1}})
    assert mutants.touched(rows, {}) == []


def test_generic_mutants_stand_in_changed_lines_of_the_packages() -> None:
    path = next(bug.rows(["storage"])).path
    lines = {f"src/{path}": set(range(1, 400)), "README.md": {1}, "src/odradek/records/_raw.pxd": {1}}
    found = list(mutants.generic(lines, []))
    assert found
    assert {each.path for each in found} == {path}
    assert list(mutants.generic(lines, ["storage"])) == found
    assert list(mutants.generic(lines, ["client"])) == []


def test_mutants_are_drawn_by_the_seed() -> None:
    found = [Bug("odradek/a.py", number, "a", "b", "kind") for number in range(50)]
    assert mutants.drawn(found, 5, 1) == mutants.drawn(found, 5, 1) != mutants.drawn(found, 5, 2)
    assert sorted(mutants.drawn(found, 0, 1)) == sorted(mutants.drawn(found, 99, 2)) == found


def test_a_clone_without_the_tag_is_told(tmp_path: Path) -> None:
    with pytest.raises(released.NoTagError, match="git fetch --unshallow --tags"):
        released.run([], tmp_path)


def test_the_long_list_runs_with_the_options_of_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def run(arguments: list[str]) -> int:
        given.extend(arguments)
        return 7

    monkeypatch.setattr(released, "run", run)
    assert mutants.main(["--room", "base", "--all", "--only", "a"]) == 7
    assert given == ["--room", "base", "--only", "a"]
