"""Start of a project with Spark's scripts. Java, Spark and the broker are checked first; each problem is an error of one line.

spark-pipelines gets the options of the session by the variable PYSPARK_SUBMIT_ARGS. Its command line does not work for them (Spark 4.2 and
4.3): jars and packages affect only the process that starts the session's process, and of more than ten settings the first are lost.
"""

from __future__ import annotations

import importlib.metadata
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import click

from odradek.base.errors import ConfigError, OdradekError
from odradek.cli.shared.client_command import client_settings
from odradek.cli.shared.signals import ending_signals
from odradek.client import Admin
from odradek.client.settings.config import settings_of_admin
from odradek.config.properties import MalformedProperties, parse_properties
from odradek.config.validators import parse_host_port
from odradek.spark.environment import check_java, spark_environment
from odradek.spark.recipes.lakes import ICEBERG, STREAMING_SINCE, lakes_of, package_for, release
from odradek.spark.recipes.project import CONNECTION, JOB, SPARK_CONF

SPARK_CONNECT_PORT: Final = 15002
PORT_TIMEOUT_S: Final = 300.0
_SPECS: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_SERVERS: Final = f"{CONNECTION}kafka.bootstrap.servers"
_ENDING: Final = "pyspark-shell"
"""Required last argument of PYSPARK_SUBMIT_ARGS."""


@dataclass(frozen=True)
class RunOptions:
    """Options of the command line, besides the project: brokers, jars, tables to refresh, further arguments of Spark."""

    bootstrap: str | None = None
    jars: str | None = None
    refresh: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def run_project(folder: Path, run_options: RunOptions) -> int:
    """Run a project to its end, and return the exit status of Spark's script. Raises OdradekError when a prerequisite is missing."""
    declarative = is_declarative(folder)
    if run_options.refresh and not declarative:
        raise click.UsageError(
            f"{run_options.refresh[0]}: only for declarative pipelines; to read a topic again, remove the checkpoints and tables of the job"
        )
    environment = spark_environment()
    settings = settings_of(folder)
    if run_options.bootstrap is not None:
        settings[_SERVERS] = run_options.bootstrap
    options = session_options(folder, settings, run_options, importlib.metadata.version("pyspark"))
    check_java()
    check_broker(settings)
    if declarative:
        environment["PYSPARK_SUBMIT_ARGS"] = with_options(environment.get("PYSPARK_SUBMIT_ARGS", ""), options)
        # By default Spark uses one thread.
        remote = [] if any(each.partition("=")[0] == "--remote" for each in run_options.more) else ["--remote", "local[*]"]
        arguments = ["spark-pipelines", "run", *remote, *run_options.refresh, *run_options.more]
        wait_for_port()
    else:
        arguments = ["spark-submit", *options, *run_options.more, JOB]
    click.echo(f"Running {shlex.join(arguments)}", err=True)
    return run_process([str(Path(environment["SPARK_HOME"]) / "bin" / arguments[0]), *arguments[1:]], folder, environment)


def is_declarative(folder: Path) -> bool:
    """Return whether the folder has a project for spark-pipelines, as opposed to spark-submit. Raises ConfigError for neither, or both."""
    declarative, job = any((folder / name).is_file() for name in _SPECS), (folder / JOB).is_file()
    if declarative == job:
        problem = f"both {JOB} and a pipeline specification exist" if job else f"neither {JOB} nor {_SPECS[0]} exists"
        raise ConfigError(f"{folder}: {problem}; `odradek pipeline init NAME` writes a project")
    return declarative


