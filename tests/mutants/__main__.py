"""Plants bugs one at a time and runs tests: which are noticed?

    python -m tests.mutants [--package NAME ...] [--only WORD ...]       the planted bugs of tests/mutants/rows
    python -m tests.mutants --changed-since REVISION|base                those in lines that changed since then, and generic mutants of them
    python -m tests.mutants --file src/odradek/storage/log.py            the same for a whole file
    python -m tests.mutants --all [OPTIONS]                              the long list of the tag planted-bugs-1, against that release

Each bug is planted in a copy of the sources. The tests that are near run first (`choosing`), then those of the package, then all; a generic
mutant is tried with its package at most. `--first-only` leaves the last of these out. `--slice N` draws N generic mutants, `--seed` says
which; without it the seed comes from the revision. `--seconds N` ends the runs after N seconds. `base` is the change that CI looks at
(tests/ci/changes.py).

Exit status 1 when a planted bug is not noticed. Generic mutants that are not noticed are only listed: many of them change no behaviour.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import inf
from pathlib import Path

from tests.ci import changes
from tests.mutants import accepted, bug, choosing, judging, operators, planting, released
from tests.mutants.bug import ROOT, SOURCES, Bug
from tests.mutants.judging import State, Verdict

NEAR_FILES = 8
"""Files of tests that a bug is tried with first."""
_ROWS_SHARE = 2 / 3
"""Part of `--seconds` that planted bugs may take before generic mutants have their turn."""
_MOST_LISTED = 10


def text_of(path: str) -> str:
    return (SOURCES / path).read_text()


def touched(rows: Sequence[Bug], lines: dict[str, set[int]]) -> list[Bug]:
    """Return the rows that edit one of the lines; `lines` is by path below the root."""
    return [each for each in rows if not lines.get(f"src/{each.path}", set()).isdisjoint(each.line_numbers(text_of(each.path)))]


def generic(lines: dict[str, set[int]], packages: Sequence[str]) -> Iterator[Bug]:
    """Yield the generic mutants in the lines, but for the accepted ones."""
    known = {entry[:3] for entry in accepted.ACCEPTED}
    for path in sorted(lines):
        below = path.removeprefix("src/")
        if not path.startswith("src/") or not path.endswith(".py") or (packages and Path(below).parts[1] not in packages):
            continue
        text = text_of(below)
        for each in operators.mutants(below, text, lines[path]):
            if (below, *each.lines(text)) not in known:
                yield each


def drawn(mutants: Sequence[Bug], count: int, seed: int) -> list[Bug]:
    """Return `count` of the mutants in an order drawn by the seed, or all of them for 0."""
    return random.Random(seed).sample(mutants, min(count, len(mutants)) if count else len(mutants))


class Workers:
    """Threads with a copy of the sources each."""

    def __init__(self, jobs: int, stack: ExitStack) -> None:
        self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-mutants-", ignore_cleanup_errors=True))
        self._own = threading.local()
        self._copies: list[planting.Copy] = []
        self._pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.callback(self.stop)

    def run(self, planted: Bug | None, arguments: Sequence[str], limit_s: float) -> planting.Outcome:
        copy = getattr(self._own, "copy", None)
        if copy is None:
            copy = self._own.copy = planting.Copy(Path(tempfile.mkdtemp(dir=self._folder)))
            self._copies.append(copy)
        with copy.planted(planted):
            return copy.run(arguments, limit_s)

    def stop(self) -> None:
        """End the runs under way, and begin no other."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for copy in self._copies:
            copy.stop()

    def judge(self, bugs: Sequence[Bug], until_s: float, *, first_only: bool) -> Iterator[Verdict]:
        judge = judging.Judge(self.run, time.monotonic, until_s)

        def one(each: Bug) -> Verdict:
            if time.monotonic() >= until_s:
                return Verdict(each, State.UNDECIDED, "", 0.0)
            near = choosing.first(each, text_of(each.path), NEAR_FILES)
            trial = judging.stages(near, choosing.package(each.path), is_row=each.is_row, first_only=first_only)
            return judge.judge(each, trial)

        yield from self._pool.map(one, bugs)


