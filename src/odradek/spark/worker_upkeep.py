"""What Spark does around each task in a Python worker, made cheap: it takes longer than a small range of records."""

from __future__ import annotations

import gc
import os
import sys
from zipimport import zipimporter

from pyspark import TaskContext


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
