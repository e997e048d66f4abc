"""Brokers that take over each other's directories in mid-stream, killed or stopped, while one idempotent producer goes on."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.records.batch import decode_records, encode_batch, iter_headers
from odradek.records.compression import Compression
from tests.interop.tool_support import dump

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

COORDINATOR_LOAD_IN_PROGRESS, OUT_OF_ORDER = 14, 45
PARTITIONS = 3
NOW_MS = int(time.time() * 1000)
"""The real time: a producer whose batches are older than a day is forgotten at the next start."""
SETTINGS = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512", "log.preallocate": "true"}


class Sequenced:
    """One producer id, its next sequence in each partition, and what it has written there."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.producer_id = -1
        self.epoch = -1
        self.written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.last: list[tuple[bytes, int]] = [(b"", -1)] * PARTITIONS

    def introduce(self, peer: Peer) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        # A JVM broker that has just started has no block of producer ids yet.
        while (answer := peer.call(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == COORDINATOR_LOAD_IN_PROGRESS:
            time.sleep(0.05)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def records(self, partition: int, count: int, *, skip: int = 0) -> bytes:
        first = len(self.written[partition]) + skip
        rows = [
            (NOW_MS + first + index, b"%d" % (index % 7), b"%d:%d" % (partition, first + index) + b"." * 600, ()) for index in range(count)
        ]
        return bytes(
            encode_batch(
                rows,
                compression=Compression(first % 5),
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=first,
            )
        )

    def produce(self, peer: Peer, partition: int, records: bytes) -> tuple[int, int]:
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        topic = ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])
        answer = peer.call(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]))
        found = answer.responses[0].partition_responses[0]
        return found.error_code, found.base_offset

    def go_on(self, peer: Peer, batches: int) -> None:
        for number in range(batches):
            partition = number % PARTITIONS
            records = self.records(partition, 20)
            at = len(self.written[partition])
            assert self.produce(peer, partition, records) == (0, at)
            self.last[partition] = (records, at)
            self.written[partition] += [record.value or b"" for record in decode_records(records)]

    def insist(self, peer: Peer) -> None:
        """What was acknowledged is not written again, and nothing may be left out, whoever wrote it."""
        for partition, (records, at) in enumerate(self.last):
            assert self.produce(peer, partition, records) == (0, at)
            assert self.produce(peer, partition, self.records(partition, 1, skip=1))[0] == OUT_OF_ORDER

    def check(self, peer: Peer) -> None:
        for partition, expected in enumerate(self.written):
            assert read(peer, self.topic, partition) == expected


def read(peer: Peer, topic: str, partition: int) -> list[bytes]:
    """All values, in the order of their offsets, which leave nothing out."""
    found: list[bytes] = []
    while True:
        wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=len(found), partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
        )
        answer = peer.call(ApiKey.FETCH, 12, request).responses[0].partitions[0]
        assert answer.error_code == 0
        data = bytes(answer.records or b"")
        if not data:
            assert len(found) == answer.high_watermark
            return found
        whole = data[: max(position + header.size for position, header in iter_headers(data))]
        records = [record for record in decode_records(whole) if record.offset >= len(found)]
        assert [record.offset for record in records] == list(range(len(found), len(found) + len(records)))
        found += [record.value or b"" for record in records]


def segments(folders: list[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.glob("stream-*/*.log"))]


@pytest.mark.parametrize("first", ["odradek", "jvm"])
def test_one_producer_goes_on_through_kills_and_swaps(tmp_path: Path, first: str) -> None:
    folders = [tmp_path / "data", tmp_path / "more"]
    settings = {**SETTINGS, "log.dirs": ",".join(map(str, folders))}
    ours: Callable[[], BrokerProcess] = lambda: OdradekBroker(tmp_path, settings)  # noqa: E731
    theirs: Callable[[], BrokerProcess] = lambda: JvmBroker(tmp_path, settings, heap="512m")  # noqa: E731
    turns = [(ours, "kill"), (theirs, "kill"), (ours, "stop"), (theirs, "stop"), (ours, "stop")]
    if first == "jvm":
        turns = [(theirs, "kill"), *turns]
    producer = Sequenced("stream")
    for number, (make, end) in enumerate(turns):
        broker = make()
        broker.start()
        try:
            peer = Peer(broker.name, broker.port)
            if number == 0:
                peer.create_topic("stream", PARTITIONS)
                producer.introduce(peer)
            else:
                peer.learn("stream")
                producer.check(peer)
                producer.insist(peer)
            producer.go_on(peer, 150)
            producer.check(peer)
            peer.close()
            if number == 0:
                # A segment has its whole size from the beginning and is cut to what it holds in the end, if only by recovery.
                assert [path.stat().st_size for path in segments(folders)].count(1 << 20) == PARTITIONS
            if end == "stop":
                broker.stop()
                assert all(path.stat().st_size < 1 << 20 for path in segments(folders))
        finally:
            broker.kill()
    assert len(segments(folders)) >= 2 * PARTITIONS
    assert {path.parent.parent for path in segments(folders)} == set(folders)
    dump(*segments(folders), options=("--deep-iteration", "--print-data-log"))
    indexes = [path.with_suffix(suffix) for path in segments(folders) for suffix in (".index", ".timeindex")]
    dump(*indexes, options=("--index-sanity-check",))
    dump(*indexes, options=("--verify-index-only",))


