"""Which build of the hot loops runs: the compiled modules next to their sources, or the sources themselves.

The compiled modules are used when all of them are there. The environment variable ODRADEK_INTERPRETED (any value but empty or "0") forces
the sources. Everybody calls the loops as `native.codec.<name>`, so that tests can exchange them.
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
"""The modules that are compiled where there is a compiler, each after those it needs."""
_FACADE = "codec"
_FOLDER = os.path.dirname(__file__)


def load_interpreted() -> ModuleType:
    """The loops from their sources, whether or not compiled ones stand next to them: a module like `codec`."""
    return _load(_source)


def load_compiled() -> ModuleType | None:
    """The compiled loops as a module like `codec`, whatever runs now; None when they have not been built."""
    return _load(_extension) if all(_built(name) for name in COMPILED) else None


def _built(name: str) -> str | None:
    paths = (os.path.join(_FOLDER, name + suffix) for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if os.path.exists(path)), None)


def _source(name: str) -> ModuleSpec | None:
    path = os.path.join(_FOLDER, f"{name}.py")
    if not os.path.exists(path):
        # In a wheel that Spark's workers import as it is there are sources only: nothing in it can be loaded as a library.
        return PathFinder.find_spec(f"{_PACKAGE}.{name}", [_FOLDER])
    return importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", path, loader=SourceFileLoader(f"{_PACKAGE}.{name}", path))


def _extension(name: str) -> ModuleSpec | None:
    path = _built(name)
    if path is None:
        return _source(name)
    return importlib.util.spec_from_file_location(f"{_PACKAGE}.{name}", path, loader=ExtensionFileLoader(f"{_PACKAGE}.{name}", path))


def _load(find: Callable[[str], ModuleSpec | None]) -> ModuleType:
    """Loads the modules anew. They find one another under their usual names, which are restored to their former meaning afterwards."""
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
    # Before anybody imports one of them: a mixture of sources and extensions would not work.
    load_interpreted()

from odradek.records import codec as codec  # noqa: E402  (see above)


def codec_is_compiled() -> bool:
    """Whether the loops that run now are the compiled ones."""
    return codec.is_compiled()
