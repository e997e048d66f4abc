"""Orderly end of processes that a test starts."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any


def end(process: subprocess.Popen[Any]) -> int:
    """Send SIGTERM to the process, wait for its end, and return its exit status.

    The wait has no time limit except the test's. When the wait is interrupted, kill the process and its descendants.
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
    """Return the ids of the process's descendants, or nothing where the system has no such list (not Linux)."""
    try:
        children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for child in children for each in (child, *_descendants(child))]
