"""Plants one bug at a time and runs the tests: which are noticed?

    python -m tests.mutants [--room ROOM ...] [--only NAME ...] [--changed-since REVISION|base] [--slice N --seed S] [--seconds N] [--jobs N]
        [--json FILE]

For each mutant the sources are copied, the copy is edited, and the tests that the mutant names run against the copy; when they pass, the
tests of its room run; when those pass, all tests without JVM Kafka (`--first-only` stops after the named ones). It is noticed when a test
fails, or when the run hangs until its limit. Before any of this the named tests must pass without a mutant.

`--changed-since` takes those whose lines a change touched (`base`: what CI takes for the change, see tests/ci/changes.py), and fills up with
others to the number that `--slice` says. `--seconds` begins no further mutant after as long, which the report says.

Exit status 1 when less than 90 % of what is not explained as equivalent is noticed, or when a slice leaves one unnoticed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.ci import changes
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
_OTHER_MODULES = ("__init__", "__main__", "mutant", "test_list")
ROOMS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _OTHER_MODULES))
LEAST_SCORE = 0.9
_NAMED_LIMIT_S = 300
_ALL_LIMIT_S = 1800


class Planted(NamedTuple):
    room: str
    mutant: Mutant

    @property
    def title(self) -> str:
        return f"{self.room}/{self.mutant.name}"


class Verdict(NamedTuple):
    """`by`: which tests noticed ("named", "room", "all"), "equivalent", or "no test" when it names none; `test`: the first that failed."""

    planted: Planted
    noticed: bool
    by: str
    test: str
    seconds: float


class NoTests(Exception):
    """What a mutant names selects no test."""


def load(rooms: tuple[str, ...] = ROOMS) -> list[Planted]:
    """Every mutant of the rooms, in order. ValueError for a name that is not its own, or for a text that does not stand exactly once."""
    found = [Planted(room, mutant) for room in rooms for mutant in import_module(f"tests.mutants.{room}").MUTANTS]
    seen: set[str] = set()
    for planted in found:
        if planted.title in seen:
            raise ValueError(f"{planted.title}: the name is taken")
        seen.add(planted.title)
        edited(planted)
    return found


def edited(planted: Planted) -> dict[str, str]:
    """The files with the bug in them: path -> text."""
    texts: dict[str, str] = {}
    for path, before, after in planted.mutant.edits:
        text = texts.get(path) or (SOURCES / "odradek" / path).read_text()
        if (times := text.count(before)) != 1:
            raise ValueError(f"{planted.title}: the text stands {times} times in {path}")
        if before == after:
            raise ValueError(f"{planted.title}: the edit changes nothing")
        texts[path] = text.replace(before, after)
    return texts


def touched(planted: Planted, changed: dict[str, set[int]]) -> bool:
    """Return whether a line that the mutant replaces is among the changed lines of the sources."""
    for path, before, _ in planted.mutant.edits:
        text = (SOURCES / "odradek" / path).read_text()
        first = text.count("\n", 0, text.index(before)) + 1
        if not changed.get(f"src/odradek/{path}", set()).isdisjoint(range(first, first + before.rstrip("\n").count("\n") + 1)):
            return True
    return False


def chosen(planted: list[Planted], changed: dict[str, set[int]] | None, count: int, seed: int) -> list[Planted]:
    """Return `count` mutants drawn by the seed, or all for 0; those in changed lines come first."""
    drawn = random.Random(seed).sample(planted, len(planted)) if count or changed is not None else planted
    if changed is None:
        return drawn[: count or None]
    first = [each for each in drawn if touched(each, changed)]
    rest = [each for each in drawn if each not in first]
    return (first + rest)[: count or len(first)]


def plant(planted: Planted | None, folder: Path) -> Path:
    """A copy of the sources with the bug in it; where the edited module is compiled, the copy runs interpreted."""
    copy = folder / "src"
    for entry in ROOT.iterdir():
        # Tests look beside the sources, for the documents.
        if entry.name not in ("src", ".git"):
            (folder / entry.name).symlink_to(entry)
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("*.egg-info", "*.c"))
    for path, text in ({} if planted is None else edited(planted)).items():
        target = copy / "odradek" / path
        target.write_text(text)
        if target.with_suffix(".pxd").exists() or list(target.parent.glob(f"{target.stem}.*.so")):
            for compiled in target.parent.glob("_*.so"):
                compiled.unlink()
    return copy


def failure(copy: Path, arguments: list[str], limit_s: float) -> str:
    """The first test that fails on the copy, or "time is over"; "" when all pass. NoTests when none ran at all."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not jvm", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return "time is over"
    if done.returncode in (4, 5):
        raise NoTests(f"no test is selected by {shlex.join(arguments)}")
    if done.returncode == 0:
        return ""
    # A captured log line may begin with ERROR, too.
    failed = [line for line in done.stdout.decode().splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return failed[0].split(" ")[1] if failed else f"exit status {done.returncode}"


def named(mutant: Mutant) -> list[str]:
    """The tests of a mutant, as arguments: what is a path is below tests/, but for what stands behind -k."""
    files, _, expression = mutant.tests.partition(" -k ")
    return [*_below_tests(files), *(["-k", *shlex.split(expression)] if expression else [])]


def _below_tests(words: str) -> list[str]:
    return [f"tests/{word}" if (ROOT / "tests" / word.partition("::")[0]).exists() else word for word in shlex.split(words)]


def judge(planted: Planted, *, first_only: bool) -> Verdict:
    if planted.mutant.equivalent:
        return Verdict(planted, False, "equivalent", "", 0.0)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="odradek-mutant-") as folder:
        copy = plant(planted, Path(folder))
        room = ROOT / "tests" / planted.room
        stages = [("named", named(planted.mutant), _NAMED_LIMIT_S)]
        if not first_only:
            stages += [("room", [str(room)], _ALL_LIMIT_S)] if room.is_dir() else []
            stages.append(("all", [], _ALL_LIMIT_S))
        for by, arguments, limit_s in stages:
            try:
                failed = failure(copy, arguments, limit_s)
            except NoTests as error:
                return Verdict(planted, False, "no test", str(error), time.monotonic() - begin)
            if failed:
                return Verdict(planted, True, by, failed, time.monotonic() - begin)
    return Verdict(planted, False, "", "", time.monotonic() - begin)


