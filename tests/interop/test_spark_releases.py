"""Our source on the oldest Spark that it supports: batch queries work, what needs newer classes of Spark is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from interop.peers import REPOSITORY
from odradek.client import Admin, NewTopic
from odradek.testing import EmbeddedBroker

pytestmark = pytest.mark.jvm

PYTHON = REPOSITORY / ".cache" / "official-connector" / "venv" / "bin" / "python"


def test_batch_queries_on_spark_4_0(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {"PYTHONPATH": str(REPOSITORY / "src"), "PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"}
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("numbers", 2, 1)])
        script = [str(PYTHON), str(Path(__file__).with_name("spark_four.py")), broker.bootstrap_servers, "numbers", str(tmp_path)]
        done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["release"] == "4.0.0"
    assert answer["values"] == list(range(10_000))
    assert "pushFilters needs Spark 4.1 or newer, and this is 4.0.0" in answer["pushed"]
    assert "Streaming queries of this source need Spark 4.2 or newer, and this is 4.0.0" in answer["read stream"]
    assert "Streaming queries with this sink need Spark 4.2 or newer, and this is 4.0.0" in answer["write stream"]
