"""Local sessions of Spark Connect, one at a time on this machine: each listens at port 15002, whatever it is told (Spark 4.3)."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def connect_port() -> Iterator[None]:
    """Waits until no other test has a local session of Spark Connect. Tests run in several processes, so the lock is a file's."""
    with Path(tempfile.gettempdir(), "odradek-tests-spark-connect.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
