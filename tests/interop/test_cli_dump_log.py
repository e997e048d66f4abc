"""`odradek dump-log` prints what JVM Kafka's DumpLogSegments prints, line by line, of files that either broker wrote, damaged ones too."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.tools import JvmTools

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module", params=["odradek", "jvm"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that has been stopped, with records of all kinds."""
    kind = OdradekBroker if request.param == "odradek" else JvmBroker
    broker = kind(tmp_path_factory.mktemp(f"dump-{request.param}"), CONFIG)
    broker.start()
    try:
        fill(broker)
    finally:
        broker.stop()
    return broker.data


def fill(broker: BrokerProcess) -> None:
    where = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(where)
    small = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
    stamped = {**small, "message.timestamp.type": "LogAppendTime"}
    topics = [NewTopic(f"t-{codec}", 1, 1, config=small) for codec in CODECS] + [NewTopic("t-stamped", 1, 1, config=stamped)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    for codec in CODECS:
        producer = Producer({**where, "enable.idempotence": True, "compression.type": codec, "batch.num.messages": 20})
        for number in range(1500):
            value = (
                None
                if number % 50 == 7
                else f"{number} \u00e4\u20ac\U0001f600\x01".encode() + b"\xff\xc3(" + b"x" * (900 if codec == "none" else 20)
            )
            producer.produce(f"t-{codec}", value, None if number % 9 == 0 else b"k%d" % number, headers=[("h", b"1"), ("\u00fc", None)])
        assert producer.flush(60) == 0
    producer = Producer({**where, "transactional.id": "tx-1"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("t-stamped", b"%d" % number)
        producer.flush(30)
        producer.commit_transaction(30) if number % 2 else producer.abort_transaction(30)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {**where, "group.id": f"g-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer.subscribe(["t-gzip"])
        assert consumer.poll(60) is not None
        consumer.commit(offsets=[TopicPartition("t-gzip", 0, 5, 'meta \u00fc"\\')], asynchronous=False)
        consumer.close()
    admin.delete_consumer_groups(["g-classic"])["g-classic"].result(30)


def ours(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "odradek.cli.main", "dump-log", *arguments], capture_output=True, timeout=120, check=False)


def compare(tools: JvmTools, files: list[Path], *options: str, status: int = 0) -> str:
    """What both say of the files, after it has been found to be the same."""
    assert files
    arguments = ["--files", ",".join(map(str, files)), *options]
    mine, theirs = ours(*arguments), tools.run(TOOL, *arguments)  # theirs cuts the indexes that it reads to whole entries
    assert mine.returncode == status, mine.stderr.decode()[-2000:]
    expected, found = theirs.stdout.decode(), mine.stdout.decode()
    for number, (left, right) in enumerate(zip(expected.splitlines(), found.splitlines(), strict=False)):
        assert right == left, f"line {number} of {arguments}"
    assert found == expected
    if status == 0:
        assert theirs.returncode == 0, theirs.stderr.decode()[-2000:]
        assert mine.stderr.decode() == theirs.stderr.decode()
    else:
        assert theirs.returncode != 0
        assert mine.stderr.decode().count("\n") == 1
    return found


def files(data: Path, pattern: str) -> list[Path]:
    return sorted(data.glob(pattern))


def test_segments(data: Path, jvm_tools: JvmTools) -> None:
    logs = files(data, "t-*/*.log")
    shallow = compare(jvm_tools, logs)
    assert all(f"compresscodec: {codec}" in shallow for codec in CODECS)
    assert "| " not in shallow
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in compare(jvm_tools, logs, "--deep-iteration")
    assert "| key: k1 payload: 1 \u00e4" in compare(jvm_tools, logs, "--print-data-log", "--skip-record-metadata")
    compare(jvm_tools, logs, "--print-data-log", "--max-bytes", "5000")
    compare(jvm_tools, logs, "--deep-iteration", "--max-bytes", "1")


def test_indexes_and_snapshots(data: Path, jvm_tools: JvmTools) -> None:
    for suffix in ("index", "timeindex"):
        found = files(data, f"t-*/*.{suffix}")
        assert "position: " in compare(jvm_tools, found) or suffix == "timeindex"
        compare(jvm_tools, found, "--verify-index-only")
        assert "passed sanity check" in compare(jvm_tools, found, "--index-sanity-check")
    assert "producerId: " in compare(jvm_tools, files(data, "t-stamped-0/*.txnindex"))
    assert "currentTxnFirstOffset: OptionalLong.empty" in compare(jvm_tools, files(data, "t-*/*.snapshot"))


def test_kafkas_own_topics(data: Path, jvm_tools: JvmTools) -> None:
    groups = files(data, "__consumer_offsets-0/*.log")
    shown = compare(jvm_tools, groups, "--offsets-decoder")
    assert '"subscription":{"topics":["t-gzip"]' in shown
    assert "payload: <DELETE>" in shown
    compare(jvm_tools, groups, "--offsets-decoder", "--skip-record-metadata")
    assert '"transactionalId":"tx-1"' in compare(jvm_tools, files(data, "__transaction_state-0/*.log"), "--transaction-log-decoder")
    metadata = [*files(data, "__cluster_metadata-0/*.log"), *files(data, "__cluster_metadata-0/*.checkpoint"), *files(data, "*.checkpoint")]
    shown = compare(jvm_tools, metadata, "--cluster-metadata-decoder")
    for part in ("REGISTER_BROKER_RECORD", "LeaderChange: {", "SnapshotHeader {", "SnapshotFooter {", '"type":"TOPIC_RECORD"'):
        assert part in shown


def test_records_under_the_wrong_decoder(data: Path, jvm_tools: JvmTools) -> None:
    """Every record is skipped in the same words; the reason is in those of the language."""
    logs = files(data, "__transaction_state-0/*.log")
    arguments = ["--files", ",".join(map(str, logs)), "--share-group-state-decoder"]
    theirs, mine = jvm_tools.run(TOOL, *arguments), ours(*arguments)
    assert mine.returncode == theirs.returncode == 0
    reason = re.compile(rb"(?<=skipping\. ).*")
    assert reason.sub(b"", mine.stdout) == reason.sub(b"", theirs.stdout)
    assert b"Error at offset 0, skipping. " in mine.stdout


def test_damaged_files(data: Path, jvm_tools: JvmTools, tmp_path: Path) -> None:
    folder = tmp_path / "damaged-0"
    shutil.copytree(data / "t-none-0", folder)
    log, index, times, snapshot = (
        files(folder, f"*.{suffix}")[-1 if suffix == "snapshot" else 0] for suffix in ("log", "index", "timeindex", "snapshot")
    )
    whole = log.read_bytes()

    def damage(path: Path, position: int, value: bytes) -> None:
        content = bytearray(path.read_bytes())
        content[position : position + len(value)] = value
        path.write_bytes(content)

    damage(log, 300, b"\x7f")
    assert "isvalid: false" in compare(jvm_tools, [log])
    log.write_bytes(whole[:-30])
    assert "invalid bytes at the end" in compare(jvm_tools, [log], "--deep-iteration")
    log.write_bytes(whole + bytes(100))
    compare(jvm_tools, [log], status=1)
    log.write_bytes(whole)
    damage(log, 0, (5).to_bytes(8, "big"))
    compare(jvm_tools, [log, index, times], "--deep-iteration")
    log.write_bytes(whole)
    damage(log, 27, b"\x7f\x01")
    compare(jvm_tools, [log])
    damage(log, 16, b"\x05")
    compare(jvm_tools, [log])
    log.write_bytes(whole)

    damage(index, 3, b"\x09")
    damage(index, 8, (3).to_bytes(4, "big"))
    compare(jvm_tools, [index])
    compare(jvm_tools, [index], "--verify-index-only")
    damage(times, 8, (7).to_bytes(4, "big"))
    damage(times, 12, bytes(8))
    compare(jvm_tools, [times])
    times.write_bytes(times.read_bytes() + b"\0")
    compare(jvm_tools, [times], "--index-sanity-check", status=1)
    index.write_bytes(index.read_bytes() + b"\0" * 80)
    compare(jvm_tools, [index])
    assert "passed" in compare(jvm_tools, [index], "--index-sanity-check")
    index.write_bytes(index.read_bytes() + b"\0")
    compare(jvm_tools, [index], "--index-sanity-check", status=1)
    damage(index, 4, b"\x70\0\0\0")
    compare(jvm_tools, [index], status=1)
    index.write_bytes(b"")
    compare(jvm_tools, [index])

    damage(snapshot, len(snapshot.read_bytes()) - 1, b"\x55")
    compare(jvm_tools, [snapshot])
    damage(snapshot, 1, b"\x07")
    compare(jvm_tools, [snapshot])
    (folder / "partition.metadata").write_text("version: 0\n")
    compare(jvm_tools, [folder / "partition.metadata", folder / "leader-epoch-checkpoint"])
