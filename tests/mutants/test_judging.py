"""Verdicts about planted bugs, with runs of tests that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from tests.mutants.bug import Bug
from tests.mutants.judging import NEAR_S, Judge, Stage, State, stages
from tests.mutants.planting import Outcome, first_failure

BUG = Bug("odradek/a.py", 0, "a", "b", "a row", is_row=True)
NEAR = Stage("near", ("tests/a.py",), 10)
PACKAGE = Stage("package", ("tests",), 20)


class Runs:
    """Runs of pytest whose outcomes are given: by arguments, with the bug or without it."""

    def __init__(self, planted: dict[str, list[Outcome]], plain: dict[str, Outcome] | None = None) -> None:
        self.planted = planted
        self.plain = plain or {}
        self.made: list[tuple[bool, tuple[str, ...]]] = []
        self.now_s = 0.0

    def run(self, bug: Bug | None, arguments: Sequence[str], limit_s: float) -> Outcome:
        self.made.append((bug is not None, tuple(arguments)))
        if bug is None:
            outcome = self.plain.get(arguments[0], Outcome())
        else:
            outcome = self.planted[arguments[0]].pop(0)
        self.now_s += min(limit_s, 1000) if outcome.is_late else 1
        return outcome

    def judged(self, *trial: Stage, until_s: float = inf) -> tuple[State, str]:
        verdict = Judge(self.run, lambda: self.now_s, until_s).judge(BUG, trial)
        return verdict.state, verdict.detail


def test_a_test_that_fails_with_the_bug_alone_notices_it() -> None:
    runs = Runs({"tests/a.py": [Outcome("tests/a.py::test")]})
    assert runs.judged(NEAR, PACKAGE) == (State.NOTICED, "tests/a.py::test")
    assert runs.made == [(True, ("tests/a.py",)), (False, ("tests/a.py::test",))]


def test_the_package_runs_when_the_near_tests_pass_or_none_is_selected() -> None:
    for outcome in (Outcome(), Outcome(is_empty=True)):
        runs = Runs({"tests/a.py": [outcome], "tests": [Outcome("tests/b.py::test")]})
        assert runs.judged(NEAR, PACKAGE) == (State.NOTICED, "tests/b.py::test")


def test_a_bug_with_which_all_pass_is_not_noticed() -> None:
    assert Runs({"tests/a.py": [Outcome()], "tests": [Outcome()]}).judged(NEAR, PACKAGE) == (State.UNNOTICED, "")


def test_a_test_that_fails_without_the_bug_is_left_out() -> None:
    broken = "tests/a.py::broken"
    runs = Runs({"tests/a.py": [Outcome(broken), Outcome("tests/a.py::test")]}, {broken: Outcome(broken)})
    assert runs.judged(NEAR) == (State.NOTICED, "tests/a.py::test")
    assert runs.made[3] == (True, ("tests/a.py", f"--deselect={broken}"))


def test_a_bug_is_undecided_when_only_the_tests_that_are_left_pass() -> None:
    broken = "tests/a.py::broken"
    runs = Runs({"tests/a.py": [Outcome(broken), Outcome()]}, {broken: Outcome(broken)})
    state, detail = runs.judged(NEAR)
    assert state is State.UNDECIDED
    assert broken in detail


def test_tests_that_all_fail_without_the_bug_decide_nothing() -> None:
    names = [f"tests/a.py::{number}" for number in range(9)]
    runs = Runs({"tests/a.py": [Outcome(name) for name in names]}, {name: Outcome(name) for name in names})
    assert runs.judged(NEAR)[0] is State.UNDECIDED


def test_a_file_that_cannot_be_imported_with_the_bug_notices_it() -> None:
    runs = Runs({"tests/a.py": [Outcome("tests/b.py")]})
    assert runs.judged(NEAR)[0] is State.NOTICED
    assert runs.made[1] == (False, ("tests/b.py", "--collect-only"))


def test_tests_that_hang_with_the_bug_alone_notice_it() -> None:
    assert Runs({"tests/a.py": [Outcome(is_late=True)]}).judged(NEAR) == (State.NOTICED, "the tests hang")


def test_tests_that_are_late_without_the_bug_too_decide_nothing() -> None:
    runs = Runs({"tests/a.py": [Outcome(is_late=True)], "tests": [Outcome()]}, {"tests/a.py": Outcome(is_late=True)})
    assert runs.judged(NEAR, PACKAGE)[0] is State.UNDECIDED


def test_nothing_is_decided_when_time_is_over() -> None:
    runs = Runs({"tests/a.py": [Outcome()], "tests": [Outcome(is_late=True)]})
    assert runs.judged(NEAR, PACKAGE, until_s=5) == (State.UNDECIDED, "time was over")
    assert Runs({}).judged(NEAR, until_s=0) == (State.UNDECIDED, "time was over")
    assert Runs({}).judged()[0] is State.UNDECIDED


@pytest.mark.parametrize(
    ("is_row", "first_only", "names"),
    [
        (True, False, ["near", "package", "all"]),
        (True, True, ["near", "package"]),
        (False, False, ["near", "package"]),
        (False, True, ["near"]),
    ],
)
def test_rows_are_tried_with_more_tests_than_generic_mutants(is_row: bool, first_only: bool, names: list[str]) -> None:
    assert [stage.name for stage in stages(["tests/a.py"], "tests/a", is_row=is_row, first_only=first_only)] == names
    assert stages(["tests/a.py"], "", is_row=False, first_only=True)[0].limit_s == NEAR_S
    assert stages([], "", is_row=False, first_only=True) == []


def test_the_first_failure_is_a_test_and_not_a_line_of_the_log() -> None:
    output = "ERROR odradek.server:server.py:1 failed\nFAILED tests/a.py::test[a b] - assert 1 - 2\nFAILED tests/b.py::test\n"
    assert first_failure(output, 1) == "tests/a.py::test[a b]"
    assert first_failure("", 0) == first_failure("", 5) == ""
    assert first_failure("Segmentation fault", -11) == "exit status -11"