def report(verdicts: Sequence[Verdict]) -> int:
    """Print what is not noticed or not decided, and return the exit status."""
    status = 0
    for name, is_row in (("planted bugs", True), ("generic mutants", False)):
        own = [verdict for verdict in verdicts if verdict.bug.is_row is is_row]
        if not own:
            continue
        states = [verdict.state for verdict in own]
        counts = f"{states.count(State.NOTICED)} noticed, {states.count(State.UNNOTICED)} not, {states.count(State.UNDECIDED)} undecided"
        print(f"\n{len(own)} {name}: {counts}")
        unnoticed = [verdict.bug for verdict in own if verdict.state is State.UNNOTICED]
        for each in unnoticed if is_row else unnoticed[:_MOST_LISTED]:
            print(f"  not noticed: {each.title(text_of(each.path))}")
        if len(unnoticed) > _MOST_LISTED and not is_row:
            print(f"  and {len(unnoticed) - _MOST_LISTED} more, see above")
        status |= is_row and bool(unnoticed)
    return status


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="run the long list of an earlier release, with that release's options")
    parser.add_argument("--package", nargs="+", default=[], metavar="NAME", help="bugs in these packages of src/odradek only")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="planted bugs whose file or reason contains one of these")
    parser.add_argument("--changed-since", metavar="REVISION", help="bugs in lines that changed since then (base: CI's)")
    parser.add_argument("--file", nargs="+", default=[], metavar="PATH", help="bugs in these files")
    parser.add_argument("--slice", type=int, default=0, metavar="N", help="draw N generic mutants")
    parser.add_argument("--seed", type=int, help="which mutants are drawn, and in which order")
    parser.add_argument("--seconds", type=float, default=inf, metavar="N", help="end the runs after N seconds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first-only", action="store_true", help="leave out the last stage of each bug")
    parser.add_argument("--list", action="store_true", help="only print the bugs, and the tests that are near")
    return parser.parse_args(argv)


def wanted(options: argparse.Namespace) -> tuple[list[Bug], list[Bug]]:
    """Return the planted bugs and the generic mutants that the options ask for."""
    rows = list(bug.rows(options.package or None))
    if options.only:
        rows = [each for each in rows if any(word in each.path or word in each.why for word in options.only)]
    if options.changed_since is None and not options.file:
        return rows, []
    seed = options.seed
    if options.file:
        lines = {path: set(range(1, len((ROOT / path).read_text().splitlines()) + 1)) for path in options.file}
    else:
        since = changes.base() if options.changed_since == "base" else changes.git("rev-parse", "--verify", options.changed_since).strip()
        lines = changes.lines(since)
        seed = int(since[:8] or "1", 16) if seed is None else seed
    seed = 1 if seed is None else seed
    rows = touched(rows, lines)
    mutants = list(generic(lines, options.package))
    chosen = drawn(mutants, options.slice, seed)
    print(f"{len(rows)} planted bugs, and {len(chosen)} of {len(mutants)} generic mutants, drawn with --seed {seed}", flush=True)
    return drawn(rows, 0, seed), chosen


def main(argv: Sequence[str] | None = None) -> int:
    begin = time.monotonic()
    argv = sys.argv[1:] if argv is None else argv
    if "--all" in argv:
        try:
            return released.run([each for each in argv if each != "--all"])
        except released.NoTagError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    options = parsed(argv)
    rows, mutants = wanted(options)
    if options.list:
        for each in (*rows, *mutants):
            text = text_of(each.path)
            print(each.title(text), *(f"    {file}" for file in choosing.first(each, text, NEAR_FILES)), sep="\n")
        return 0
    verdicts = []
    with ExitStack() as stack:
        workers = Workers(options.jobs, stack)
        share = _ROWS_SHARE if mutants else 1
        for bugs, until_s in ((rows, begin + options.seconds * share), (mutants, begin + options.seconds)):
            for verdict in workers.judge(bugs, until_s, first_only=options.first_only):
                verdicts.append(verdict)
                if verdict.seconds:
                    title = verdict.bug.title(text_of(verdict.bug.path))
                    print(f"{verdict.state.value:11} {verdict.seconds:5.1f} s  {title}  {verdict.detail}", flush=True)
    if not verdicts:
        print("no bug is planted in the lines that changed")
    return report(verdicts)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the runs under way, too
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
