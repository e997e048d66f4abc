"""Verdicts: whether the tests notice a planted bug.

1. The near tests run on the copy with the bug, then those of its package, then all.
2. The first test that fails runs once more without the bug. If it fails there too, twice, it says nothing about any bug, and the stage runs
   again without that test.
3. A run that reaches its limit runs once more without the bug, and counts only if that run ends in time.
4. A bug whose stages all passed is not noticed. It is undecided where time was over, or tests were left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum
from math import inf
from typing import NamedTuple

from tests.mutants.bug import Bug
from tests.mutants.planting import Outcome

NEAR_S = 120
"""Limit of the near tests, in seconds."""
HANG_S = 30
"""Limit of a single near test: what hangs is to be found soon."""
PACKAGE_S = 1200
ALL_S = 3600
_MOST_BROKEN = 5
_TRIES = 2
_QUICK = "not jvm and not long"


class Stage(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    limit_s: float


class State(Enum):
    NOTICED = "noticed"
    UNNOTICED = "NOT NOTICED"
    UNDECIDED = "undecided"


class Verdict(NamedTuple):
    bug: Bug
    state: State
    detail: str
    """The test that noticed the bug, or why nothing is decided."""
    seconds: float


Run = Callable[[Bug | None, Sequence[str], float], Outcome]
"""Run of pytest with these arguments on the sources with a bug or without one, for at most so many seconds."""


def stages(near: Sequence[str], package: str, *, is_row: bool, first_only: bool) -> list[Stage]:
    """Return the stages for a bug. A row is always tried with all tests of its package, a generic mutant not with `first_only`."""
    found = []
    if near:
        found.append(Stage("near", ("-m", _QUICK, "--timeout", str(HANG_S), *near), NEAR_S))
    if package and (is_row or not first_only):
        found.append(Stage("package", ("-m", _QUICK, package), PACKAGE_S))
    if is_row and not first_only:
        found.append(Stage("all", ("-m", "not jvm"), ALL_S))
    return found


class Judge:
    """Judge of bugs, from several threads; `now` are seconds, and no run goes on after `until_s`."""

    def __init__(self, run: Run, now: Callable[[], float], until_s: float = inf) -> None:
        self._run = run
        self._now = now
        self._until_s = until_s
        self._lock = threading.Lock()
        self._passes: dict[str, bool] = {}
        """By test: whether it passes without a bug."""

    def judge(self, bug: Bug, trial: Sequence[Stage]) -> Verdict:
        begin = self._now()
        doubt = "" if trial else "no test is near"
        for stage in trial:
            outcome = self._stage(bug, stage)
            if outcome is None:
                doubt = f"the {stage.name} tests fail or are late without a bug, too {' '.join(self.broken)}"
            elif outcome.is_late:
                return Verdict(bug, State.UNDECIDED, "time was over", self._now() - begin)
            elif outcome.failed:
                return Verdict(bug, State.NOTICED, outcome.failed, self._now() - begin)
        if not doubt and (broken := self.broken):
            doubt = f"not noticed without tests that fail without a bug, too: {' '.join(broken)}"
        return Verdict(bug, State.UNDECIDED if doubt else State.UNNOTICED, doubt, self._now() - begin)

    @property
    def broken(self) -> list[str]:
        """Return the tests that fail without a bug, and are left out."""
        with self._lock:
            return [test for test, passes in self._passes.items() if not passes]

    def _stage(self, bug: Bug, stage: Stage) -> Outcome | None:
        """Return the outcome of a stage: a failure that is the bug's, or none, or late where all time was over; None without a result."""
        for _ in range(_MOST_BROKEN):
            arguments = (*stage.arguments, *(f"--deselect={test}" for test in self.broken))
            outcome = self._in_time(bug, arguments, stage.limit_s)
            if outcome.is_late:
                if self._now() >= self._until_s:
                    return outcome
                plain = self._in_time(None, arguments, stage.limit_s)
                return None if plain.is_late or plain.failed else Outcome("the tests hang")
            if not outcome.failed or self._is_sound(outcome.failed):
                return outcome
        return None

    def _in_time(self, bug: Bug | None, arguments: Sequence[str], limit_s: float) -> Outcome:
        left_s = self._until_s - self._now()
        return self._run(bug, arguments, min(limit_s, left_s)) if left_s > 0 else Outcome(is_late=True)

    def _is_sound(self, test: str) -> bool:
        """Return whether a test passes without a bug, or a file of tests can be collected. True for an exit status of pytest."""
        if not test.startswith("tests/"):
            return True
        with self._lock:
            known = self._passes.get(test)
        if known is None:
            arguments = (test,) if "::" in test else (test, "--collect-only")
            known = any(not (outcome := self._run(None, arguments, NEAR_S)).failed and not outcome.is_late for _ in range(_TRIES))
            with self._lock:
                self._passes[test] = known
        return known
