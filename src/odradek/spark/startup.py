"""Runs at the start of every Python that has Odradek installed (`odradek-spark.pth`), so that Spark finds its workers' Python by itself.

Spark starts `python3` from the PATH as its worker unless the environment variable PYSPARK_PYTHON says otherwise, and with a virtual
environment that is not on the PATH this is a Python without pyspark and without this package. So the first import of pyspark sets the
variable, where the user has not, to the interpreter that imports it. Nothing happens before that, or where pyspark is not used.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec


class _FirstImport:
    """Sees imports go by; leaves with the first import of pyspark."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pyspark":
            sys.meta_path.remove(self)
            if sys.executable:
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return None


if "pyspark" not in sys.modules:
    sys.meta_path.insert(0, _FirstImport())
