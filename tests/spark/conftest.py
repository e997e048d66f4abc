"""Spark for tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.quick_jvms import QUICK_JVMS


@pytest.fixture(scope="package", autouse=True)
def quick_jvms() -> Iterator[None]:
    """Let the drivers of these tests have quick JVMs."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_JVMS.items():
            patch.setenv(name, value)
        yield
