"""Property tests repeat themselves exactly, so that a red run is red again; ODRADEK_RANDOM_TESTS=1 lets them look at other examples."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("ODRADEK_RANDOM_TESTS") else "repeatable")

_JVM_SECONDS = 600
"""What a test with JVMs may take at least: they start slowly, above all several at once on a busy machine of two cores."""


_LONGEST = (
    "campaigns/test_slices_of_exactly_once.py",
    "campaigns/test_slices_of_hostile_clients.py",
    "campaigns/test_slices_of_kills.py",
    "campaigns/test_slices_of_coordinators.py",
    "spark/test_exactly_once.py",
    "spark/test_connect.py",
    "client/test_groups_under_faults.py",
    "cli/test_pages.py",
    "cli/test_readme.py",
    "simulation/test_cluster_stories.py",
    "testing/test_lives.py",
    "testing/test_pytest_plugin.py",
    "client/test_refusals.py",
    "simulation/test_log_directories.py",
    "testing/test_pages.py",
    "interop/test_tls_listeners.py",
)
"""Files that take long and mostly wait. They begin first: a long file at the end would keep one process busy alone."""

JVM_FILES = pytest.StashKey[set[str]]()
"""Of the configuration: the files that were collected with tests against JVM Kafka that do not take minutes."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and leave out of later ones what was collected: millions of objects that stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests with JVMs their limit, which is there to end what hangs, not to judge how fast a machine is; put long files first."""
    folder = Path(__file__).parent
    rank = {folder / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    jvm = [item for item in items if item.get_closest_marker("jvm") and not item.get_closest_marker("minutes")]
    config.stash[JVM_FILES] = {str(item.path.relative_to(folder.parent)) for item in jvm if item.path.is_relative_to(folder)}
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
