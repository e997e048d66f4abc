"""Which build of the hot loops runs: the compiled `_codec` next to its source, or the source itself.

The compiled module is used when it is there. The environment variable ODRADEK_INTERPRETED (any value but empty or "0") forces the
source. Everybody calls the loops as `native.codec.<name>`, so that tests can exchange them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

_NAME = "odradek.records._codec"


def load_interpreted(name: str = _NAME) -> ModuleType:
    """Loads the source of the codec, whether or not a compiled one stands next to it.

    `name` is the module's name; it is put into `sys.modules`.
    """
    path = os.path.join(os.path.dirname(__file__), "_codec.py")
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if os.environ.get("ODRADEK_INTERPRETED", "0") not in ("", "0"):
    load_interpreted()

from odradek.records import _codec  # noqa: E402  (the source must be in sys.modules first)

codec = _codec
"""The loops in use."""


def codec_is_compiled() -> bool:
    """Whether the loops that run now are the compiled ones."""
    return codec.is_compiled()
