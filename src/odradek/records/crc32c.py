"""CRC-32C from the library's compiled core.

The library's package imports its command line and importlib.metadata, which takes a tenth of a broker's start-up time; its extension module
needs neither. Where the library is built in another way, the package is imported as usual.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import cast

Crc32c = Callable[..., int]


def _load() -> Crc32c:
    package = importlib.util.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        core = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if core is not None and core.loader is not None:
            module = importlib.util.module_from_spec(core)
            core.loader.exec_module(module)
            return cast(Crc32c, module.crc32c)
    from crc32c import crc32c as whole

    return cast(Crc32c, whole)


crc32c: Crc32c = _load()
"""`crc32c(data, value=0)`: the checksum of `data`, continued from `value`."""