def without_mutant(planted: list[Planted], jobs: int) -> list[str]:
    """The first test of each file that fails without any bug: such a test notices nothing."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for each in planted:
        if not each.mutant.equivalent:
            files, _, words = each.mutant.tests.partition(" -k ")
            wanted[files].add(words)
    arguments = []
    for files, expressions in wanted.items():
        narrowed = [] if "" in expressions else ["-k", " or ".join(f"({' '.join(shlex.split(each))})" for each in sorted(expressions))]
        arguments.append([*_below_tests(files), *narrowed])
    with tempfile.TemporaryDirectory(prefix="odradek-mutant-") as folder, ThreadPoolExecutor(jobs) as pool:
        copy = plant(None, Path(folder))
        return [failed for failed in pool.map(lambda each: failure(copy, each, _ALL_LIMIT_S), arguments) if failed]


def report(verdicts: list[Verdict]) -> float:
    """Prints the score of each room and every survivor; the score of all."""
    rooms: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        rooms[verdict.planted.room].append(verdict)
    print(f"\n{'room':14} {'planted':>8} {'noticed':>8} {'equivalent':>11}")
    for room, those in rooms.items():
        print(f"{room:14} {len(those):8} {sum(each.noticed for each in those):8} {sum(each.by == 'equivalent' for each in those):11}")
    counted = [verdict for verdict in verdicts if verdict.by != "equivalent"]
    noticed = sum(verdict.noticed for verdict in counted)
    score = noticed / len(counted) if counted else 1.0
    print(f"{'all':14} {len(verdicts):8} {noticed:8} {len(verdicts) - len(counted):11}   {score:.1%} of {len(counted)} noticed")
    for verdict in verdicts:
        mutant = verdict.planted.mutant
        if verdict.by == "equivalent":
            print(f"equivalent: {verdict.planted.title} ({mutant.path}): {mutant.equivalent}")
        elif not verdict.noticed:
            print(f"SURVIVED: {verdict.planted.title} ({mutant.path}): {mutant.breaks}{verdict.test and f' ({verdict.test})'}")
    return score


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="mutants whose name contains one of these words")
    parser.add_argument("--slice", type=int, default=0, metavar="N", help="as many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changed-since", metavar="REVISION", help="those in lines that changed since then come first (base: CI's)")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="begin none after as long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first-only", action="store_true", help="run only the tests that a mutant names")
    parser.add_argument("--json", type=Path, help="where to keep the verdicts")
    options = parser.parse_args()
    planted = [each for each in load(tuple(options.room)) if not options.only or any(word in each.title for word in options.only)]
    begin = time.monotonic()
    changed = None
    if options.changed_since:
        changed = changes.lines(changes.base() if options.changed_since == "base" else options.changed_since)
    planted = chosen(planted, changed, options.slice, options.seed)
    if not planted and changed is not None:
        print("no mutant stands in the lines that changed")
        return 0
    if not planted:
        parser.error("no such mutant")
    if broken := without_mutant(planted, options.jobs):
        print("These tests do not pass without a mutant:", *broken, sep="\n  ")
        return 1
    verdicts = []

    def in_time(each: Planted) -> Verdict | None:
        return judge(each, first_only=options.first_only) if time.monotonic() - begin < options.seconds else None

    with ThreadPoolExecutor(options.jobs) as pool:
        for verdict in pool.map(in_time, planted):
            if verdict is None:
                continue
            verdicts.append(verdict)
            word = verdict.by if verdict.noticed or verdict.by else "SURVIVED"
            print(f"{verdict.planted.title:60} {word:10} {verdict.seconds:6.1f} s  {verdict.test}", flush=True)
    score = report(verdicts)
    if left := len(planted) - len(verdicts):
        print(f"{left} of {len(planted)} were not begun within {options.seconds:.0f} s")
    if options.json:
        rows = [
            {"mutant": each.planted.title, "noticed": each.noticed, "by": each.by, "seconds": round(each.seconds, 1)} for each in verdicts
        ]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    survivors = any(not each.noticed and each.by != "equivalent" for each in verdicts)
    return 1 if score < LEAST_SCORE or (options.slice and survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
