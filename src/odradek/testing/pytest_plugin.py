"""Fixtures for pytest: `odradek_broker`, `odradek_topic`, `odradek_cluster`, `odradek_session_broker`.

The package installs the plugin (entry point pytest11). The broker is imported when a test first asks for a fixture. See docs/testing.md.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster

_MARK = "odradek"
_PACKAGES = ("odradek.", "pyspark_odradek", "pyspark_odradek_log")
_FIXTURES = ("odradek_broker", "odradek_cluster")
_LOG_BYTES = 20_000


class _Requirements(NamedTuple):
    """Requirements of a test on its broker or cluster, from the ini file and the test's marks. The nearest mark wins."""

    settings: tuple[tuple[str, str], ...]
    version: str | None
    process: bool
    memory: bool
    nodes: int
    fresh: bool
    partitions: int
    configs: tuple[tuple[str, str], ...]

    @property
    def broker(self) -> tuple[object, ...]:
        """Key of brokers that tests may share."""
        return (self.settings, self.version, self.process, self.memory)


class PlainImports:
    """A finder on `sys.meta_path` that imports Odradek's own modules as any other program does.

    pytest rewrites the assertions of every module of a distribution that has a plugin. Odradek has some 900 modules and its helpers raise
    their own errors: rewriting would only cost a fresh environment twenty seconds of CPU.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of Odradek, and None for any other, which the next finder looks for."""
        return PathFinder.find_spec(name, path, target) if name.startswith(_PACKAGES) else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Insert the finder before pytest's own, before a conftest.py imports a client."""
    if PlainImports not in sys.meta_path:
        sys.meta_path.insert(0, PlainImports)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the keys of the ini file."""
    parser.addini(
        "odradek_settings", "Kafka's broker keys for the brokers of the odradek fixtures, key=value, one on each line", "linelist"
    )
    parser.addini("odradek_process", "run the brokers of the odradek fixtures in separate processes", "bool", default=False)
    parser.addini("odradek_memory", "keep the directories of the odradek fixtures' brokers on /dev/shm", "bool", default=True)
    parser.addini("odradek_version", "the release of Kafka that the brokers of the odradek fixtures imitate", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark `odradek`."""
    config.addinivalue_line(
        "markers",
        "odradek(settings={}, version=None, nodes=3, process=False, memory=True, fresh=False, partitions=1, configs={}): settings "
        "of odradek_broker, odradek_cluster and odradek_topic for a test",
    )


def _requirements_of(config: pytest.Config, node: pytest.Item | None) -> _Requirements:
    from odradek.config.definition import setting_text

    settings: dict[str, str] = {}
    for line in config.getini("odradek_settings"):
        key, equals, value = str(line).partition("=")
        if not equals:
            raise pytest.UsageError(f"odradek_settings: {line!r} must have the form key=value")
        settings[key.strip()] = value.strip()
    asked: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers(_MARK)) if node is not None else []):
        if mark.args:
            raise pytest.UsageError(f"@pytest.mark.odradek takes only named arguments, not {mark.args[0]!r}")
        given: Mapping[str, Any] = mark.kwargs.get("settings") or {}
        settings.update({name: setting_text(name, value) for name, value in given.items()})
        asked.update({key: value for key, value in mark.kwargs.items() if key != "settings"})
    known = {"version", "nodes", "process", "memory", "fresh", "partitions", "configs"}
    if unknown := sorted(asked.keys() - known):
        raise pytest.UsageError(
            f"@pytest.mark.odradek does not have the argument {unknown[0]!r}; its arguments are settings, {', '.join(sorted(known))}"
        )
    configs: Mapping[str, str] = asked.get("configs") or {}
    return _Requirements(
        tuple(sorted(settings.items())),
        asked.get("version") or str(config.getini("odradek_version")) or None,
        bool(asked.get("process", config.getini("odradek_process"))),
        bool(asked.get("memory", config.getini("odradek_memory"))),
        int(asked.get("nodes", 3)),
        bool(asked.get("fresh", False)),
        int(asked.get("partitions", 1)),
        tuple(sorted(configs.items())),
    )


class _Pool:
    """Running brokers and clusters that tests may share."""

    def __init__(self) -> None:
        self._brokers: dict[tuple[object, ...], EmbeddedBroker] = {}
        self._clusters: dict[tuple[object, ...], EmbeddedCluster] = {}

    def broker(self, required: _Requirements) -> EmbeddedBroker:
        """Return a broker that is up and has no faults."""
        found = self._brokers.get(required.broker)
        if found is None or found.is_gone:
            found = self._brokers[required.broker] = _new_broker(required)
        if not found.is_up:
            found.start()
        return found

    def cluster(self, required: _Requirements) -> EmbeddedCluster:
        """Return a cluster whose nodes are all up."""
        key = (required.nodes, *required.broker)
        found = self._clusters.get(key)
        if found is None or found.is_gone:
            found = self._clusters[key] = _new_cluster(required)
        found.start()
        return found

    def tidy(self, kept: EmbeddedBroker | None) -> None:
        """End all faults after a test. Stop brokers and clusters that do not answer or whose clock was advanced.

        `kept` is the broker of a fixture of the session. It keeps its clock. When it does not answer, it is killed, because a stop would
        remove its directory; the next test starts it again.
        """
        for key, broker in list(self._brokers.items()):
            tidied = _tidied(broker)
            if broker is kept:
                if not tidied:
                    broker.kill()
            elif not tidied or broker.ahead_s:
                broker.stop()
                del self._brokers[key]
        for key, cluster in list(self._clusters.items()):
            ok = [_tidied(node) for node in cluster.nodes.values()]
            if not all(ok) or any(node.ahead_s for node in cluster.nodes.values()):
                cluster.stop()
                del self._clusters[key]

    def close(self) -> None:
        """Stop all brokers and clusters."""
        for broker in self._brokers.values():
            broker.stop()
        for cluster in self._clusters.values():
            cluster.stop()
        self._brokers.clear()
        self._clusters.clear()


