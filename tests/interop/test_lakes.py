"""docs/lake-tables.md on the Spark that the tests have for each format (interop/lake)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic
from odradek.testing import EmbeddedBroker
from tests.connect_port import connect_port
from tests.interop.lakes import CACHE, Project, assert_exactly_once, environment, order, produce, through_a_restart

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(1200)]

DELTA = (CACHE / "lake" / "spark" / "bin" / "python", CACHE / "lake" / "delta")
ICEBERG = (CACHE / "official-connector" / "venv" / "bin" / "python", CACHE / "lake" / "iceberg")


def test_a_topic_becomes_a_table_of_parquet(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        found = through_a_restart(Project("parquet", Path(sys.executable), broker.bootstrap_servers, tmp_path))
    assert_exactly_once(found)
    assert found["closed"] == [found["first"]]
    assert found["rows beside a torn day"] == found["rows of a reader from before"] == 60
    assert found["closed days are left alone"]


@pytest.mark.minutes
def test_a_topic_becomes_a_table_of_delta_lake(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        assert_exactly_once(through_a_restart(Project("delta", DELTA[0], broker.bootstrap_servers, tmp_path, DELTA[1])))


@pytest.mark.minutes
def test_a_topic_becomes_a_table_of_iceberg(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        project = Project("iceberg", ICEBERG[0], broker.bootstrap_servers, tmp_path, ICEBERG[1])
        found = through_a_restart(project)
        assert_exactly_once(found)
        # Its offsets have expired with their snapshots: they are taken from the rows.
        assert found["snapshots with offsets"] == 0
        produce(broker.bootstrap_servers, [order(60), b"no JSON"])
        project.run()
        found = project.check("look")
    assert found["differences"] == []
    assert found["ids"] == list(range(61))


def test_a_driver_that_is_killed_in_a_batch_leaves_each_record_once(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        project = Project("parquet", Path(sys.executable), broker.bootstrap_servers, tmp_path)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1)])
        produce(broker.bootstrap_servers, [*map(order, range(60)), b"no JSON"])
        project.write("--kind", "job")
        text = project.job.read_text()
        project.job.write_text(
            text.replace('.option("subscribe", TOPIC)', '.option("subscribe", TOPIC).option("maxOffsetsPerTrigger", 10)')
        )
        for kill_in in (1, 3):
            run = subprocess.Popen(
                project.run_command(), cwd=tmp_path, env=environment(), start_new_session=True, stderr=subprocess.DEVNULL
            )
            try:
                while not (planned := project.numbers("offsets")) or planned[-1] < kill_in or planned == project.numbers("commits"):
                    assert run.poll() is None, "it was not killed in time"
                    time.sleep(0.005)
            finally:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
            assert len(project.numbers("offsets")) > len(project.numbers("commits"))
        project.run()
        found = project.check("look")
    assert found["differences"] == []
    assert found["ids"] == list(range(60))


@pytest.mark.minutes
def test_records_that_come_late(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    times = {1: 0, 2: 30, 3: 90, 4: 50}
    values = [{"id": each, "ordered": (now - timedelta(minutes=minutes)).isoformat()} for each, minutes in times.items()]
    values += [values[0], values[1], {"id": 5}]
    with EmbeddedBroker() as broker:
        project = Project("parquet", Path(sys.executable), broker.bootstrap_servers, tmp_path)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1, configs={"retention.ms": "-1"})])
        produce(broker.bootstrap_servers, [json.dumps(each).encode() for each in values])
        project.write("--kind", "job")
        found = project.check("late")
    assert found["fresh"] == [1, 2, 4]
    assert found["late"] == [[3, "late"], [5, "late"]]
    assert (found["dropped"], found["dropped later"]) == (0, 1)


@pytest.mark.minutes
def test_a_declarative_project_runs_again_and_again(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        project = Project("parquet", Path(sys.executable), broker.bootstrap_servers, tmp_path)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", 2, 1)])
        project.write("--kind", "declarative")
        for first in (0, 20):
            produce(broker.bootstrap_servers, [*map(order, range(first, first + 20)), b"no JSON"])
            with connect_port():
                project.run()
        found = project.check("catalog")
    assert found["differences"] == []
    assert found["ids"] == list(range(40))
    assert found["errors"] == {"value: not one JSON value": 2}
