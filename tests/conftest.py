"""Property tests repeat themselves exactly, so that a red run is red again; ODRADEK_RANDOM_TESTS=1 lets them look at other examples."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("ODRADEK_RANDOM_TESTS") else "repeatable")

_JVM_SECONDS = 600
"""What a test with JVMs may take at least: they start slowly, above all several at once on a busy machine of two cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A limit is there to end what hangs, not to judge how fast a machine is."""
    for item in items:
        if item.get_closest_marker("jvm"):
            limit = item.get_closest_marker("timeout")
            if limit is None or limit.args[0] < _JVM_SECONDS:
                item.add_marker(pytest.mark.timeout(_JVM_SECONDS), append=False)
