"""Feature levels changed while brokers run: by Kafka's own tool, in new and in old directories, and across implementations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.tools import JvmTools
from interop.waiting import becomes
from odradek.cli.node.storage import main as storage
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from tests.interop.transaction_support import PATIENCE_S, contents, producer, run

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOOL = "org.apache.kafka.tools.FeatureCommand"
SLOW_S = 150.0
"""What JVM Kafka may take for its start on a busy machine."""
CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1", "auto.create.topics.enable": "true"}


class OldDirectory(OdradekBroker):
    """As Odradek formatted before it had groups and transactions: metadata.version alone."""

    def __init__(self, folder: Path, overrides: dict[str, str]) -> None:
        super().__init__(folder, overrides)
        self.features.update({"eligible.leader.replicas.version": 0, "group.version": 0, "transaction.version": 0})


class OlderRelease(OdradekBroker):
    """A cluster that began as 3.6."""

    def format_command(self) -> list[str]:
        return [*super().format_command(), "--release-version", "3.6"]


Tool = Callable[..., str]


@pytest.fixture
def tool(jvm_tools: JvmTools) -> Tool:
    """Runs kafka-features.sh on a broker and gives all that it says."""

    def run(broker: BrokerProcess, *arguments: str, status: int = 0) -> str:
        done = jvm_tools.run(TOOL, "--bootstrap-server", broker.bootstrap, *arguments)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == status, said
        return said

    return run


def finalized(broker: BrokerProcess) -> dict[str, int]:
    peer = Peer(broker.name, broker.port)
    answer = peer.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    peer.close()
    return {entry.name: entry.max_version_level for entry in answer.finalized_features}


def described(printed: str) -> dict[str, tuple[str, str, str]]:
    """Feature -> lowest, highest and finalized level, as the tool prints them."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in printed.splitlines():
        words = line.replace("\t", " ").split()
        fields = dict(zip(words[::2], words[1::2], strict=True))
        found[fields["Feature:"]] = (fields["SupportedMinVersion:"], fields["SupportedMaxVersion:"], fields["FinalizedVersionLevel:"])
    return found


def read_with_consumer_protocol(broker: BrokerProcess, topic: str, group: str, patience: float) -> bytes | None:
    """The first record that a member of the new protocol gets; None when the protocol is refused."""
    source = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    )
    refused: list[int] = []
    source.subscribe([topic])
    deadline = time.monotonic() + patience
    try:
        while time.monotonic() < deadline:
            message = source.poll(0.2)
            if message is None:
                continue
            if message.error() is None:
                value: bytes = message.value()
                return value
            refused.append(message.error().code())
            if message.error().code() == KafkaError._FATAL:  # UNSUPPORTED_VERSION, as librdkafka takes it
                return None
        raise TimeoutError(f"neither served nor refused: {refused}")
    finally:
        source.close()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = OldDirectory(tmp_path, CONFIG).start()
    yield broker
    broker.stop()


