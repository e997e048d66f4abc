"""Tests that fail now and then: found by running failed tests again, alone, and by running all tests beside a busy machine.

    python -m tests.ci.flaky check              is tests/flaky.txt emptied of what the last change left there?
    python -m tests.ci.flaky run -- ARGUMENTS   pytest with the arguments; what fails runs once more, alone
    python -m tests.ci.flaky report             names the flaky tests of the runs since `check`
    python -m tests.ci.flaky load --runs N [--busy N] -- ARGUMENTS   pytest N times beside busy processes; lists what failed

A test that fails among others and passes alone is flaky. `run` passes with flaky tests; `report` appends their names to
tests/flaky.txt, which is committed with the change, and fails when there are more than three. The next change has to mend
them and to remove their names: `check` fails for a name that stood there before the change began.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.ci import changes

LIST = changes.ROOT / "tests" / "flaky.txt"
BUILD = changes.ROOT / "build" / "ci"
MOST = 3
"""As many flaky tests pass; with more of them the change is refused."""
_TESTS_FAILED = 1
"""pytest's exit status for a run whose only trouble is failed tests."""


def names(text: str) -> list[str]:
    """Return the tests that a list names, one a line; `#` begins a comment."""
    return [line for raw in text.splitlines() if (line := raw.partition(" #")[0].strip()) and not line.startswith("#")]


def left_over(now: str, before: str) -> list[str]:
    """Return the names that the list before the change had and the list now still has."""
    return sorted(set(names(now)) & set(names(before)))


def check() -> int:
    """Forget earlier runs, and fail when a name of the last change's list is still there."""
    _found().unlink(missing_ok=True)
    try:
        before = changes.git("show", f"{changes.base()}:{LIST.relative_to(changes.ROOT)}") if changes.is_repository() else ""
    except subprocess.CalledProcessError:  # the list is newer than the base
        before = ""
    left = left_over(LIST.read_text(), before)
    for name in left:
        print(f"flaky since the last change, to be mended now: {name}")
    return 1 if left else 0


def _found() -> Path:
    return BUILD / "flaky.json"


def pytest(arguments: Sequence[str], cache: Path) -> tuple[int, list[str]]:
    """Run pytest; return its exit status and the tests that failed. The cache of failures is the run's own."""
    failures = cache / "v" / "cache" / "lastfailed"
    failures.unlink(missing_ok=True)
    status = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments], cwd=changes.ROOT, check=False
    ).returncode
    failed = sorted(json.loads(failures.read_text())) if failures.exists() else []
    return status, failed


def run(arguments: Sequence[str], once: Callable[[Sequence[str], Path], tuple[int, list[str]]] = pytest) -> int:
    """Run pytest, and what failed once more by itself; 0 when nothing failed twice. Too many failures are not tried again."""
    status, failed = once(arguments, BUILD / "cache")
    if status != _TESTS_FAILED or not failed:
        return status
    if len(failed) > 2 * MOST:
        print(f"{len(failed)} tests failed: too many to be flaky")
        return 1
    flaky = []
    for name in failed:
        print(f"once more, alone: {name}", flush=True)
        again, _ = once(["-n", "0", name], BUILD / "cache-alone")
        if again:
            return 1
        flaky.append(name)
    BUILD.mkdir(parents=True, exist_ok=True)
    _found().write_text(json.dumps(_remembered() + flaky))
    return 0


def _remembered() -> list[str]:
    return json.loads(_found().read_text()) if _found().exists() else []


def report() -> int:
    """Print the flaky tests of the runs since `check` and append them to the list; 1 when there are more than three."""
    found = sorted(set(_remembered()))
    for name in found:
        print(f"flaky: {name}")
    if new := [name for name in found if name not in names(LIST.read_text())]:
        with LIST.open("a") as file:
            file.writelines(f"{name}\n" for name in new)
    if len(found) > MOST:
        print(f"{len(found)} flaky tests, where {MOST} pass")
    return 1 if len(found) > MOST else 0


@contextlib.contextmanager
def busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep `count` cores busy with loops of Python."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def load(runs: int, loops: int, arguments: Sequence[str]) -> int:
    """Run pytest `runs` times beside busy loops; print what failed how often, and return 1 when anything did."""
    failures: Counter[str] = Counter()
    with busy(loops):
        for turn in range(1, runs + 1):
            begin = time.monotonic()
            status, failed = pytest(arguments, BUILD / "cache-load")
            failures.update(failed or ([f"exit status {status}"] if status else []))
            print(f"run {turn} of {runs}: {time.monotonic() - begin:.0f} s, {len(failed)} failed", flush=True)
    for name, times in failures.most_common():
        print(f"failed in {times} of {runs} runs: {name}")
    print(f"{runs} runs beside {loops} busy loops, {sum(failures.values())} failures")
    return 1 if failures else 0


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before the first `--`, which are for a command of tests.ci, and those after it, which are for pytest."""
    place = [*words, "--"].index("--")
    return [*words[:place]], [*words[place + 1 :]]


def main(argv: Sequence[str] | None = None) -> int:
    words, arguments = parted(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="python -m tests.ci.flaky", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("check", "run", "report", "load"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=1, metavar="N", help="as many loops that keep a core busy each")
    options = parser.parse_args(words)
    if options.what == "load":
        return load(options.runs, options.busy, arguments)
    return {"check": check, "run": lambda: run(arguments), "report": report}[options.what]()


if __name__ == "__main__":
    sys.exit(main())
