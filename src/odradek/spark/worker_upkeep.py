"""Reductions of Spark's overhead around each task in a Python worker, which takes longer than a small range of records."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Generator, Iterator
from typing import Any
from zipimport import zipimporter

from pyspark import TaskContext


class SentToWorkers:
    """Base class of objects that Spark sends to its Python workers for each task, which avoids a 40 ms delay.

    Spark writes a task in two parts: the function, then its data. The sender's system holds the second part back until the first is
    acknowledged (Nagle's algorithm, RFC 896). The worker's system delays that acknowledgement by 40 ms, as it has nothing to send. This
    class acknowledges as soon as the worker has the function: a task of little data takes 10 ms instead of 50.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        acknowledge_at_once()
        self.__dict__.update(state)


def acknowledge_at_once() -> None:
    """Make the system acknowledge at once what this worker has received from Spark.

    Do nothing on systems without the option (Linux has it).
    """
    global _from_spark  # noqa: PLW0603 (of this process)
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None:
        return
    if _from_spark is None or _from_spark[0] != os.getpid():
        # Look for connections when the first task comes: the process has opened none itself yet, and Spark keeps this one for the next
        # tasks.
        _from_spark = os.getpid(), tuple(_tcp_connections())
    for descriptor in _from_spark[1]:
        with contextlib.suppress(OSError), _borrowed(descriptor) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)


_from_spark: tuple[int, tuple[int, ...]] | None = None
"""Process id of the search, and the descriptors that it found."""


def _tcp_connections() -> Iterator[int]:
    """Yield descriptors of this process that are TCP connections. Spark has several per connection, and renews some with each task."""
    names: list[str] = []
    with contextlib.suppress(OSError):  # /proc is not always there
        names = os.listdir("/proc/self/fd")
    for name in names:
        with contextlib.suppress(OSError), _borrowed(int(name)) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                connection.getpeername()
                yield int(name)


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Generator[socket.socket]:
    """Return a context manager that gives a socket for a descriptor and leaves the descriptor open.

    Raises OSError for other descriptors.
    """
    connection = socket.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()


def exempt_current_objects() -> None:
    """Exclude all current objects from garbage collections, in a worker of Spark that has read its first range.

    Spark collects garbage after each task, through all objects of the process. Most of these are modules, and take about 50 ms, many times
    as long as a small range. Objects that tasks create later are collected as before.
    """
    global _spared  # noqa: PLW0603 (of this process)
    if _spared != os.getpid() and TaskContext.get() is not None:
        _spared = os.getpid()
        gc.collect()
        gc.freeze()


_spared: int | None = None
"""Process id of the worker that has done this."""


def keep_archives() -> None:
    """Keep the indexes of archives on the module path until their files change.

    Spark 4.0 clears Python's import caches before each task. An archive's importer then reads its index again, in Python, which takes 100
    ms for pyspark's archive: in workers that archive comes before the installed pyspark on the path.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if type(importer) is zipimporter:
            sys.path_importer_cache[path] = _KeptArchive(path)


class _KeptArchive(zipimporter):
    """Importer of an archive that reads the index again only after a change of the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._state: tuple[int, int, int] | None = None  # unknown: the index may be older than the file

    def invalidate_caches(self) -> None:
        """Read the index again if the file has changed; importlib calls this method."""
        state = self._now()
        if state is None or state != self._state:
            super().invalidate_caches()
            self._state = state

    def _now(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.archive)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