def _tidied(node: Any) -> bool:
    """Return whether the node is down, or answers and has no faults left."""
    if not node.is_up:
        return True
    try:
        node.resume()
        node.call("clear", timeout_s=10.0)
    except Exception:
        return False
    return True


def _new_broker(required: _Requirements) -> EmbeddedBroker:
    from odradek.testing.kit.embedded import EmbeddedBroker

    return EmbeddedBroker(dict(required.settings), version=required.version, process=required.process, memory=required.memory)


def _new_cluster(required: _Requirements) -> EmbeddedCluster:
    from odradek.testing.kit.embedded import EmbeddedCluster

    if required.version is not None:
        raise pytest.UsageError("odradek_cluster cannot imitate an older release: version= is only for odradek_broker")
    return EmbeddedCluster(required.nodes, dict(required.settings), process=required.process, memory=required.memory)


class _Session:
    """Brokers of a test run. Under xdist each worker has its own."""

    def __init__(self) -> None:
        self.common = _Pool()
        """Brokers for tests without marks, until the end of the run."""
        self.pinned: EmbeddedBroker | None = None
        """Broker of `odradek_session_broker`."""


@pytest.fixture(scope="session")
def _odradek_session() -> Iterator[_Session]:
    session = _Session()
    try:
        yield session
    finally:
        session.common.close()


@pytest.fixture(scope="module")
def _odradek_module() -> Iterator[_Pool]:
    pool = _Pool()
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture(scope="session")
def odradek_session_broker(_odradek_session: _Session, pytestconfig: pytest.Config) -> EmbeddedBroker:
    """Return the broker of the test run (of the worker, under xdist), for fixtures of wider scopes. Marks of tests do not change this
    broker.
    """
    _odradek_session.pinned = _odradek_session.common.broker(_requirements_of(pytestconfig, None))
    return _odradek_session.pinned


@pytest.fixture
def odradek_broker(request: pytest.FixtureRequest, _odradek_session: _Session, _odradek_module: _Pool) -> Iterator[EmbeddedBroker]:
    """Yield a broker that is up, without faults.

    Tests without the mark `odradek` share one broker for the run (for the worker, under xdist). Tests of a module with equal marks share
    one broker until the module's end. With `fresh=True` a test does not share its broker.
    """
    item = request.node
    required = _requirements_of(request.config, item)
    if required.fresh:
        with _new_broker(required) as own:
            yield own
        return
    default = _requirements_of(request.config, None)
    pool = _odradek_session.common if required.broker == default.broker else _odradek_module
    try:
        yield pool.broker(required)
    finally:
        pool.tidy(_odradek_session.pinned)


@pytest.fixture
def odradek_topic(request: pytest.FixtureRequest, odradek_broker: EmbeddedBroker) -> Iterator[str]:
    """Yield the name of a new topic on `odradek_broker`, deleted after the test. The mark's `partitions` and `configs` apply to the
    topic.
    """
    from odradek.testing.kit.embedded import unique_name

    required = _requirements_of(request.config, request.node)
    name = odradek_broker.create_topic(unique_name(), required.partitions, configs=dict(required.configs))
    try:
        yield name
    finally:
        _delete(odradek_broker.is_up, lambda: odradek_broker.delete_topic(name))


def _delete(is_up: bool, delete: Callable[[], None]) -> None:
    """Delete a topic, and ignore errors: the test may have deleted the topic, killed the broker, or stopped its answers."""
    from odradek.base.errors import OdradekError

    if is_up:
        with contextlib.suppress(OdradekError, TimeoutError):
            delete()


@pytest.fixture
def odradek_cluster(request: pytest.FixtureRequest, _odradek_module: _Pool) -> Iterator[EmbeddedCluster]:
    """Yield a cluster of three nodes (`nodes` of the mark), all up, without faults.

    Tests of a module with equal marks share one cluster. With `fresh=True` a test does not share its cluster.
    """
    required = _requirements_of(request.config, request.node)
    if required.fresh:
        with _new_cluster(required) as own:
            yield own
        return
    try:
        yield _odradek_module.cluster(required)
    finally:
        _odradek_module.tidy(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test the requests that its brokers received, and the logs of brokers in separate processes."""
    report = yield
    if report.when == "call" and report.failed:
        for name, broker in getattr(item, "funcargs", {}).items():
            if name in _FIXTURES:
                nodes = broker.nodes.values() if hasattr(broker, "nodes") else (broker,)
                for node in nodes:
                    _show(report, node)
    return report


def _show(report: pytest.TestReport, node: Any) -> None:
    from odradek.base.errors import OdradekError

    with contextlib.suppress(OdradekError, TimeoutError):
        counts = node.call("counts", timeout_s=5.0)
        lines = [
            f"{kind.api.name} version {kind.version} of {kind.client_id}: {number}" for kind, number in sorted(counts.items(), key=str)
        ]
        report.sections.append((f"requests to odradek node {node.node_id}", "\n".join(lines)))
    if text := node.log_text(_LOG_BYTES):
        report.sections.append((f"log of odradek node {node.node_id}", text))
