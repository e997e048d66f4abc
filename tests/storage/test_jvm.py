"""JVM Kafka reads what we write, and we read what it writes."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import CLUSTER_ID, JvmBroker
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import iter_headers
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin
from odradek.storage.disk import OsDisk
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.loader import load_log
from odradek.storage.log_manager import LogManager
from odradek.storage.meta_properties import read_meta_properties
from odradek.storage.options import LogOptions
from tests.clock import ManualClock
from tests.storage.jvm_support import COMPLAINTS, dump
from tests.storage.support import batch, load_all, marker, no_broker, open_transactions, read_all, topic_config

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def test_dump_log_segments_reads_our_files(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    clock = ManualClock()
    log = load_log(
        OsDisk(),
        clock,
        TopicPartition("orders", 0),
        str(directory),
        topic_config(segment_bytes=60_000, index_interval_bytes=1000),
        options=LogOptions(verify_transactions=False),
    )
    sequence = 0
    for index in range(300):
        count = index % 7 + 1
        compression = Compression(index % 5)
        log.append_as_leader(
            batch(count, size=150, timestamp=clock.time_ms(), compression=compression, producer_id=11, producer_epoch=0, sequence=sequence),
            index // 100,
        )
        sequence += count
        clock.advance_ms(10)
    for index in range(6):
        log.append_as_leader(
            batch(3, producer_id=20 + index % 2, producer_epoch=0, sequence=index // 2 * 3, transactional=True, timestamp=clock.time_ms()),
            3,
        )
        end = marker(20 + index % 2, 0, commit=index % 3 != 0, timestamp=clock.time_ms())
        log.append_as_leader(end, 3, origin=AppendOrigin.COORDINATOR)
    log.roll()
    log.append_as_leader(batch(2, timestamp=clock.time_ms()), 3)
    end_offset = log.log_end_offset
    log.close(durable=True)
    files = sorted(path for path in directory.iterdir() if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"})
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    deep = dump(files, "--deep-iteration")
    assert not COMPLAINTS.search(deep), COMPLAINTS.findall(deep)
    assert len(re.findall(r"^\| offset: ", deep, re.MULTILINE)) == end_offset
    assert "producerId: 11 producerEpoch: 0" in deep
    indexes = [path for path in files if path.suffix in {".index", ".timeindex"}]
    checked = dump(indexes, "--index-sanity-check")
    assert checked.count("passed sanity check") >= len([path for path in indexes if path.suffix == ".index"])
    assert not COMPLAINTS.search(checked), checked
    assert not COMPLAINTS.search(dump(indexes, "--verify-index-only"))


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JvmBroker]:
    with JvmBroker(tmp_path_factory.mktemp("jvm"), heap="400m") as broker:
        yield broker


def fill(broker: JvmBroker) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.bootstrap}
    topics = [NewTopic("plain", 1, 1, config={"segment.bytes": "1048576"}), NewTopic("transactions", 1, 1)]
    admin = AdminClient(settings)
    for future in admin.create_topics(topics).values():
        future.result(60)
    producer = Producer({**settings, "enable.idempotence": True, "batch.size": 16384})
    for index in range(5000):
        producer.produce("plain", key=b"%d" % index, value=b"x" * 1000)
        producer.poll(0)
    assert producer.flush(60) == 0
    writer = Producer({**settings, "transactional.id": "t1"})
    writer.init_transactions()
    for transaction in range(6):
        writer.begin_transaction()
        for index in range(10):
            writer.produce("transactions", b"v%d" % index)
        assert writer.flush(60) == 0
        if transaction % 2:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    writer.begin_transaction()
    writer.produce("transactions", b"open")
    assert writer.flush(60) == 0


def load(broker: JvmBroker) -> LogManager:
    clock = ManualClock(wall_start_ms=int(time.time() * 1000))
    manager = LogManager(OsDisk(), clock, [str(broker.data)], no_broker(), random=random.Random(1))
    load_all(manager, lambda _: topic_config(segment_bytes=1 << 20))
    return manager


def indexes_equal_those_of_an_append(directory: Path, copy: Path) -> None:
    """The JVM's batches appended here give the JVM's index files, byte for byte."""
    copy.mkdir()
    log = load_log(OsDisk(), ManualClock(), TopicPartition("plain", 0), str(copy), topic_config(segment_bytes=1 << 20))
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            log.append_as_follower(memoryview(data)[position : position + header.size], header.partition_leader_epoch)
    log.close(durable=True)
    for path in sorted(directory.glob("*")):
        if path.suffix in {".log", ".index", ".timeindex"}:
            assert (copy / path.name).read_bytes() == path.read_bytes(), path.name


def test_directories_change_hands_both_ways(jvm: JvmBroker, tmp_path: Path) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as ConsumerPartition

    fill(jvm)
    jvm.stop()
    properties = read_meta_properties(OsDisk(), str(jvm.data))
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == (CLUSTER_ID, 1)
    indexes_equal_those_of_an_append(jvm.data / "plain-0", tmp_path / "plain-0")

    manager = load(jvm)
    assert manager.previous_broker_epoch >= 0
    plain = manager.get_log(TopicPartition("plain", 0))
    transactions = manager.get_log(TopicPartition("transactions", 0))
    assert plain is not None
    assert transactions is not None
    assert (plain.log_end_offset, plain.recovery_point, len(plain.segments)) == (5000, 5000, 5)
    assert [record.key for record in read_all(plain)] == [b"%d" % index for index in range(5000)]
    assert len(transactions.aborted_transactions(0, 1000)) == 3
    assert open_transactions(transactions) == [66]
    # The JVM's producer goes on here, and only where it left off.
    (entry,) = plain.producer_state.producers.values()
    assert entry.last_sequence == 4999
    with pytest.raises(KafkaError) as caught:
        plain.append_as_leader(batch(1, producer_id=entry.producer_id, producer_epoch=entry.epoch, sequence=5001), 0)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    now = int(time.time() * 1000)
    for index in range(2000):
        plain.append_as_leader(
            batch(1, size=1000, timestamp=now, producer_id=entry.producer_id, producer_epoch=entry.epoch, sequence=5000 + index), 0
        )
    manager.shutdown(5)

    jvm.start()
    consumer = Consumer({"bootstrap.servers": jvm.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([ConsumerPartition("plain", 0, 0)])
    offsets: list[int] = []
    deadline = time.monotonic() + 60
    while len(offsets) < 7000 and time.monotonic() < deadline:
        offsets += [message.offset() or 0 for message in consumer.consume(1000, 1.0) if not message.error()]
    consumer.close()
    assert offsets == list(range(7000))
    jvm.kill()

    # After kill -9 the JVM's preallocated indexes are there in full length; recovery makes short work of them.
    manager = load(jvm)
    plain = manager.get_log(TopicPartition("plain", 0))
    assert plain is not None
    assert plain.log_end_offset == 7000
    assert len(read_all(plain)) == 7000
    manager.shutdown()
    files = sorted(path for path in (jvm.data / "plain-0").iterdir() if path.suffix in {".index", ".timeindex", ".log"})
    assert not COMPLAINTS.search(dump(files, "--deep-iteration"))


def test_trailing_zeros_of_a_preallocated_index_are_no_entries(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "00000000000000000100.index"
    offsets = OffsetIndex(disk, str(path), 100, 1 << 20)
    times = TimeIndex(disk, str(path.with_suffix(".timeindex")), 100, 1 << 20)
    for index in range(1, 2000):
        offsets.append(100 + 3 * index, 5000 * index)
        times.maybe_append(1000 + index, 100 + 3 * index)
    for written in (offsets, times):
        written.trim()
        written.close()
        with open(written.path, "ab") as file:
            file.write(bytes(12_000))
    again = OffsetIndex(disk, str(path), 100, 1 << 20)
    again.load()
    assert again.entries == 1999
    for index in range(1, 2000, 7):
        assert again.lookup(100 + 3 * index + 2) == (100 + 3 * index, 5000 * index)
    assert again.lookup(101) == (100, 0)
    times = TimeIndex(disk, times.path, 100, 1 << 20)
    times.load()
    assert times.lookup(1500) == (1500, 1600)
    assert times.last_timestamp == 2999
