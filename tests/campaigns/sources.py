"""Undamaged logs for the comparison with JVM Kafka: written by our own encoder, and by JVM Kafka for its own producers."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from interop.differential.peer import Peer
from interop.peers import JvmBroker, OdradekBroker, jvm_command
from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.batch import encode_batch, iter_headers
from odradek.records.compression import Compression
from odradek.storage.disk import OsDisk
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.storage.options import LogOptions
from tests.clock import ManualClock
from tests.storage.support import marker

EPOCHS = 4
JVM_PARTITIONS = 8
"""Number of partitions of each topic that JVM Kafka writes."""
_STEPS = 250


def raise_epochs(broker: OdradekBroker, create: Callable[[Peer], object]) -> None:
    """Create topics, and restart the broker so that leader epochs in the metadata exceed those in the logs of `make_log`."""
    for number in range(EPOCHS):
        broker.start()
        try:
            if number == 0:
                peer = Peer("source", broker.port)
                create(peer)
                peer.close()
            if broker.stop():
                raise RuntimeError(broker.log_tail())
        finally:
            broker.kill()


def make_log(rng: random.Random, folder: Path, now_ms: int, *, gaps: bool, closed: bool) -> tuple[int, list[int]]:
    """Make a log in `folder`. Return its end offset and the base offsets of its segments."""
    clock = ManualClock(wall_start_ms=now_ms)
    folder.mkdir(parents=True, exist_ok=True)
    config = TopicConfig.build(None, {"internal.segment.bytes": str(rng.choice((1500, 3000, 6000))), "index.interval.bytes": "200"})
    log = load_log(OsDisk(), clock, TopicPartition("x", 0), str(folder), config, clean=True, options=LogOptions(verify_transactions=False))
    sequences = dict.fromkeys((100, 101, 200, 201), 0)
    open_transactions: set[int] = set()
    for index in range(rng.randrange(20, 60)):
        epoch = index * EPOCHS // 60
        clock.advance_ms(rng.randrange(20))
        count = rng.randrange(1, 6)
        producer = rng.choice((-1, -1, *sequences))
        if gaps and rng.random() < 0.3:
            _skip(log, rng.randrange(1, 9), epoch, clock.time_ms(), rng)
            continue
        if producer in open_transactions and rng.random() < 0.4:
            _append(log, bytes(marker(producer, 0, commit=rng.random() < 0.5, timestamp=clock.time_ms())), epoch)
            open_transactions.discard(producer)
            continue
        transactional = producer >= 200
        records = [(clock.time_ms() + n, b"k%d" % rng.randrange(9), rng.randbytes(rng.randrange(60)), ()) for n in range(count)]
        data = encode_batch(
            records,
            compression=Compression(rng.randrange(5)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequences.get(producer, -1),
            transactional=transactional,
        )
        _append(log, data, epoch)
        if producer >= 0:
            sequences[producer] += count
        if transactional:
            open_transactions.add(producer)
    end, bases = log.log_end_offset, list(log.bases)
    if closed:
        log.close(durable=True)
    else:
        log.active.become_inactive()
        log.flush()
    return end, bases


def _append(log: Log, data: bytes, epoch: int) -> None:
    """Append as a follower, so that the caller chooses the offsets."""
    header = bytearray(data)
    header[:8] = log.log_end_offset.to_bytes(8, "big")
    header[12:16] = epoch.to_bytes(4, "big")
    log.append_as_follower(memoryview(bytes(header)), epoch)


def _skip(log: Log, count: int, epoch: int, now_ms: int, rng: random.Random) -> None:
    """Append a batch after a gap."""
    data = bytearray(encode_batch([(now_ms, b"gap", rng.randbytes(20), ())]))
    data[:8] = (log.log_end_offset + count).to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    log.append_as_follower(memoryview(bytes(data)), epoch)


def batches_in(folder: Path) -> dict[int, bytes]:
    """Return the batches of an undamaged log, by base offset."""
    found: dict[int, bytes] = {}
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            found[header.base_offset] = data[position : position + header.size]
    return found


def aborted_in(folder: Path) -> list[tuple[int, ...]]:
    """Return the entries of the transaction indexes, without incomplete entries."""
    found: list[tuple[int, ...]] = []
    for path in sorted(folder.glob("*.txnindex")):
        content = path.read_bytes()
        found += [struct.unpack(">qqqq", content[at + 2 : at + 34]) for at in range(0, len(content) - 33, 34)]
    return found


class JvmLogs:
    """Logs that JVM Kafka wrote for JVM producers: in the state after a kill, and in the state after a shutdown."""

    def __init__(self, folder: Path, topics: Mapping[str, str], overrides: Mapping[str, str], seed: int) -> None:
        """Write the logs. `topics`: names and cleanup policies."""
        self._killed, self._closed = folder / "killed", folder / "closed"
        broker = JvmBroker(folder / "broker", overrides, heap="512m")
        for number, target in enumerate((self._closed, self._killed)):
            broker.start(120)
            try:
                if number == 0:
                    self._create(broker, topics)
                self._write(broker, topics, seed * 2 + number)
                if target is self._closed:
                    broker.stop()
            finally:
                broker.kill()
            self._copy(broker.data, target, topics)

    @staticmethod
    def _create(broker: JvmBroker, topics: Mapping[str, str]) -> None:
        peer = Peer("source", broker.port)
        for topic, policy in topics.items():
            small = {"internal.segment.bytes": "3000", "index.interval.bytes": "200", "segment.index.bytes": "4096", "retention.ms": "-1"}
            peer.create_topic(topic, JVM_PARTITIONS, {"cleanup.policy": policy, **small})
        peer.close()

    @staticmethod
    def _write(broker: JvmBroker, topics: Mapping[str, str], seed: int) -> None:
        program = str(Path(__file__).with_name("jvm") / "Workload.java")
        command = jvm_command(program, broker.bootstrap, str(seed), str(_STEPS), str(JVM_PARTITIONS), *topics)
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace"))

    @staticmethod
    def _copy(data: Path, target: Path, topics: Mapping[str, str]) -> None:
        for topic in topics:
            for partition in range(JVM_PARTITIONS):
                shutil.copytree(data / f"{topic}-{partition}", target / f"{topic}-{partition}")

    def put(self, rng: random.Random, topic: str, folder: Path, *, closed: bool) -> tuple[int, list[int]]:
        """Copy a random log of the topic into `folder`. Return its end offset and the base offsets of its segments."""
        home = (self._closed if closed else self._killed) / f"{topic}-{rng.randrange(JVM_PARTITIONS)}"
        for path in home.iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, folder)
        end = 0
        for path in sorted(folder.glob("*.log")):
            for _, header in iter_headers(path.read_bytes()):
                end = header.next_offset
        return end, [int(path.stem) for path in sorted(folder.glob("*.log"))]