def committed(broker: BrokerProcess, topic: str, isolation: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "swaps",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            break
        found.append(message.value() or b"")
    consumer.close()
    return found


def test_transactions_of_the_jvm_stay_what_they_are(tmp_path: Path) -> None:
    """Committed, aborted and open ones: read back by both, after kills, with the indexes rebuilt from the batches."""
    jvm = JvmBroker(tmp_path, heap="512m")
    jvm.start()
    try:
        peer = Peer(jvm.name, jvm.port)
        peer.create_topic("transactions", 1, {"segment.bytes": "1048576"})
        peer.close()
        producer = Producer({"bootstrap.servers": jvm.bootstrap, "transactional.id": "t", "batch.num.messages": 10})
        producer.init_transactions(60)
        for transaction in range(20):
            producer.begin_transaction()
            for index in range(30):
                producer.produce("transactions", b"%d:%d" % (transaction, index) + b"." * 4000, partition=0)
            assert producer.flush(60) == 0
            if transaction % 3:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
        everything = committed(jvm, "transactions", "read_uncommitted")
        decided = committed(jvm, "transactions", "read_committed")
        assert len(everything) == 600
        assert len(decided) == 390
    finally:
        jvm.kill()
    directory = tmp_path / "data" / "transactions-0"
    indexes = list(directory.glob("*.txnindex"))
    assert len(indexes) > 1
    for path in indexes:
        path.unlink()  # recovery reads the batches again and finds the markers
    for end in ("kill", "stop"):
        broker = OdradekBroker(tmp_path)
        broker.start()
        try:
            assert committed(broker, "transactions", "read_uncommitted") == everything
            assert committed(broker, "transactions", "read_committed") == decided
            if end == "stop":
                broker.stop()
        finally:
            broker.kill()
    dump(*sorted(directory.glob("*.log")), *sorted(directory.glob("*.txnindex")), *sorted(directory.glob("*.snapshot")))
    jvm = JvmBroker(tmp_path, heap="512m")
    jvm.start()
    try:
        assert committed(jvm, "transactions", "read_committed") == decided
    finally:
        jvm.kill()


CLEANER = {"log.cleaner.backoff.ms": "200", "log.cleaner.min.cleanable.ratio": "0.01", "log.segment.delete.delay.ms": "100"}
KEYS = 40


def write_keys(broker: BrokerProcess, turn: int, latest: dict[int, str]) -> None:
    """Five megabytes of changes to a few keys: segments to roll, and hardly anything worth keeping in them."""
    rng = random.Random(turn)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "batch.num.messages": 20})
    for index in range(3500):
        key = rng.randrange(KEYS)
        latest[key] = f"{key}:{turn}.{index}"
        producer.produce("keys", latest[key].encode() + b":" + rng.randbytes(1400), b"%d" % key, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def found_keys(broker: BrokerProcess) -> dict[int, str]:
    found: dict[int, str] = {}
    for value in committed(broker, "keys", "read_committed"):
        text = b":".join(value.split(b":", 2)[:2]).decode()
        found[int(text.split(":")[0])] = text
    return found


def wait_cleaned(broker: BrokerProcess) -> None:
    """Until all but the active segment hold next to nothing, and what they replaced is gone."""
    directory = broker.data / "keys-0"
    deadline = time.monotonic() + 60
    while True:
        *closed, _ = sorted(directory.glob("*.log"))
        left: int | None = None
        with contextlib.suppress(FileNotFoundError):
            left = sum(path.stat().st_size for path in closed)
        if left is not None and left < 600_000 and not list(directory.glob("*.deleted")):
            return
        assert time.monotonic() < deadline, f"{broker.name}: {left} bytes in {len(closed)} segments\n{broker.log_tail()}"
        time.sleep(0.1)


@pytest.mark.parametrize("first", ["odradek", "jvm"])
def test_compacted_topics_change_hands_with_their_checkpoint(tmp_path: Path, first: str) -> None:
    ours: Callable[[], BrokerProcess] = lambda: OdradekBroker(tmp_path, CLEANER)  # noqa: E731
    theirs: Callable[[], BrokerProcess] = lambda: JvmBroker(tmp_path, CLEANER, heap="512m")  # noqa: E731
    turns = [(ours, "kill"), (theirs, "stop"), (ours, "stop")]
    if first == "jvm":
        turns = [(theirs, "kill"), (ours, "stop"), (theirs, "stop")]
    latest: dict[int, str] = {}
    cleaned_to = 0
    for number, (make, end) in enumerate(turns):
        broker = make()
        broker.start()
        try:
            peer = Peer(broker.name, broker.port)
            if number == 0:
                peer.create_topic("keys", 1, {"cleanup.policy": "compact", "segment.bytes": "1048576"})
            else:
                peer.learn("keys")
                assert found_keys(broker) == latest
            peer.close()
            write_keys(broker, number, latest)
            wait_cleaned(broker)
            assert found_keys(broker) == latest
            if end == "stop":
                broker.stop()
        finally:
            broker.kill()
        (line,) = [line for line in (broker.data / "cleaner-offset-checkpoint").read_text().splitlines() if line.startswith("keys 0 ")]
        assert int(line.split()[2]) > cleaned_to
        cleaned_to = int(line.split()[2])
        assert "Resetting first dirty offset" not in broker.log_tail(10_000)
    logs = sorted((tmp_path / "data" / "keys-0").glob("*.log"))
    dump(*logs, options=("--deep-iteration",))
    dump(*[path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")], options=("--index-sanity-check",))