def test_kafkas_tool_raises_and_lowers_levels(old: BrokerProcess, tool: Tool) -> None:
    levels = described(tool(old, "describe"))
    assert levels["metadata.version"] == ("3.3-IV3", "4.3-IV0", "4.3-IV0")
    assert levels["group.version"] == ("0", "1", "0")
    assert levels["transaction.version"] == ("0", "2", "0")

    wanted = ["--feature", "group.version=1", "--feature", "transaction.version=2"]
    assert "transaction.version can be upgraded to 2." in tool(old, "upgrade", *wanted, "--dry-run")
    assert set(finalized(old)) == {"metadata.version"}
    said = tool(old, "upgrade", *wanted)
    assert "group.version was upgraded to 1." in said
    assert "transaction.version was upgraded to 2." in said
    becomes(lambda: finalized(old), {"metadata.version": 30, "group.version": 1, "transaction.version": 2})

    said = tool(old, "downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1." in said
    said = tool(old, "upgrade", "--feature", "transaction.version=9", status=1)
    assert "Could not upgrade transaction.version to 9." in said
    assert "1 out of 1 operation(s) failed." in said
    assert "Could not downgrade" in tool(old, "downgrade", "--feature", "metadata.version=25", "--unsafe", status=1)
    assert "Could not upgrade" in tool(old, "upgrade", "--feature", "share.version=1", status=1)
    assert "Could not upgrade" in tool(old, "upgrade", "--feature", "no.version=1", status=1)
    assert "group.version was disabled." in tool(old, "disable", "--feature", "group.version")
    becomes(lambda: finalized(old), {"metadata.version": 30, "transaction.version": 1})


def test_tables_that_need_no_broker(jvm_tools: JvmTools, capsys: pytest.CaptureFixture[str]) -> None:
    """Our command prints what Kafka's prints."""
    named = ["--feature", "eligible.leader.replicas.version=1", "--feature", "group.version=1", "--feature", "metadata.version=12"]
    for arguments in (
        ["version-mapping"],
        ["version-mapping", "--release-version", "3.3-IV3"],
        ["version-mapping", "--release-version", "3.9"],
        ["version-mapping", "--release-version", "4.0-IV3"],
        ["feature-dependencies", *named],
    ):
        done = jvm_tools.run("kafka.tools.StorageTool", *arguments)
        assert storage(arguments) == done.returncode == 0
        assert capsys.readouterr().out == done.stdout.decode()


def test_an_old_directory_gets_groups_and_transactions_at_run_time(old: BrokerProcess, tool: Tool) -> None:
    source = producer(old, "before")
    run(source, "topic", b"before")
    assert read_with_consumer_protocol(old, "topic", "new", 15) is None
    source.begin_transaction()
    source.produce("topic", b"across", partition=0)
    assert source.flush(PATIENCE_S) == 0

    tool(old, "upgrade", "--feature", "group.version=1", "--feature", "transaction.version=2")
    becomes(lambda: finalized(old).get("group.version"), 1)
    source.commit_transaction(PATIENCE_S)
    assert read_with_consumer_protocol(old, "topic", "new", PATIENCE_S) == b"before"
    after = producer(old, "after")
    run(after, "topic", b"after")
    run(after, "topic", b"aborted", commit=False)
    becomes(lambda: contents(old, "topic"), [b"before", b"across", b"after"])

    tool(old, "downgrade", "--feature", "group.version=0", "--feature", "transaction.version=0")
    becomes(lambda: finalized(old), {"metadata.version": 30})
    assert read_with_consumer_protocol(old, "topic", "refused", 15) is None
    run(producer(old, "again"), "topic", b"again")
    becomes(lambda: contents(old, "topic"), [b"before", b"across", b"after", b"again"])


def test_an_older_release_is_raised_level_by_level(tmp_path: Path, tool: Tool) -> None:
    broker = OlderRelease(tmp_path, CONFIG).start()
    try:
        plain = Producer({"bootstrap.servers": broker.bootstrap})
        plain.produce("topic", b"3.6", partition=0)
        assert plain.flush(PATIENCE_S) == 0
        assert finalized(broker) == {"metadata.version": 14}
        for release in ("3.7-IV4", "4.0-IV3", "4.3-IV0"):
            assert "metadata.version was upgraded" in tool(broker, "upgrade", "--metadata", release)
            plain.produce(f"topic-{release}", release.encode(), partition=0)
            assert plain.flush(PATIENCE_S) == 0
        tool(broker, "upgrade", "--feature", "group.version=1", "--feature", "transaction.version=2")
        broker.stop()
        broker.start()
        assert finalized(broker) == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
        for topic, value in (("topic", b"3.6"), ("topic-3.7-IV4", b"3.7-IV4"), ("topic-4.3-IV0", b"4.3-IV0")):
            assert contents(broker, topic) == [value]
    finally:
        broker.stop()
    theirs = JvmBroker(tmp_path, CONFIG, heap="512m", port=broker.port)
    theirs.controller_port = broker.controller_port
    theirs.start(SLOW_S)
    try:
        assert contents(theirs, "topic-4.0-IV3") == [b"4.0-IV3"]
        assert finalized(theirs)["metadata.version"] == 30
    finally:
        theirs.stop()


@pytest.mark.parametrize("order", ["odradek-jvm", "jvm-odradek"])
def test_levels_are_taken_over(tmp_path: Path, tool: Tool, order: str) -> None:
    brokers: dict[str, BrokerProcess] = {"odradek": OldDirectory(tmp_path, CONFIG), "jvm": JvmBroker(tmp_path, CONFIG, heap="512m")}
    unset = ("group", "transaction", "share", "streams", "eligible.leader.replicas")
    brokers["jvm"].features.update({f"{name}.version": 0 for name in unset})
    first, second = (brokers[name] for name in order.split("-"))
    second.port, second.controller_port = first.port, first.controller_port
    with first:
        tool(first, "upgrade", "--feature", "group.version=1", "--feature", "transaction.version=2")
        run(producer(first, "a"), "topic", b"first")
    with second:
        assert finalized(second) == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
        tool(second, "downgrade", "--feature", "transaction.version=1", "--feature", "group.version=0")
        run(producer(second, "a"), "topic", b"second")
    with first:
        assert finalized(first) == {"metadata.version": 30, "transaction.version": 1}
        becomes(lambda: contents(first, "topic"), [b"first", b"second"])


def test_a_release_as_a_whole_is_raised_by_jvm_kafka_and_kept(tmp_path: Path, tool: Tool) -> None:
    """What docs/differences.md says of `upgrade --release-version`: levels that are not supported are not raised, and not lost either."""
    ours = OlderRelease(tmp_path, CONFIG)
    release = ["upgrade", "--release-version", "4.3"]
    with ours:
        said = tool(ours, *release, status=1)
        assert "7 out of 7 operation(s) failed." in said
        assert "kraft.version" in said
        assert finalized(ours) == {"metadata.version": 14}
    theirs = JvmBroker(tmp_path, CONFIG, heap="512m", port=ours.port)
    theirs.controller_port = ours.controller_port
    theirs.start(SLOW_S)
    try:
        assert "kraft.version was upgraded to 1." in tool(theirs, *release)
        every = {"metadata.version": 30, "kraft.version": 1, "group.version": 1, "transaction.version": 2}
        every |= {"share.version": 1, "streams.version": 1, "eligible.leader.replicas.version": 1}
        becomes(lambda: finalized(theirs), every)
    finally:
        theirs.stop()
    with ours:
        assert finalized(ours) == every
        assert "kraft.version was upgraded to 1." in tool(ours, *release)
