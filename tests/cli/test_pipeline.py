"""`odradek pipeline`: what is written, and how Spark's scripts are started. Scripts that note how they were started stand for Spark's."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from odradek.base.errors import OdradekError
from odradek.cli.pipelines import pipeline_run
from odradek.cli.pipelines.pipeline_run import jars_of, run_process, wait_for_port, with_options
from odradek.spark import environment as spark_environment
from tests.cli.conftest import Answer, Command

SCRIPT = """#!/bin/sh
printf '%s\\n' "$0" "$@" > words
printf '%s\\n' "$PWD" "$PYSPARK_PYTHON" "$PYSPARK_SUBMIT_ARGS" > surroundings
exit 7
"""


class Spark:
    """An installation of Spark that only notes what it is asked."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        for name in ("spark-pipelines", "spark-submit"):
            script = home / "bin" / name
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(SCRIPT)
            script.chmod(0o755)
        monkeypatch.setattr(spark_environment, "spark_home", lambda: str(home))
        monkeypatch.setattr(pipeline_run, "check_java", lambda: 17)
        monkeypatch.setattr(pipeline_run, "_is_taken", lambda port: False)
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
        monkeypatch.delenv("ODRADEK_PIPELINE_JARS", raising=False)
        self.is_of("4.3.0")

    def is_of(self, version: str) -> None:
        self._monkeypatch.setattr(pipeline_run.importlib.metadata, "version", lambda name: version)


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    monkeypatch.chdir(tmp_path)
    return Spark(tmp_path / "spark", monkeypatch)


def words(project: str = "orders") -> list[str]:
    name, *rest = (Path(project) / "words").read_text().splitlines()
    return [Path(name).name, *rest]


def surroundings(project: str = "orders") -> list[str]:
    return (Path(project) / "surroundings").read_text().splitlines()


def test_a_declarative_project_is_started_by_spark_pipelines(spark: Spark, command: Command, bootstrap: str) -> None:
    assert command("pipeline", "init", "orders", "-b", bootstrap).status == 0
    answer = command("pipeline", "run", "orders", "--full-refresh", "a,b", "--full-refresh", "c", "--", "--refresh", "d")
    assert answer == Answer(7, "", "Running spark-pipelines run --remote 'local[*]' --full-refresh a,b --full-refresh c --refresh d\n")
    assert words() == ["spark-pipelines", "run", "--remote", "local[*]", "--full-refresh", "a,b", "--full-refresh", "c", "--refresh", "d"]
    assert surroundings() == [str(Path("orders").resolve()), sys.executable, "--properties-file spark.conf pyspark-shell"]


def test_a_remote_of_ones_own_goes_before_ours(spark: Spark, command: Command, bootstrap: str) -> None:
    command("pipeline", "init", "orders", "-b", bootstrap)
    for remote in (["--remote", "sc://there"], ["--remote=sc://there"]):
        command("pipeline", "run", "orders", "--full-refresh-all", "--", *remote)
        assert words() == ["spark-pipelines", "run", "--full-refresh-all", *remote]


def test_a_job_is_started_by_spark_submit_with_the_packages_of_its_tables(spark: Spark, command: Command, bootstrap: str) -> None:
    spark.is_of("4.2.1")
    command("pipeline", "init", "orders", "--to", "delta", "-b", "localhost:1")
    with Path("orders/spark.conf").open("a") as settings:
        settings.write("spark.jars.packages a:b:1\n")
    os.chdir("orders")
    assert command("pipeline", "run", "-b", bootstrap, "--", "--master", "local[1]").status == 7
    packages = ["--packages", "a:b:1,io.delta:delta-spark_4.2_2.13:4.4.0"]
    servers = ["--conf", f"spark.odradek.kafka.bootstrap.servers={bootstrap}"]
    assert words(".") == ["spark-submit", "--properties-file", "spark.conf", *packages, *servers, "--master", "local[1]", "job.py"]


