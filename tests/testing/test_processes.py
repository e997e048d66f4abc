"""Processes that tests start are gone when `end` returns, and those that they have started as well."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import end

_CODE = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
def leave(*_):
    child.kill()
    child.wait()
    sys.exit(3)
def stay(*_):
    os.kill(os.getppid(), signal.SIGUSR1)
signal.signal(signal.SIGTERM, leave if sys.argv[1] == "heeds" else stay)
print(child.pid, flush=True)
while True:
    signal.pause()
"""


def _runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def started(how: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, "-c", _CODE, how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_the_status_of_a_process_that_heeds_the_signal_is_told() -> None:
    process, child = started("heeds")
    assert end(process) == 3
    assert not _runs(child)


def test_what_ends_the_wait_ends_the_process_and_its_children() -> None:
    process, child = started("ignores")

    class Over(Exception):
        """The test's time."""

    def over(*_: object) -> None:
        raise Over

    before = signal.signal(signal.SIGUSR1, over)
    try:
        with pytest.raises(Over):
            end(process)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert process.returncode == -signal.SIGKILL
    while _runs(child):
        pass
