"""JVM Kafka beside us: the same files from `format`, our log in its tools, its metadata in our node."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

from odradek.config.broker import BrokerConfig
from odradek.controller.format import format_storage, storage_info
from odradek.controller.kraft import KRaftNode
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.records import Batch, decode_batches
from odradek.controller.kraft.snapshots import list_snapshots
from odradek.storage.disk import OsDisk
from odradek.storage.meta_properties import read_meta_properties
from tests.clock import ManualClock
from tests.controller.kraft_cluster import set_config

LIBS = os.environ.get("ODRADEK_JVM_LIBS") or str(Path(__file__).parents[2] / ".cache" / "jvm" / "libs")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
UNSUPPORTED = ("share.version", "streams.version")

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True, scope="module")
def jars() -> None:
    assert Path(LIBS).is_dir(), "no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS"


def java(main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{LIBS}/*", main, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def settings(data: Path, *, static: bool) -> dict[str, str]:
    broker, controller = free_ports(2)
    quorum = (
        ("controller.quorum.voters", f"1@127.0.0.1:{controller}")
        if static
        else ("controller.quorum.bootstrap.servers", f"127.0.0.1:{controller}")
    )
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": f"{data}/a,{data}/b",
        quorum[0]: quorum[1],
    }


def properties_file(path: Path, values: dict[str, str]) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return str(path)


def shape(path: Path) -> list[tuple[object, ...]]:
    """Everything in a checkpoint but times and checksums."""

    def describe(batch: Batch) -> tuple[object, ...]:
        kinds = [kind for kind, _ in batch.control]
        return batch.base_offset, batch.end_offset, batch.epoch, batch.size, kinds, batch.records

    return [describe(batch) for batch in decode_batches(path.read_bytes())]


@pytest.mark.parametrize("static", [True, False], ids=["controller.quorum.voters", "--standalone"])
def test_format_writes_the_files_that_storage_tool_writes(tmp_path: Path, static: bool) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    values = settings(theirs, static=static)
    features = [argument for name in UNSUPPORTED for argument in ("--feature", f"{name}=0")]
    flags = [] if static else ["--standalone"]
    file = properties_file(tmp_path / "server.properties", values)
    run = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", file, *flags, *features)
    assert run.returncode == 0, run.stdout + run.stderr
    config = BrokerConfig({**values, "log.dirs": f"{ours}/a,{ours}/b"})
    result = format_storage(
        OsDisk(), config, cluster_id=CLUSTER_ID, rng=random.Random(1), now_ms=int(time.time() * 1000), standalone=not static
    )
    expected = sorted(line.replace(str(theirs), str(ours)) for line in run.stdout.splitlines() if line.startswith("Formatting"))
    assert sorted(line for line in result.lines if line.startswith("Formatting")) == expected
    (bootstrap,) = [line for line in run.stdout.splitlines() if line.startswith("Bootstrap metadata: ")]
    levels = re.findall(r"name='([a-z.]+)', featureLevel=(\d+)", bootstrap)
    assert f"Bootstrap metadata: {', '.join(f'{name}={level}' for name, level in levels)}." in result.lines
    names = sorted(str(path.relative_to(theirs)) for path in theirs.rglob("*"))
    assert sorted(str(path.relative_to(ours)) for path in ours.rglob("*")) == names
    for name in names:
        if name.endswith(".checkpoint"):
            assert shape(ours / name) == shape(theirs / name), name
        elif name.endswith("meta.properties"):
            keys = [line.split("=")[0] for line in (theirs / name).read_text().splitlines() if "=" in line]
            assert sorted(line.split("=")[0] for line in (ours / name).read_text().splitlines() if "=" in line) == sorted(keys)
    shown = java(
        "kafka.tools.StorageTool", "info", "-c", properties_file(tmp_path / "ours.properties", {**values, "log.dirs": f"{ours}/a,{ours}/b"})
    )
    assert shown.returncode == 0
    lines = storage_info(OsDisk(), config).lines
    assert "\n".join(lines).strip() in shown.stdout


def open_node(config: BrokerConfig) -> KRaftNode:
    properties = read_meta_properties(OsDisk(), config.metadata_log_dir)
    assert properties is not None
    assert properties.directory_id is not None
    disk, clock = OsDisk(), ManualClock(now_s=100.0)
    node = KRaftNode(
        log=MetadataLog.open(disk, clock, config),
        config=config,
        cluster_id=properties.cluster_id,
        directory_id=properties.directory_id,
        disk=disk,
        clock=clock,
        rng=random.Random(1),
    )
    node.start()
    return node


@pytest.mark.parametrize("static", [True, False], ids=["controller.quorum.voters", "--standalone"])
def test_dump_log_segments_reads_our_log_and_snapshots(tmp_path: Path, static: bool) -> None:
    values = settings(tmp_path, static=static)
    config = BrokerConfig(values)
    disk = OsDisk()
    format_storage(disk, config, cluster_id=CLUSTER_ID, rng=random.Random(1), now_ms=int(time.time() * 1000), standalone=not static)
    node = open_node(config)
    for number in range(50):
        node.submit(set_config("log.retention.ms", str(number + 1))).result()
    node.write_snapshot()
    node.submit(set_config("log.retention.ms", None)).result()
    node.stop()
    directory = Path(node.log.directory)
    files = [str(path) for path in sorted(directory.iterdir()) if path.suffix in (".log", ".checkpoint", ".index", ".timeindex")]
    assert len(list_snapshots(disk, str(directory))) == (1 if static else 2)
    run = java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--index-sanity-check", "--files", ",".join(files))
    assert run.returncode == 0, run.stderr
    for complaint in ("isvalid: false", "invalid", "Mismatches", "could not", "Exception", "corrupt"):
        assert complaint not in run.stdout + run.stderr, run.stdout
    assert run.stdout.count("LeaderChange") == 1
    assert run.stdout.count("KRaftVoters") == (0 if static else 3)


class JvmKafka:
    """A combined broker and controller."""

    def __init__(self, values: dict[str, str], folder: Path) -> None:
        self.values = values
        self.bootstrap = values["listeners"].split(",")[0].removeprefix("PLAINTEXT://")
        self._file = properties_file(folder / "jvm.properties", values)
        self._log: IO[bytes] = (folder / "jvm.log").open("wb")
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx400m", "-cp", f"{LIBS}/*", "kafka.Kafka", self._file]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def wait(self) -> None:
        host, port = self.bootstrap.split(":")
        for _ in range(600):
            assert self.process.poll() is None, "JVM Kafka ended"
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("JVM Kafka does not listen")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


@pytest.fixture(params=[True, False], ids=["controller.quorum.voters", "--standalone"])
def jvm_directory(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A directory that JVM Kafka formatted and used: two topics, the second with a config."""
    static: bool = request.param
    values = settings(tmp_path, static=static)
    flags = [] if static else ["--standalone"]
    run = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties_file(tmp_path / "s.properties", values), *flags)
    assert run.returncode == 0, run.stderr
    kafka = JvmKafka(values, tmp_path)
    try:
        kafka.wait()
        for arguments in (("--topic", "first", "--partitions", "3"), ("--topic", "second", "--config", "retention.ms=12345")):
            created = java("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap, "--create", *arguments)
            assert created.returncode == 0, created.stdout + created.stderr
    finally:
        kafka.stop()
    return values


def test_we_start_on_the_metadata_of_a_jvm_broker_and_it_starts_on_ours(jvm_directory: dict[str, str], tmp_path: Path) -> None:
    node = open_node(BrokerConfig(jvm_directory))
    image = node.image
    assert node.is_active_controller
    assert sorted(image.topics.by_name) == ["first", "second"]
    assert len(image.topics.by_name["first"].partitions) == 3
    assert image.configs.topic("second") == {"retention.ms": "12345"}
    assert image.features.levels["transaction.version"] == 2, "levels found are kept, served or not"
    assert set(image.cluster.brokers) == {1}
    node.submit(set_config("log.retention.ms", "777")).result()
    node.write_snapshot()
    node.submit(set_config("background.threads", "11")).result()
    node.stop()
    kafka = JvmKafka(jvm_directory, tmp_path)
    try:
        kafka.wait()
        listed = java("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap, "--list")
        assert listed.stdout.split() == ["first", "second"], listed.stderr
        words = ("--bootstrap-server", kafka.bootstrap, "--describe", "--entity-type", "brokers", "--entity-default")
        described = java("kafka.admin.ConfigCommand", *words)
        assert "log.retention.ms=777" in described.stdout, described.stderr
        assert "background.threads=11" in described.stdout
    finally:
        kafka.stop()
    again = open_node(BrokerConfig(jvm_directory))
    assert again.image.configs.of(4, "")["log.retention.ms"] == "777"
    again.stop()
