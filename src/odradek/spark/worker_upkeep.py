"""What Spark does around each task in a Python worker, made cheap: it takes longer than a small range of records."""

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
    """An object that Spark sends to its Python workers for each task; what comes behind it comes without a delay.

    Spark writes a task in two pieces, the function and what it is about. The sender's system holds the second piece back until the first is
    acknowledged (Nagle's algorithm, RFC 896). The worker's system, which has nothing to answer yet, acknowledges only after 40 ms. So
    this acknowledges as soon as the worker has the function: a task of little data takes 10 ms instead of 50.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        acknowledge_at_once()
        self.__dict__.update(state)


def acknowledge_at_once() -> None:
    """Has the system acknowledge what this worker has received of Spark; nothing where the system has no such option (it is Linux's)."""
    global _from_spark  # noqa: PLW0603 (of this process)
    option = getattr(socket, "TCP_QUICKACK", None)
    if option is None:
        return
    if _from_spark is None or _from_spark[0] != os.getpid():
        # Found when the first task comes: the process has no connections of its own then, and Spark keeps this one for the next tasks.
        _from_spark = os.getpid(), tuple(_tcp_connections())
    for descriptor in _from_spark[1]:
        with contextlib.suppress(OSError), _borrowed(descriptor) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)


_from_spark: tuple[int, tuple[int, ...]] | None = None
"""The process that has looked, and the descriptors that it found."""


def _tcp_connections() -> Iterator[int]:
    """Descriptors of this process that are connections by TCP. Spark has several for the same one, and renews some with each task."""
    names: list[str] = []
    with contextlib.suppress(OSError):  # nobody has to have /proc
        names = os.listdir("/proc/self/fd")
    for name in names:
        with contextlib.suppress(OSError), _borrowed(int(name)) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                connection.getpeername()
                yield int(name)


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Generator[socket.socket]:
    """A descriptor that stays open, as a socket; OSError when it is none."""
    connection = socket.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()


def spare_what_stays() -> None:
    """Takes what there is now out of garbage collections, in a worker of Spark that has read its first range.

    Spark collects after each task, through all objects of the process. Those are its modules, mostly, and take some 50 ms, many times what
    a small range takes. What tasks make from now on is collected as before.
    """
    global _spared  # noqa: PLW0603 (of this process)
    if _spared != os.getpid() and TaskContext.get() is not None:
        _spared = os.getpid()
        gc.collect()
        gc.freeze()


_spared: int | None = None
"""The process that has done so."""


def keep_archives() -> None:
    """Has the archives that modules are imported from listed again only where their files have changed.

    Spark 4.0 has Python forget, before each task, what it knows of the folders and archives of modules. An archive's importer then
    reads its list anew, in Python, which takes 100 ms for pyspark's own: in workers that is on the path before the installed one.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if type(importer) is zipimporter:
            sys.path_importer_cache[path] = _KeptArchive(path)


class _KeptArchive(zipimporter):
    """An archive that is listed anew when its file is another one."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._state: tuple[int, int, int] | None = None  # not known: what was listed before may be older than the file

    def invalidate_caches(self) -> None:
        """As importlib asks for."""
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
