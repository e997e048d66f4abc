"""Every test of the room runs twice: with the compiled codec, when it has been built, and with its source."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from odradek.records import native

_BUILT = sorted(Path(native.__file__).parent.glob("_codec*" + importlib.machinery.EXTENSION_SUFFIXES[0]))


def _compiled() -> ModuleType:
    if native.codec.is_compiled():
        return native.codec
    loader = importlib.machinery.ExtensionFileLoader("odradek.records._codec", str(_BUILT[0]))
    spec = importlib.util.spec_from_file_location("odradek.records._codec", _BUILT[0], loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


_BUILDS: dict[str, ModuleType] = {}


@pytest.fixture(params=["compiled", "interpreted"], autouse=True, scope="module")
def build(request: pytest.FixtureRequest) -> Iterator[str]:
    """The build under test; the whole room uses it."""
    name: str = request.param
    if name == "compiled" and not _BUILT:
        if os.environ.get("CI") and shutil.which("cc"):
            pytest.fail("there is a compiler, but the codec has not been compiled: make install")
        pytest.skip("the codec has not been compiled here")
    if name not in _BUILDS:
        _BUILDS[name] = _compiled() if name == "compiled" else native.load_interpreted("odradek.records._codec_interpreted")
    assert _BUILDS[name].is_compiled() == (name == "compiled")
    before = native.codec
    native.codec = _BUILDS[name]
    yield name
    native.codec = before