def settings_of(folder: Path) -> dict[str, str]:
    """Return the settings of spark.conf, {} without such a file. Raises ConfigError for a malformed file."""
    file = folder / SPARK_CONF
    try:
        return parse_properties(file.read_text())
    except FileNotFoundError:
        return {}
    except (MalformedProperties, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def session_options(folder: Path, settings: Mapping[str, str], run_options: RunOptions, version: str) -> list[str]:
    """Return the options of spark-submit for the session of a project. Raises OdradekError when this version of Spark cannot run it."""
    lakes = lakes_of(settings)
    if ICEBERG not in lakes and release(version) < STREAMING_SINCE:
        raise OdradekError(
            f"streaming queries of topics need Spark {'.'.join(map(str, STREAMING_SINCE))} or later; the installed version is {version}"
        )
    packages = [package_for(lake, version) for lake in lakes]
    options = ["--properties-file", SPARK_CONF] if (folder / SPARK_CONF).is_file() else []
    if lakes and run_options.jars is not None:
        # An option of spark-submit replaces the setting of the properties file, so both are named.
        options += ["--jars", ",".join([*filter(None, settings.get("spark.jars", "").split(",")), *jars_of(run_options.jars)])]
    elif lakes:
        options += ["--packages", ",".join([*filter(None, settings.get("spark.jars.packages", "").split(",")), *packages])]
    if run_options.bootstrap is not None:
        options += ["--conf", f"{_SERVERS}={run_options.bootstrap}"]
    return options


def jars_of(words: str) -> list[str]:
    """Return the paths of comma-separated jars; a folder stands for the jars in it. Raises ConfigError for a missing jar."""
    found: list[str] = []
    for word in words.split(","):
        path = Path(word).resolve()
        jars = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not jars or not all(each.is_file() for each in jars):
            raise ConfigError(f"--jars {word}: no such jar, or no jar in this folder")
        found += map(str, jars)
    return found


def with_options(arguments: str, options: list[str]) -> str:
    """Return PYSPARK_SUBMIT_ARGS with further options."""
    words = shlex.split(arguments)
    return shlex.join([*(words[:-1] if words[-1:] == [_ENDING] else words), *options, _ENDING])


def check_broker(settings: Mapping[str, str]) -> None:
    """Check that a broker of the project responds. Raises KafkaError when none does, ConfigError for missing or invalid settings."""
    prefix = f"{CONNECTION}kafka."
    client = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    servers = client.pop("bootstrap.servers", "")
    if not servers:
        raise ConfigError(f"{SPARK_CONF} has no {_SERVERS}; name the brokers with -b HOST:PORT")
    for server in servers.split(","):
        parse_host_port("bootstrap.servers", server)
    of_admin = tuple(f"{key}={value}" for key, value in settings_of_admin(client).items())
    with Admin(client_settings(servers, of_admin)) as admin:
        admin.describe_cluster()


def wait_for_port(timeout_s: float = PORT_TIMEOUT_S) -> None:
    """Wait until the port of spark-pipelines' server is free. Raises OdradekError when it is still in use after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    reported = False
    while _is_taken(SPARK_CONNECT_PORT):
        if time.monotonic() >= deadline:
            raise OdradekError(
                f"port {SPARK_CONNECT_PORT} is in use, and Spark needs it; run the command again when the other Spark session has ended"
            )
        if not reported:
            click.echo(
                f"Waiting for port {SPARK_CONNECT_PORT}, which another Spark session uses (press Ctrl-C to stop waiting) ...", err=True
            )
            reported = True
        time.sleep(0.2)


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False


def run_process(command: list[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Run a command to its end, and return its exit status, 130 after Ctrl-C. For a child that died of signal N return 128 + N.

    Signals that ask to end are passed on to the child; an ignored SIGHUP (nohup) stays ignored. A second Ctrl-C kills the child.
    """
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def forward_signal(number: int, _: FrameType | None) -> None:
        received.append(number)
        # After Ctrl-C the terminal has also signalled the child; a second SIGINT is harmless. After `kill` only this process is signalled.
        if process is not None:
            process.send_signal(signal.SIGKILL if received.count(signal.SIGINT) > 1 else number)

    before = {number: signal.signal(number, forward_signal) for number in ending_signals()}
    try:
        process = subprocess.Popen(command, cwd=folder, env=dict(environment))
        if received:
            process.send_signal(received[-1])
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        return 130
    return status if status >= 0 else 128 - status
