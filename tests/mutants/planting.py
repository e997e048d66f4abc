"""Copy of the sources in which one bug at a time is planted, and runs of pytest on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.mutants.bug import ROOT, SOURCES, Bug


class Outcome(NamedTuple):
    """Result of one run of pytest."""

    failed: str = ""
    """The first test that failed, or the exit status where no test did."""
    is_late: bool = False
    """Whether the run was ended at its limit."""
    is_empty: bool = False
    """Whether no test was selected."""
    seconds: float = 0.0


class Copy:
    """Copy of the sources in a folder; the tests are those of the repository."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "src"
        self._process: subprocess.Popen[bytes] | None = None
        for entry in ROOT.iterdir():
            # Tests look for documents beside the sources.
            if entry.name not in ("src", ".git"):
                (folder / entry.name).symlink_to(entry)
        shutil.copytree(SOURCES, self.sources, ignore=shutil.ignore_patterns("*.egg-info", "*.c"))

    @contextmanager
    def planted(self, bug: Bug | None) -> Iterator[None]:
        """Plant a bug for the time of the block. Where the module is compiled, its package runs uncompiled for as long."""
        if bug is None:
            yield
            return
        target = self.sources / bug.path
        original = SOURCES / bug.path
        compiled: list[Path] = []
        if target.with_suffix(".pxd").exists() or list(target.parent.glob(f"{target.stem}.*.so")):
            compiled = list(target.parent.glob("_*.so"))
        for library in compiled:
            library.rename(library.with_suffix(".aside"))
        target.write_text(bug.planted(original.read_text()))
        try:
            yield
        finally:
            # The time of the file comes back, too: the compiled module beside it is valid again.
            shutil.copy2(original, target)
            for library in compiled:
                library.with_suffix(".aside").rename(library)

    def run(self, arguments: Sequence[str], limit_s: float) -> Outcome:
        """Run pytest on the copy until the first failure or for `limit_s` seconds."""
        environment = {**os.environ, "PYTHONPATH": str(self.sources), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *arguments]
        begin = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            self._process = process
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return Outcome("time is over", is_late=True, seconds=time.monotonic() - begin)
            finally:
                self.stop()
        seconds = time.monotonic() - begin
        return Outcome(first_failure(output.decode(errors="replace"), process.returncode), False, process.returncode == 5, seconds)

    def stop(self) -> None:
        """Kill the run under way, and the brokers that it has started."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def first_failure(output: str, status: int) -> str:
    """Return the first test that failed by pytest's summary; "" when none did or none was selected."""
    if status in (0, 5):
        return ""
    # A captured log line may begin with ERROR, too.
    failed = [line for line in output.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return failed[0].split(" ", 1)[1].split(" - ")[0] if failed else f"exit status {status}"
