"""Broker processes: JVM Kafka and Odradek are started, watched, killed and stopped in the same way.

Both listen on loopback only, and keep their data in a folder of the caller. Both run as a single KRaft node that is broker and controller,
so that a test or a benchmark can use either.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from odradek.testing.kit.embedded import free_ports

REPOSITORY = Path(__file__).resolve().parent.parent
CLUSTER_ID = "T2RyYWRla0ludGVyb3AwMQ"


def jvm_libs() -> Path:
    """Return the folder of JVM Kafka's jars, which `make interop` fills."""
    return Path(os.environ.get("ODRADEK_JVM_LIBS", REPOSITORY / ".cache" / "jvm" / "libs")).resolve()


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    return free_ports(1)[0]


QUICK = ("-XX:TieredStopAtLevel=1",)
"""Options of a JVM that does not run for long."""


def jvm_command(main_class: str, *arguments: str, heap: str = "256m", options: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs a class of JVM Kafka. The log goes to standard error, from warnings on."""
    return [
        "java",
        f"-Xmx{heap}",
        "-XX:+UseG1GC" if heap.endswith("g") else "-XX:+UseSerialGC",
        *options,
        "-cp",
        f"{jvm_libs()}/*",
        main_class,
        *arguments,
    ]


def run_jvm_tool(main_class: str, *arguments: str, stdin: bytes | None = None, timeout: float = 90) -> subprocess.CompletedProcess[bytes]:
    """Run a tool of JVM Kafka to its end, and capture its output."""
    command = jvm_command(main_class, *arguments, options=(*QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"))
    return subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)


def properties(data: Path, port: int, controller_port: int, overrides: Mapping[str, str]) -> str:
    """Return the server.properties of a single KRaft node, the same text for both brokers.

    `{data}` in an override stands for the data folder. A key that is overridden with "" is left out.
    """
    keys = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **{key: value.replace("{data}", str(data)) for key, value in overrides.items()},
    }
    return "".join(f"{key}={value}\n" for key, value in keys.items() if value)


class BrokerProcess:
    """Broker in a separate process. `start` returns when the broker answers ApiVersions."""

    name = "broker"

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self.controller_port = free_port()
        self.host = "127.0.0.1"
        """Address that the broker listens on. An address other than loopback needs overrides of the listeners, too."""
        self.prefix: tuple[str, ...] = ()
        """Words before the start command, of a program that replaces itself by that command."""
        self.overrides = dict(overrides or {})
        self.features: dict[str, int] = {}
        """Feature levels to format with, in place of the defaults."""
        self.format_options: list[str] = []
        """Further arguments of the formatting tool."""
        self.log_path = folder / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def ready_port(self) -> int:
        """Port on which `start` waits for an answer: the controller's port for a node without the broker role."""
        return self.controller_port if self.overrides.get("process.roles") == "controller" else self.port

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def properties_path(self) -> Path:
        return self.folder / "server.properties"

    def write_properties(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.properties_path.write_text(properties(self.data, self.port, self.controller_port, self.overrides))
        return self.properties_path

    def format_command(self) -> list[str]:
        raise NotImplementedError

    def feature_options(self) -> list[str]:
        return [word for name, level in self.features.items() for word in ("--feature", f"{name}={level}")]

    def start_command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def format(self) -> None:
        """Format the data folder, unless it is formatted. Raises RuntimeError when the tool fails."""
        self.write_properties()
        if not (self.data / "meta.properties").exists():
            done = subprocess.run(self.format_command(), capture_output=True, env=self.environment(), check=False)
            if done.returncode:
                raise RuntimeError(f"{self.name}: format failed\n{done.stdout.decode()}\n{done.stderr.decode()}")

    def launch(self) -> None:
        """Format if necessary, and start the process."""
        self.format()
        with self.log_path.open("ab") as log:
            command = [*self.prefix, *self.start_command()]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment())

    def start(self, timeout: float = 60) -> BrokerProcess:
        """Format if necessary, start, and wait until the broker answers ApiVersions.

        Raises RuntimeError when the process ends, and TimeoutError after `timeout` seconds.
        """
        self.launch()
        try:
            self.wait_ready(timeout)
        except BaseException:
            self.kill()
            raise
        return self

    def wait_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not answers_api_versions(self.ready_port, host=self.host):
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} not ready after {timeout} s:\n{self.log_tail()}")
            time.sleep(0.005)

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:]) if self.log_path.exists() else ""

    def pause(self) -> None:
        """Pause the process with SIGSTOP. Its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process with SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, timeout: float = 60) -> int:
        """Send SIGTERM, wait for an orderly end, and return the exit status. Raises TimeoutExpired after `timeout` seconds and a kill."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()

    def cpu_seconds(self) -> float:
        """Return the user and system CPU seconds used so far, from /proc."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Return the resident memory in bytes, from /proc."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak_rss_bytes(self) -> int:
        """Return the peak of the resident memory in bytes, from /proc."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill() if sys.exc_info()[0] else self.stop()


