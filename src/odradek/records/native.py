"""Choice between the compiled modules of the hot loops, which lie next to their sources, and the sources.

The compiled modules are used when all of them exist. The environment variable ODRADEK_INTERPRETED (any value but empty or "0") forces the
sources. All callers use the loops as `native.codec.<name>`, so that tests can exchange them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

_PACKAGE = "odradek.records"
COMPILED = ("_frames", "_writer", "_columns", "_compaction", "_runs", "_scan", "_keyed", "_produce")
"""Modules that are compiled where a compiler is available, each after the modules that it needs."""
_FACADE = "codec"
_FOLDER = os.path.dirname(__file__)


def load_interpreted() -> ModuleType:
    """Return a module like `codec` with the loops from their sources, even if compiled modules exist."""
    return _load(_source)


def load_compiled() -> ModuleType | None:
    """Return a module like `codec` with the compiled loops, even if the sources are in use; None when they have not been built."""
    return _load(_extension) if all(_built(name) for name in COMPILED) else None


def _built(name: str) -> str | None:
    paths = (os.path.join(_FOLDER, name + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if os.path.exists(path)), None)


def _source(name: str) -> ModuleSpec | None:
    path = os.path.join(_FOLDER, f"{name}.py")
    if not os.path.exists(path):
        # A wheel that Spark's workers import without unpacking has only sources: extension modules in it cannot be loaded.
        return PathFinder.find_spec(f"{_PACKAGE}.{name}", [_FOLDER])
    return importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", path, loader=SourceFileLoader(f"{_PACKAGE}.{name}", path))


def _extension(name: str) -> ModuleSpec | None:
    path = _built(name)
    if path is None:
        return _source(name)
    return importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", path, loader=ExtensionFileLoader(f"{_PACKAGE}.{name}", path))


def _load(find: Callable[[str], ModuleSpec | None]) -> ModuleType:
    """Load the modules again. They import each other under their usual names, whose entries in sys.modules are restored afterwards."""
    package = sys.modules[_PACKAGE]
    names = (*COMPILED, _FACADE)
    before = {name: sys.modules.get(f"{_PACKAGE}.{name}") for name in names}
    try:
        for name in names:
            spec = find(name)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[f"{_PACKAGE}.{name}"] = module
            spec.loader.exec_module(module)
            setattr(package, name, module)
        return sys.modules[f"{_PACKAGE}.{_FACADE}"]
    finally:
        for name, meant in before.items():
            if meant is not None:
                sys.modules[f"{_PACKAGE}.{name}"] = meant
                setattr(package, name, meant)


if os.environ.get("ODRADEK_INTERPRETED", "0") not in ("", "0") or not all(_built(name) for name in COMPILED):
    # Before any of them is imported: a mixture of sources and extensions would not work.
    load_interpreted()

from odradek.records import codec as codec  # noqa: E402  (see above)


def codec_is_compiled() -> bool:
    """Return whether the loops in use are compiled."""
    return codec.is_compiled()
