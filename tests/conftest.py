"""Property tests repeat themselves exactly, so that a red run is red again; ODRADEK_RANDOM_TESTS=1 lets them look at other examples."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

for _number, _action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # A shell ignores SIGINT for background commands, and nohup SIGHUP; the processes that tests start would inherit that.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _action)

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("ODRADEK_RANDOM_TESTS") else "repeatable")

_JVM_SECONDS = 600
"""What a test with JVMs may take at least: they start slowly, above all several at once on a busy machine of two cores."""


_LONGEST = (
    "spark/test_spark.py",
    "client/test_groups_under_faults.py",
    "cli/test_pages.py",
    "spark/functions/test_functions.py",  # in the process of the first file, whose JVM it goes on with
    "testing/test_lives.py",
    "campaigns/test_slices_of_coordinators.py",
    "simulation/test_cluster_stories.py",
    "cli/test_readme.py",
    "simulation/test_log_directories.py",
    "simulation/test_scenario.py",
    "testing/test_pytest_plugin.py",
    "spark/test_exactly_once.py",
    "client/test_refusals.py",
    "testing/test_pages.py",
    "interop/test_tls_listeners.py",
    "testing/test_cluster.py",
    "testing/test_kit_clock.py",
    "storage/test_model_transactions.py",
    "server/test_process.py",
)
"""Files that take long. They begin first, those of Spark among others: a long file at the end would keep one process busy alone.

xdist gives the first file to the first process, and so on; when each of them has one, each gets a second one.
"""

JVM_FILES = pytest.StashKey[set[str]]()
"""Stash of the configuration: collected files with tests against JVM Kafka, or with long ones, that do not take minutes."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collection, and leave out of later ones what was collected: millions of objects that stay to the end."""
    gc.disable()
    try:
        if hasattr(session.config, "workerinput"):
            _import_share(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _import_share(config: pytest.Config) -> None:
    """Import the test modules of this process of xdist's before those of the other processes.

    Where nothing is compiled yet, each process would compile all modules, as all collect in the same order.
    """
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    folders = [folder for folder in (config.invocation_params.dir / argument for argument in config.args) if folder.is_dir()]
    for path in sorted({path for folder in folders for path in folder.rglob("test_*.py")})[number::count]:
        if path.is_relative_to(config.rootpath):
            with suppress(Exception, pytest.skip.Exception):  # collection meets it again, and reports it
                import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests with JVMs their limit, which is there to end what hangs, not to judge how fast a machine is; put long files first."""
    folder = Path(__file__).parent
    rank = {folder / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    others = [item for item in items if not item.get_closest_marker("minutes") and any(map(item.get_closest_marker, ("jvm", "long")))]
    config.stash[JVM_FILES] = {str(item.path.relative_to(folder.parent)) for item in others if item.path.is_relative_to(folder)}
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
