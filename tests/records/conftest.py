"""Fixtures of tests of records. Each test runs twice: with the compiled codec, if it has been built, and with its Python source."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from odradek.records import native

from .oracle import Oracle

_BUILDS: dict[str, ModuleType | None] = {}


@pytest.fixture(params=["compiled", "interpreted"], autouse=True, scope="module")
def build(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make the whole package use the compiled or the interpreted codec, and yield its name."""
    name: str = request.param
    if name not in _BUILDS:
        _BUILDS[name] = native.load_compiled() if name == "compiled" else native.load_interpreted()
    codec = _BUILDS[name]
    if codec is None:
        if os.environ.get("CI") and shutil.which("cc"):
            pytest.fail("there is a compiler, but the codec has not been compiled: make install")
        pytest.skip("the codec has not been compiled here")
    assert codec.is_compiled() == (name == "compiled")
    before = native.codec
    native.codec = codec
    yield name
    native.codec = before


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Yield the JVM's record classes, shared by all tests of the package."""
    asked = Oracle()
    yield asked
    asked.close()