def test_jars_take_the_place_of_packages(spark: Spark, command: Command, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.is_of("4.0.0")
    Path("jars").mkdir()
    for name in ("jars/b.jar", "jars/a.jar", "jars/notes.txt", "c.jar"):
        Path(name).touch()
    command("pipeline", "init", "orders", "--to", "iceberg", "-b", bootstrap)
    monkeypatch.setenv("ODRADEK_PIPELINE_JARS", "jars,c.jar")
    assert command("pipeline", "run", "orders").status == 7
    jars = ",".join(str(Path(name).resolve()) for name in ("jars/a.jar", "jars/b.jar", "c.jar"))
    assert words() == ["spark-submit", "--properties-file", "spark.conf", "--jars", jars, "job.py"]
    assert jars_of("c.jar") == [str(Path("c.jar").resolve())]
    with Path("orders/spark.conf").open("a") as settings:
        settings.write("spark.jars=own.jar,other.jar\n")
    assert command("pipeline", "run", "orders").status == 7
    assert words() == ["spark-submit", "--properties-file", "spark.conf", "--jars", f"own.jar,other.jar,{jars}", "job.py"]


def test_what_the_user_says_of_sessions_stays() -> None:
    assert with_options("", ["--a"]) == "--a pyspark-shell"
    assert with_options("--conf 'x=a b' pyspark-shell", ["--a"]) == "--conf 'x=a b' --a pyspark-shell"


@pytest.mark.parametrize(
    ("to", "version", "served", "newest"),
    [("delta", "4.3.0", "Delta Lake runs on Spark 4.2", "4.2"), ("iceberg", "4.2.1", "Iceberg runs on Spark 4.0 and 4.1", "4.1")],
)
def test_a_spark_without_the_format(
    to: str, version: str, served: str, newest: str, spark: Spark, command: Command, bootstrap: str
) -> None:
    spark.is_of(version)
    command("pipeline", "init", "orders", "--to", to, "-b", bootstrap)
    way_out = f"an environment with pip install 'pyspark[pipelines]=={newest}.*' can run it"
    assert command("pipeline", "run", "orders") == Answer(1, "", f"odradek pipeline: {served}, but this is {version}; {way_out}\n")
    assert not Path("orders/words").exists()


def test_a_spark_that_reads_no_topics_in_streams(spark: Spark, command: Command, bootstrap: str) -> None:
    spark.is_of("4.1.4")
    command("pipeline", "init", "orders", "-b", bootstrap)
    problem = "odradek pipeline: streaming queries of topics need Spark 4.2 or later; the installed version is 4.1.4\n"
    assert command("pipeline", "run", "orders") == Answer(1, "", problem)


def test_what_is_missing_is_said_in_a_line(spark: Spark, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command("pipeline", "init", "orders", "-b", "localhost:1")
    answer = command("pipeline", "run", "orders")
    assert answer.status == 1
    assert answer.err.startswith("odradek pipeline: ")
    assert "localhost:1" in answer.err
    assert answer.err.endswith("Start a broker with `odradek start`, or name another one with -b HOST:PORT\n")

    def no_java() -> int:
        raise spark_environment.JavaMissing("java is not on the PATH.")

    monkeypatch.setattr(pipeline_run, "check_java", no_java)
    assert command("pipeline", "run", "orders").err == "odradek pipeline: java is not on the PATH.\n"


def test_without_pyspark(command: Command, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command("pipeline", "init", "orders", "-b", bootstrap)
    monkeypatch.setattr(spark_environment.importlib.util, "find_spec", lambda name: None)
    answer = command("pipeline", "run", "orders")
    assert answer == Answer(1, "", 'odradek pipeline: pyspark is not installed: pip install "odradek[spark]"\n')


def test_a_port_that_stays_taken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(pipeline_run, "SPARK_CONNECT_PORT", port)
        with pytest.raises(OdradekError, match=f"port {port} is in use, and Spark needs it"):
            wait_for_port(0)
        timer = threading.Timer(0.3, other.close)
        timer.start()
        wait_for_port(30)
        timer.join()
    assert capsys.readouterr().err == f"Waiting for port {port}, which another Spark session uses (press Ctrl-C to stop waiting) ...\n"


def test_settings_beyond_the_brokers_are_their_owners_alone(spark: Spark, command: Command) -> None:
    before = os.umask(0o022)
    try:
        command("pipeline", "init", "plain", "-b", "a:1")
        command("pipeline", "init", "secured", "-b", "a:1", "-X", "sasl.password=sesame")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("plain/spark.conf").stat().st_mode) == 0o644
    assert stat.S_IMODE(Path("secured/spark.conf").stat().st_mode) == 0o600


def test_nothing_is_written_over(spark: Spark, command: Command) -> None:
    Path("orders").symlink_to("nowhere")
    assert command("pipeline", "init", "orders").err == "odradek pipeline: orders already exists; nothing was written\n"
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 9)])
def test_signals_end_the_run_in_order(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """A run that is told to end waits for Spark to have ended."""
    child = (
        f"trap 'sleep 0.2; echo ended > {tmp_path}/ended; exit 9' INT TERM; echo started > {tmp_path}/started; while :; do sleep 0.05; done"
    )
    code = "import sys; from pathlib import Path; from odradek.cli.pipelines.pipeline_run import run_process; import os\n"
    code += f"try:\n    sys.exit(run_process(['sh', '-c', {child!r}], Path('.'), os.environ))\nexcept KeyboardInterrupt:\n    sys.exit(99)"
    run = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert time.monotonic() < deadline
            assert run.poll() is None
            time.sleep(0.01)
        run.send_signal(number)
        assert run.wait(60) == status
    finally:
        run.kill()
        run.wait()
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("handling", "then", "status"), [(signal.SIG_IGN, "kill -HUP $$; exit 3", 3), (signal.SIG_DFL, "while :; do sleep 0.05; done", 129)]
)
def test_a_run_under_nohup_outlives_its_terminal(handling: signal.Handlers, then: str, status: int, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, handling)
    try:
        assert run_process(["sh", "-c", f"kill -HUP $PPID; {then}"], tmp_path, os.environ) == status
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_child_that_a_signal_ended(tmp_path: Path) -> None:
    assert run_process(["sh", "-c", "kill -9 $$"], tmp_path, os.environ) == 137
