"""A standalone cluster of Spark: a master and two workers, processes that know of the project only what is sent to them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import venv
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.peers import REPOSITORY
from odradek.client import Admin, NewTopic, Producer
from odradek.spark.environment import spark_environment
from odradek.testing import EmbeddedBroker
from tests.quick_jvms import QUICK_JVMS
from tests.spark.numbers import read_numbers

pytestmark = [pytest.mark.spark, pytest.mark.jvm, pytest.mark.timeout(400)]

PARTITIONS = 4
RECORDS = 4_000

_JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
connection = {"kafka.bootstrap.servers": sys.argv[1]}
rows = spark.read.format("odradek").options(**connection, subscribe="numbers").load()
doubled = rows.selectExpr("CAST(CAST(value AS STRING) * 2 AS STRING) AS value")
once = {"exactlyOnce": "true", "txnAppId": "job", "txnVersion": "1"}
doubled.write.format("odradek").options(**connection, topic="doubled", **once).mode("append").save()
print("partitions:", rows.rdd.getNumPartitions())
spark.stop()
"""


def _until(process: subprocess.Popen[str], pattern: str) -> str:
    """The first line with the pattern; its first group."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError("".join(lines))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the master. Both workers have another `python3` than ours on their path."""
    environment = spark_environment(
        {"PATH": "/usr/bin:/bin"} | QUICK_JVMS | {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    )
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        del environment[name]
    script = str(Path(environment["SPARK_HOME"]) / "bin" / "spark-class")
    environment["PATH"] = "/usr/bin:/bin"
    with ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen[str]:
            command = [script, *arguments]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.enter_context(process)
            stack.callback(process.terminate)
            return process

        host = ("--host", "127.0.0.1", "--webui-port", "0")
        processes = [start("org.apache.spark.deploy.master.Master", *host, "--port", "0")]
        address = _until(processes[0], r"Starting Spark master at (spark://\S+)")
        for _ in range(2):
            folder = str(tmp_path_factory.mktemp("worker"))
            worker = start("org.apache.spark.deploy.worker.Worker", *host, "--cores", "1", "--memory", "1g", "--work-dir", folder, address)
            _until(worker, r"(Successfully registered) with master")
            processes.append(worker)
        readers = [threading.Thread(target=deque, args=(process.stdout, 0)) for process in processes]
        for reader in readers:
            # What nobody reads would stop them.
            reader.start()
            stack.callback(reader.join)
        for process in processes:
            stack.callback(process.terminate)
        yield address


def _environment_without_the_project(folder: Path) -> Path:
    """A Python with all that the project needs, and without the project."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder on the path, unlike one of site-packages, brings along no links to sources elsewhere.
    (packages / "dependencies.pth").write_text(str(Path(pytest.__file__).parents[1]))
    python = folder / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    lacks = subprocess.run([python, "-c", "import odradek"], capture_output=True, env=environment, check=False, cwd=folder)
    assert b"No module named 'odradek'" in lacks.stderr
    return python


def test_a_wheel_is_sent_to_the_workers(master: str, tmp_path: Path) -> None:
    made = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), "."]
    subprocess.run(made, check=True, cwd=REPOSITORY, env={**os.environ, "ODRADEK_CODEC": "off"})
    (wheel,) = tmp_path.glob("*.whl")
    (tmp_path / "job.py").write_text(_JOB)
    with EmbeddedBroker({"transaction.state.log.num.partitions": "2"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("numbers", "doubled")])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(RECORDS):
                producer.send("numbers", b"%d" % number, partition=number % PARTITIONS)
        environment = spark_environment()
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = str(_environment_without_the_project(tmp_path / "env"))
        # Spark sends files to its workers, and not to the Python that it asks, beside the driver, what a source has.
        environment["PYTHONPATH"] = str(wheel)
        submit = [str(Path(environment["SPARK_HOME"]) / "bin" / "spark-submit"), "--master", master, "--py-files", str(wheel)]
        settings = ["--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=512m"]
        command = [*submit, *settings, str(tmp_path / "job.py"), broker.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=350, check=False)
        assert done.returncode == 0, done.stderr
        assert f"partitions: {PARTITIONS}" in done.stdout
        assert read_numbers(broker.bootstrap_servers, "doubled", PARTITIONS, RECORDS) == [2 * number for number in range(RECORDS)]
