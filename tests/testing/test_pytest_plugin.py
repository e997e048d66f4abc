"""The pytest plugin, in projects of its own: the sample of examples/testing, and small ones that are made here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import odradek

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "testing"


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest there, with the plugin alone: it may be installed in this environment, or not yet."""
    plugins = ["-p", "xdist", "-p", "odradek.testing.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(odradek.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _project(folder: Path, code: str, ini: str = "") -> Path:
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n{ini}\n")
    (folder / "test_it.py").write_text(code)
    return folder


def _passed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None
    return int(found[1])


def test_the_plugin_is_found_by_pytest_where_odradek_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"odradek": "odradek.testing.pytest_plugin"}


@pytest.mark.timeout(240)
def test_the_sample_project_passes_on_two_workers_of_xdist() -> None:
    assert _passed(_pytest(SAMPLE, "-n", "2", "-q")) == 10


def test_a_project_that_uses_none_of_it_loads_none_of_it(tmp_path: Path) -> None:
    code = """
import sys
def test_it():
    assert {name for name in sys.modules if name.startswith("odradek")} == {"odradek", "odradek.testing", "odradek.testing.pytest_plugin"}
"""
    assert _passed(_pytest(_project(tmp_path, code), "-q")) == 1


def test_tests_share_a_broker_as_their_marks_allow_and_meet_it_without_faults(tmp_path: Path) -> None:
    code = """
import pytest
from confluent_kafka.admin import AdminClient
seen = []

def test_first(odradek_broker, odradek_topic):
    seen.append((odradek_broker, odradek_topic))
    odradek_broker.faults.drop(None)

def test_second(odradek_broker, odradek_topic, odradek_session_broker):
    assert odradek_broker is seen[0][0] is odradek_session_broker
    assert odradek_topic != seen[0][1]
    topics = odradek_broker.call("topics")
    assert odradek_topic in topics
    AdminClient({"bootstrap.servers": odradek_broker.bootstrap_servers}).list_topics(timeout=10)
    odradek_broker.kill()

def test_third(odradek_broker, odradek_topic):
    assert odradek_broker is seen[0][0] and odradek_broker.is_up

@pytest.mark.odradek(settings={"num.partitions": "5"})
def test_fourth(odradek_broker):
    seen.append(odradek_broker)
    assert odradek_broker is not seen[0][0]

@pytest.mark.odradek(settings={"num.partitions": "5"})
def test_fifth(odradek_broker):
    assert odradek_broker is seen[1]
    odradek_broker.clock.advance(60)

@pytest.mark.odradek(settings={"num.partitions": "5"})
def test_sixth(odradek_broker):
    assert odradek_broker is not seen[1], "its clock is ahead"
    seen[1] = odradek_broker

@pytest.mark.odradek(settings={"num.partitions": "5"}, fresh=True)
class TestFresh:
    def test_seventh(self, odradek_broker):
        assert odradek_broker not in seen

@pytest.mark.odradek(settings={"num.partitions": "5"})
def test_eighth(odradek_broker):
    assert odradek_broker is seen[1]
    odradek_broker.pause()

@pytest.mark.odradek(settings={"num.partitions": "5"})
def test_ninth(odradek_broker):
    odradek_broker.create_topic("it-goes-on")
"""
    assert _passed(_pytest(_project(tmp_path, code), "-q")) == 9


def test_a_shared_broker_that_was_stopped_or_did_not_start_is_made_again_for_the_next_test(tmp_path: Path) -> None:
    code = """
import os
import signal
import socket
import pytest

taken = socket.create_server(("127.0.0.1", 0))
BUSY = pytest.mark.odradek(settings={"listeners": ["PLAINTEXT://127.0.0.1:%d" % taken.getsockname()[1]]})
seen = []

def test_first(odradek_broker):
    odradek_broker.stop()

def test_second(odradek_broker, odradek_topic):
    seen.append(odradek_broker)

@BUSY
def test_third(request):
    with pytest.raises(Exception, match="PLAINTEXT"):
        request.getfixturevalue("odradek_broker")
    taken.close()

@BUSY
def test_fourth(odradek_broker, odradek_topic):
    pass

@pytest.mark.odradek(nodes=1)
def test_fifth(odradek_cluster):
    odradek_cluster.stop()

@pytest.mark.odradek(nodes=1)
def test_sixth(odradek_cluster):
    assert odradek_cluster.is_up(1)

def test_seventh(odradek_session_broker, odradek_broker, odradek_topic):
    assert odradek_session_broker is odradek_broker is seen[0]
    os.kill(odradek_broker.pid, signal.SIGKILL)

def test_eighth(odradek_session_broker, odradek_broker, odradek_topic):
    assert odradek_session_broker is odradek_broker is seen[0]
"""
    assert _passed(_pytest(_project(tmp_path, code, "odradek_process = true"), "-q")) == 8


