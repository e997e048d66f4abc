"""Property tests repeat themselves exactly, so that a red run is red again; ODRADEK_RANDOM_TESTS=1 lets them look at other examples."""

from __future__ import annotations

import os
from zlib import crc32

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


@pytest.fixture
def own_name(request: pytest.FixtureRequest) -> str:
    """A name for the topic or the group of one test. Tests of one name in two files have different ones: they may share a broker."""
    readable = "".join(character if character.isalnum() else "-" for character in request.node.name)[:80]
    return f"{readable}-{crc32(request.node.nodeid.encode()):08x}"
