"""Builds the optional compiled codecs; without Cython or a C compiler the same files run interpreted.

Environment while building:
- ODRADEK_CODEC=off        builds nothing;
- ODRADEK_CODEC=checked    bounds checks and the address sanitizer, for the fuzzers (run with LD_PRELOAD of libasan).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from setuptools import setup  # type: ignore[import-untyped]
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from setuptools import Extension

MODULES = {
    f"odradek.records.{name}": f"src/odradek/records/{name}.py"
    for name in ("_frames", "_writer", "_columns", "_compaction", "_runs", "_scan", "_keyed", "_produce")
}
"""As odradek.records.native.COMPILED has it."""


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


class OptionalBuild(build_ext):  # type: ignore[misc]
    """Goes on without the extension whatever a missing or broken compiler does: setuptools forgives only some of its errors."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # A module takes 8 s of one core.
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            if os.environ.get("ODRADEK_CODEC") == "checked":
                raise
            print(f"building {ext.name} failed, its source will run interpreted: {error}")

    def copy_extensions_to_source(self) -> None:
        self.extensions = [ext for ext in self.extensions if os.path.exists(self.get_ext_fullpath_built(ext))]
        super().copy_extensions_to_source()

    def get_ext_fullpath_built(self, ext: Extension) -> str:
        """Where the extension lies in the build directory."""
        return os.path.join(self.build_lib, self.get_ext_filename(self.get_ext_fullname(ext.name)))


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": OptionalBuild},
)
