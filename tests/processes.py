"""Processes that a test starts end with it, however the test ends."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any


def end(process: subprocess.Popen[Any]) -> int:
    """Ask the process to end with SIGTERM, wait for that, and return its exit status.

    There is no time limit but the test's. Whatever ends the wait, the process and those that it has started are killed then.
    """
    below = [process.pid]
    try:
        below += _descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        return process.wait()
    finally:
        for pid in below if process.returncode is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _descendants(pid: int) -> list[int]:
    """Ids of the processes that the process has started, and of theirs; none where the system does not tell (not Linux)."""
    try:
        children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for child in children for each in (child, *_descendants(child))]