def test_a_topic_is_as_its_mark_says_and_goes_after_the_test(tmp_path: Path) -> None:
    code = """
import pytest
from confluent_kafka.admin import AdminClient
names = []

@pytest.mark.odradek(partitions=4, configs={"cleanup.policy": "compact"})
def test_it(odradek_broker, odradek_topic):
    names.append(odradek_topic)
    metadata = AdminClient({"bootstrap.servers": odradek_broker.bootstrap_servers}).list_topics(timeout=20)
    assert len(metadata.topics[odradek_topic].partitions) == 4
    assert odradek_broker.compact(odradek_topic) == 0

def test_after(odradek_broker):
    assert names[0] not in odradek_broker.call("topics")

def test_its_deletion_is_no_error(odradek_broker, odradek_topic):
    odradek_broker.delete_topic(odradek_topic)
"""
    assert _passed(_pytest(_project(tmp_path, code), "-q")) == 3


def test_clusters_are_shared_and_whole_again_for_the_next_test(tmp_path: Path) -> None:
    code = """
import pytest
pytestmark = pytest.mark.odradek(nodes=2)
seen = []

def test_first(odradek_cluster):
    assert list(odradek_cluster.ids) == [1, 2]
    seen.append(odradek_cluster)
    odradek_cluster.kill(2)

def test_second(odradek_cluster):
    assert odradek_cluster is seen[0] and odradek_cluster.is_up(2)

@pytest.mark.odradek(nodes=1, fresh=True)
def test_third(odradek_cluster):
    assert list(odradek_cluster.ids) == [1]
"""
    assert _passed(_pytest(_project(tmp_path, code), "-q")) == 3


def test_keys_of_the_ini_file_hold_for_all_brokers(tmp_path: Path) -> None:
    ini = (
        "odradek_settings =\n    num.partitions=3\n    node.id = 1\nodradek_process = true\nodradek_memory = false\nodradek_version = 3.7\n"
    )
    code = """
import os
def test_it(odradek_broker):
    assert odradek_broker.pid != os.getpid()
    assert not odradek_broker.directory.startswith("/dev/shm")
    assert odradek_broker._spec().release.name == "3.7"
    assert odradek_broker._spec().settings["num.partitions"] == "3"
"""
    assert _passed(_pytest(_project(tmp_path, code, ini), "-q")) == 1


def test_a_failing_test_shows_what_its_broker_was_asked_and_what_it_logged(tmp_path: Path) -> None:
    code = """
import pytest
from confluent_kafka.admin import AdminClient

@pytest.mark.odradek(process=True)
def test_it(odradek_broker):
    AdminClient({"bootstrap.servers": odradek_broker.bootstrap_servers, "client.id": "asker"}).list_topics(timeout=20)
    assert False
"""
    done = _pytest(_project(tmp_path, code), "-q")
    assert done.returncode == 1
    assert re.search(r"- requests to odradek node 1 -", done.stdout)
    assert re.search(r"METADATA version \d+ of asker: \d", done.stdout)
    assert re.search(r"- log of odradek node 1 -", done.stdout)
    assert " INFO odradek." in done.stdout


@pytest.mark.parametrize(
    ("mark", "ini", "says"),
    [
        ("(node=3)", "", r"@pytest\.mark\.odradek does not have the argument 'node'; its arguments are settings, configs"),
        ("({'a': 'b'})", "", r"@pytest\.mark\.odradek takes only named arguments"),
        ("(version='9.9')", "", r"version='9\.9': the releases of Kafka are 2\.4 to 4\.3"),
        ("()", "odradek_settings = num.partitions", r"odradek_settings: 'num\.partitions' must have the form key=value"),
        ("(settings={'no.such.key': '1'})", "", r"no\.such\.key"),
    ],
)
def test_what_is_wrong_with_a_mark_or_a_key_is_said_in_one_line(tmp_path: Path, mark: str, ini: str, says: str) -> None:
    code = f"import pytest\n@pytest.mark.odradek{mark}\ndef test_it(odradek_broker): ...\n"
    done = _pytest(_project(tmp_path, code, ini), "-q")
    assert done.returncode != 0
    assert re.search(says, done.stdout + done.stderr), done.stdout


def test_modules_of_odradek_are_imported_without_rewritten_assertions(tmp_path: Path) -> None:
    code = """
import odradek.client
from importlib.machinery import SourceFileLoader
def test_it():
    assert type(odradek.client.__loader__) is SourceFileLoader
    assert type(__loader__) is not SourceFileLoader
"""
    (tmp_path / "conftest.py").write_text("import odradek.client\n")
    assert _passed(_pytest(_project(tmp_path, code), "-q")) == 1
