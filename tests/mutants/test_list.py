"""The list of planted bugs is whole: every text to edit is there, every name its own, every test to run exists."""

from __future__ import annotations

import pytest

from tests.mutants import __main__ as mutants


def test_every_mutant_can_be_planted() -> None:
    assert mutants.load()


@pytest.mark.parametrize("planted", mutants.load(), ids=lambda planted: planted.title)
def test_the_named_tests_are_files_that_exist(planted: mutants.Planted) -> None:
    paths = [word for word in mutants.named(planted.mutant) if word.startswith("tests/")]
    assert paths, "name the file of the test"
