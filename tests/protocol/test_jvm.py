"""Kafka's own serialization as the judge: our bytes, read and written again by the JVM, come back unchanged."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.headers import encode_request_header, request_header_version, response_header_version
from odradek.protocol.registry import decode_metadata_record, encode_metadata_record, message_classes, request_class, response_class
from odradek.protocol.schema import Message
from tests.protocol.generate import Generator, all_messages, versions_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

CACHE = Path(__file__).parents[2] / ".cache" / "jvm"
ZOOKEEPER_ERA = ("LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown")
SAMPLES = 12
PACKAGES = {
    "metadata_records": "org.apache.kafka.common.metadata",
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "consumer_group_records": "org.apache.kafka.coordinator.group.generated",
    "share_group_records": "org.apache.kafka.coordinator.group.generated",
    "streams_group_records": "org.apache.kafka.coordinator.group.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
    "share_records": "org.apache.kafka.coordinator.share.generated",
    "remote_log_records": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "producer_snapshot": "org.apache.kafka.server.log.remote.metadata.storage.generated",
}


def java_name(cls: type[Message]) -> str:
    module = cls.__module__.rpartition(".")[2]
    if cls.__name__ == "QuorumStateData":
        return "org.apache.kafka.raft.generated.QuorumStateData"
    suffix = "Data" if cls.__name__.endswith(("Request", "Response")) else ""
    return f"{PACKAGES.get(module, 'org.apache.kafka.common.message')}.{cls.__name__}{suffix}"


class Oracle:
    """The one JVM that answers all questions (`jvm/Oracle.java` says how they are put)."""

    def __init__(self, libs: Path, old_jar: Path | None) -> None:
        source = Path(__file__).parent / "jvm" / "Oracle.java"
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", str(source), *([str(old_jar)] if old_jar else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, command: bytes, name: str = "", version: int = 0, payload: bytes = b"") -> bytes:
        """The answer; ValueError with the JVM's words where it refuses."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        text = name.encode()
        self.process.stdin.write(command + struct.pack(">i", len(text)) + text + struct.pack(">hi", version, len(payload)) + payload)
        self.process.stdin.flush()
        status, size = struct.unpack(">Bi", self.process.stdout.read(5))
        answer = self.process.stdout.read(size)
        if status:
            raise ValueError(answer.decode())
        return answer

    def close(self) -> None:
        self.process.communicate()


def old_jar() -> Path | None:
    """The kafka-clients 3.9 jar, for what 4.x dropped: in the folder ODRADEK_JVM_ZK_LIBS or in the cache."""
    folder = Path(os.environ.get("ODRADEK_JVM_ZK_LIBS", CACHE / "zk"))
    return next(iter(sorted(folder.glob("kafka-clients-3.9*.jar"))), None)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    libs = Path(os.environ.get("ODRADEK_JVM_LIBS", CACHE / "libs"))
    if not any(libs.glob("kafka-clients-*.jar")):
        pytest.fail("no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS")
    running = Oracle(libs, old_jar())
    yield running
    running.close()


def current() -> list[type[Message]]:
    return [cls for cls in all_messages() if not cls.__name__.startswith(ZOOKEEPER_ERA)]


@pytest.mark.parametrize("message", current(), ids=lambda cls: cls.__name__)
def test_the_jvm_agrees_in_every_version(oracle: Oracle, message: type[Message]) -> None:
    name = java_name(message)
    assert oracle.ask(b"I", name).decode() == f"{message.VALID_VERSIONS.low} {message.VALID_VERSIONS.high}"
    for version in versions_of(message):
        for seed in range(SAMPLES):
            encoded = Generator((message.__name__, version, seed), version).message(message).encode(version)
            assert oracle.ask(b"R", name, version, encoded) == encoded, (version, seed)


@pytest.mark.parametrize("message", current(), ids=lambda cls: cls.__name__)
def test_the_defaults_are_those_of_the_jvm(oracle: Oracle, message: type[Message]) -> None:
    for version in versions_of(message):
        try:
            defaults = oracle.ask(b"D", java_name(message), version)
        except ValueError:  # A default of null that this version cannot carry.
            continue
        assert message().encode(version) == defaults
        assert message.decode(defaults, version) == message()


@pytest.mark.parametrize("name", ZOOKEEPER_ERA)
def test_kafka_3_agrees_on_the_messages_of_the_zookeeper_era(oracle: Oracle, name: str) -> None:
    if old_jar() is None:
        pytest.fail("no clients of Kafka 3.9: make interop fetches them, or set ODRADEK_JVM_ZK_LIBS")
    key = next(key for key, info in API_INFO.items() if info.name == name)
    for message in (request_class(key), response_class(key)):
        for version in versions_of(message):
            for seed in range(SAMPLES):
                encoded = Generator((message.__name__, version, seed), version).message(message).encode(version)
                assert oracle.ask(b"Z", java_name(message), version, encoded) == encoded, (version, seed)


@pytest.mark.parametrize("key", [key for key in ApiKey if API_INFO[key].name not in ZOOKEEPER_ERA], ids=lambda key: key.name)
def test_the_jvm_has_the_same_table_of_apis(oracle: Oracle, key: ApiKey) -> None:
    info = API_INFO[key]
    name, lowest, highest, highest_stable, listeners, headers = oracle.ask(b"A", version=key).decode().split()
    assert name == info.name
    assert (int(lowest), int(highest)) == (info.min_version, info.max_version)
    assert int(highest_stable) == info.max_version - info.latest_version_unstable
    assert listeners.lower() == ",".join(sorted(info.listeners)).lower()
    ours = [(request_header_version(key, version), response_header_version(key, version)) for version in versions_of(request_class(key))]
    assert headers == "".join([f"{request}{response}" for request, response in ours])


@pytest.mark.parametrize("client_id", [None, "", "odradek", "Σίσυφος"])
def test_request_headers_are_those_of_the_jvm(oracle: Oracle, client_id: str | None) -> None:
    for key, version in ((ApiKey.PRODUCE, 3), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 4)):
        encoded = encode_request_header(key, version, -7, client_id)
        header_version = request_header_version(key, version)
        assert oracle.ask(b"R", "org.apache.kafka.common.message.RequestHeaderData", header_version, encoded) == encoded


@pytest.mark.parametrize("record", message_classes("metadata_records"), ids=lambda cls: cls.__name__)
def test_framed_metadata_records_are_those_of_the_jvm(oracle: Oracle, record: type[Message]) -> None:
    for version in versions_of(record):
        original = Generator((record.__name__, version), version).message(record)
        framed = encode_metadata_record(original, version)
        assert oracle.ask(b"M", payload=framed) == framed
        assert decode_metadata_record(framed) == (original, version)
