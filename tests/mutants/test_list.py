"""The list of planted bugs is whole: every text to edit is there once, every name is its own, every test to run is a file."""

from __future__ import annotations

from tests.mutants import __main__ as mutants
from tests.mutants.mutant import Mutant


def test_every_mutant_can_be_planted() -> None:
    assert len(mutants.load()) >= 200


def test_every_mutant_names_a_file_of_tests() -> None:
    nameless = [each.title for each in mutants.load() if not any(word.startswith("tests/") for word in mutants.named(each.mutant))]
    assert not nameless


def test_every_test_that_a_mutant_names_exists() -> None:
    gone = []
    for each in mutants.load():
        for file, _, test in (word.partition("::") for word in mutants.named(each.mutant) if "::" in word):
            function = test.partition("[")[0].rpartition("::")[2]
            if f"def {function}(" not in (mutants.ROOT / file).read_text():
                gone.append(f"{each.title}: {test}")
    assert not gone


def test_a_word_that_selects_tests_is_no_folder() -> None:
    mutant = Mutant("name", "server/fetchers.py", "", "", "", "server/test_fetchers.py storage -k metadata")
    assert mutants.named(mutant) == ["tests/server/test_fetchers.py", "tests/storage", "-k", "metadata"]


def test_what_is_equivalent_is_explained_and_rare() -> None:
    planted = mutants.load()
    equivalent = [each for each in planted if each.mutant.equivalent]
    assert all(len(each.mutant.equivalent) > 20 for each in equivalent)
    assert len(equivalent) < len(planted) / 20


def test_mutants_in_changed_lines_come_first() -> None:
    planted = mutants.load()[::50]
    one = planted[7]
    path = one.mutant.path
    text = (mutants.SOURCES / "odradek" / path).read_text()
    line = text[: text.index(one.mutant.before)].count("\n") + 1
    changed = {f"src/odradek/{path}": {line}}
    assert mutants.touched(one, changed)
    assert not mutants.touched(one, {f"src/odradek/{path}": {line - 1, line + one.mutant.before.rstrip().count("\n") + 1}})
    assert mutants.chosen(planted, changed, 5, 1)[0] == one
    assert len(mutants.chosen(planted, changed, 5, 1)) == 5
    assert mutants.chosen(planted, changed, 0, 1) == [one]
    assert mutants.chosen(planted, {}, 0, 1) == []
    assert mutants.chosen(planted, None, 0, 1) == planted
    assert mutants.chosen(planted, None, 5, 1) != mutants.chosen(planted, None, 5, 2)