class JvmBroker(BrokerProcess):
    """JVM Kafka, by default with the heap of its start script (1 GB).

    An archive of its classes, and the quick compiler alone, make it start three times as fast as by itself. `as_shipped` leaves both out,
    for measurements.
    """

    name = "jvm"

    def __init__(
        self,
        folder: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        heap: str = "1g",
        as_shipped: bool = False,
    ) -> None:
        super().__init__(folder, overrides, port=port)
        self.heap = heap
        self.as_shipped = as_shipped

    def java_options(self) -> tuple[str, ...]:
        """Return Java options in addition to those of Kafka's scripts."""
        return () if self.as_shipped else (*QUICK, f"-XX:SharedArchiveFile={class_archive()}")

    def format_command(self) -> list[str]:
        options = ("-t", CLUSTER_ID, "-c", str(self.properties_path), *self.feature_options(), *self.format_options)
        return jvm_command("kafka.tools.StorageTool", "format", *options)

    def start_command(self) -> list[str]:
        # The flags of kafka-run-class.sh, so that JVM Kafka runs as its makers intend.
        options = (
            *self.java_options(),
            "-server",
            "-XX:MaxGCPauseMillis=20",
            "-XX:InitiatingHeapOccupancyPercent=35",
            "-XX:+ExplicitGCInvokesConcurrent",
            f"-Xms{self.heap}",
        )
        return jvm_command(
            "kafka.Kafka", str(self.properties_path), heap=self.heap, options=(*options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        )


@functools.cache
def class_archive() -> Path:
    """Return the archive of a broker's classes, beside the folder of jars. The first call for these jars and this Java makes the
    archive.
    """
    libs = jvm_libs()
    java = shutil.which("java")
    assert java is not None, "Java is needed"
    made_of = [Path(java).resolve(), *sorted(libs.glob("*.jar"))]
    key = zlib.crc32(repr([(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in made_of]).encode())
    archive = libs.parent / f"classes-{key:08x}.jsa"
    with (libs.parent / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            for older in libs.parent.glob("classes-*.jsa"):
                older.unlink()
            _archive_classes(archive)
    return archive


class _ArchivingBroker(JvmBroker):
    """JVM that writes the archive when it ends in order."""

    archive = Path()

    def java_options(self) -> tuple[str, ...]:
        return (*QUICK, f"-XX:ArchiveClassesAtExit={self.archive}")


def _archive_classes(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="odradek-classes-") as folder:
        broker = _ArchivingBroker(Path(folder), {"log.cleaner.dedupe.buffer.size": "20000000"}, heap="256m")
        broker.archive = archive.with_suffix(f".{os.getpid()}")
        broker.start(180)
        broker.stop(180)
        if not broker.archive.exists():
            raise RuntimeError(f"Java has written no archive of classes:\n{broker.log_tail()}")
        broker.archive.rename(archive)


class OdradekBroker(BrokerProcess):
    """Odradek, run by the interpreter of this program."""

    name = "odradek"

    def __init__(
        self, folder: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None, interpreted: bool = False
    ) -> None:
        super().__init__(folder, overrides, port=port)
        self.interpreted = interpreted

    def environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as with an installed package, the broker starts with compiled bytecode
        if self.interpreted:
            environment["ODRADEK_INTERPRETED"] = "1"
        return environment

    def format_command(self) -> list[str]:
        options = ("-t", CLUSTER_ID, "-c", str(self.properties_path), *self.feature_options(), *self.format_options)
        return [sys.executable, "-m", "odradek.cli.main", "storage", "format", *options]

    def start_command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "odradek"), "start", str(self.properties_path)]


def answers_api_versions(port: int, timeout: float = 2.0, host: str = "127.0.0.1") -> bool:
    """Return whether a broker on the port answers an ApiVersions v0 request without an error."""
    request = struct.pack(">hhih", 18, 0, 7, -1)
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(10)
            return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (7, 0)
    except OSError:
        return False


@contextlib.contextmanager
def both(
    folder: Path, overrides: Mapping[str, str] | None = None, features: Mapping[str, int] | None = None
) -> Iterator[tuple[OdradekBroker, JvmBroker]]:
    """Start Odradek and JVM Kafka with the same configuration and feature levels. Kill both when the block ends."""
    ours, theirs = OdradekBroker(folder / "odradek", overrides), JvmBroker(folder / "jvm", overrides, heap="512m")
    for broker in (ours, theirs):
        broker.features.update(features or {})
    try:
        ours.start()
        theirs.start(180)
        yield ours, theirs
    finally:
        ours.kill()
        theirs.kill()
