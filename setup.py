"""Builds the optional compiled codecs; without Cython or a C compiler the same files run interpreted.

Environment while building:
- ODRADEK_CODEC=off        builds nothing;
- ODRADEK_CODEC=checked    bounds checks and the address sanitizer, for the fuzzers (run with LD_PRELOAD of libasan).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from setuptools import setup  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from setuptools import Extension

MODULES = {"odradek.records._codec": "src/odradek/records/_codec.py"}


def extensions() -> list[Extension]:
    """The extensions to build: none when they are not wanted or Cython is missing; optional, so that a failing compiler is no failure."""
    flavour = os.environ.get("ODRADEK_CODEC", "")
    if flavour == "off":
        return []
    try:
        from Cython.Build import cythonize
        from setuptools import Extension
    except ImportError:
        return []
    checked = flavour == "checked"
    # -fwrapv: timestamps and offsets wrap as in Java. The .py never relies on an index error, so that bounds checks are for finding bugs.
    arguments = (
        ["-g", "-O1", "-fwrapv", "-fsanitize=address", "-fno-omit-frame-pointer"] if checked else ["-O2", "-ftree-vectorize", "-fwrapv"]
    )
    return cythonize(
        [
            Extension(
                name,
                [path],
                extra_compile_args=arguments,
                extra_link_args=["-fsanitize=address"] if checked else [],
                optional=True,
            )
            for name, path in MODULES.items()
        ],
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,
            "boundscheck": checked,
            "wraparound": False,
            "initializedcheck": checked,
            "cdivision": True,
        },
        force=checked or "ODRADEK_CODEC" in os.environ,
        quiet=True,
    )


setup(ext_modules=extensions())
