"""The whole way once: a broker, the flights into a topic, a Spark pipeline over it, the figures checked. `make demo` runs this.

    python examples/flights/demo.py [--data demo-data] [--bootstrap-server HOST:PORT]

With --bootstrap-server a broker that runs already is used; otherwise one is started for the time of the demo.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import check
import publish
from rich.console import Console

from odradek.base.errors import OdradekError
from odradek.records.native import codec_is_compiled
from odradek.spark.environment import check_java, spark_environment

HERE = Path(__file__).parent
TOPIC = "flights"
SPARK_CONNECT_PORT = 15002


def free_port(preferred: int) -> int:
    """`preferred` where nobody listens on it, else any free one."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("not reached")


@contextlib.contextmanager
def running_broker(data: Path, console: Console) -> Iterator[str]:
    """A broker with its data in `data` until the block ends; yields its address."""
    port = free_port(9092)
    log = data.parent / "broker.log"
    command = [sys.executable, "-m", "odradek.cli.main", "start", "--data-dir", str(data)]
    if port != 9092:
        console.print(f"Port 9092 is in use; the broker listens on {port} instead.")
    command += ["--override", f"listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{free_port(9093)}"]
    started = time.perf_counter()
    with log.open("ab") as output:
        broker = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until_ready(broker, port, log)
        console.print(f"Broker ready on localhost:{port} after {time.perf_counter() - started:.2f} s, data in {data}, log in {log}")
        yield f"localhost:{port}"
    finally:
        broker.send_signal(signal.SIGTERM)
        try:
            broker.wait(30)
        except subprocess.TimeoutExpired:
            broker.kill()
            broker.wait()


def wait_until_ready(broker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Returns when the broker accepts connections; SystemExit, with the end of its log, when it does not."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if broker.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
            return
        time.sleep(0.02)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise SystemExit(f"The broker did not start; the end of {log}:\n{tail}")


def wait_for_spark_connect(console: Console, limit_s: float = 300) -> None:
    """Waits until the fixed port is free on which `spark-pipelines` starts a Spark Connect server; SystemExit when another one stays."""
    deadline = time.monotonic() + limit_s
    while free_port(SPARK_CONNECT_PORT) != SPARK_CONNECT_PORT:
        if time.monotonic() > deadline:
            raise SystemExit(
                f"Port {SPARK_CONNECT_PORT} is in use, and Spark needs it. When the Spark session that has it is gone, run this again."
            )
        with console.status(f"Waiting for port {SPARK_CONNECT_PORT}, which another Spark session uses ..."):
            time.sleep(1)


def run_pipeline(bootstrap: str, results: Path, console: Console) -> None:
    """`spark-pipelines run` on a copy of the project next to its results, from an empty state: the figures are those of one pass."""
    shutil.rmtree(results, ignore_errors=True)
    shutil.copytree(HERE / "pipeline", results / "project", ignore=shutil.ignore_patterns("__pycache__"))
    spec = results / "project" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("storage-is-set-by-demo.py", (results / "checkpoints").as_uri()))
    environment = spark_environment() | {"ODRADEK_BOOTSTRAP_SERVER": bootstrap}
    command = [str(Path(environment["SPARK_HOME"]) / "bin" / "spark-pipelines"), "run", "--spec", str(spec)]
    settings = {
        "spark.sql.warehouse.dir": (results / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    log = results / "spark.log"
    wait_for_spark_connect(console)
    started = time.perf_counter()
    with console.status("Running the Spark pipeline (streaming table, then materialized view) ..."), log.open("wb") as output:
        status = subprocess.run(command, cwd=results, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if status:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        raise SystemExit(f"The pipeline failed with status {status}; the end of {log}:\n{tail}")
    console.print(f"Pipeline done in {time.perf_counter() - started:.1f} s, log in {log}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Flights into a topic, through a Spark pipeline, checked.")
    parser.add_argument("--data", type=Path, default=Path("demo-data"), help="folder for the broker's data and the results")
    parser.add_argument("--bootstrap-server", help="use this broker instead of starting one")
    options = parser.parse_args()
    console = Console()
    data = options.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    try:
        check_java()
        if not codec_is_compiled():
            console.print("There was no C compiler when Odradek was installed: the record codec runs interpreted, which is slower.")
        existing = options.bootstrap_server
        with contextlib.nullcontext(existing) if existing else running_broker(data / "broker", console) as bootstrap:
            publish.publish(bootstrap, TOPIC, console)
            run_pipeline(bootstrap, data / "pipeline", console)
        differences = check.check(data / "pipeline" / "warehouse", console)
    except OdradekError as error:
        raise SystemExit(f"demo: {error}") from None
    if differences:
        raise SystemExit("The figures differ from the data set:\n" + "\n".join(differences))
    say_what_next(data, console)


def say_what_next(data: Path, console: Console) -> None:
    """Where everything is, and what to do with it."""
    console.print("All figures equal those computed straight from the CSV.\n")
    console.print(f"  table, Parquet by origin airport   {data / 'pipeline/warehouse/flights'}", soft_wrap=True)
    console.print(f"  view, mean arrival delay           {data / 'pipeline/warehouse/arrival_delay_by_carrier'}", soft_wrap=True)
    console.print(f"  the broker's data                  {data / 'broker'}\n", soft_wrap=True)
    console.print("Try next:")
    odradek = Path(sys.executable).parent / "odradek"
    console.print(f"  {odradek} start --data-dir {data / 'broker'}      # the same broker again, with the flights in it", soft_wrap=True)
    console.print(f"  {odradek} consume -t flights -c 3 -J         # in another terminal", soft_wrap=True)
    console.print("  examples/flights/pipeline/transformations/flights.py  # change the view, then make demo again")


if __name__ == "__main__":
    main()
