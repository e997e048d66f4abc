"""Compaction and retention, Odradek and JVM Kafka 4.3.1 side by side on this machine.

    python -m bench.cleaning [--rounds N] [--only ROW ...] [--scale FACTOR]

How it is measured: bench/comparison.py.
- compaction: a topic is filled under cleanup.policy=delete, keys repeating; then it becomes compacted, and the clock runs from that
  change until the cleaner-offset-checkpoint covers everything that can be cleaned. Both brokers look for work every 100 ms with one
  cleaner thread, and neither is throttled. Each pass reads twice: once for the map of offsets, once to copy.
- produce while cleaning: the same load as in bench.brokers to one topic while the cleaner works on another.
- produce while retention deletes: a topic that may keep little is written to; segments are rolled, dropped and removed all the time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.brokers import create_topic, delete_topic, produce_load
from bench.comparison import MB, AnyRow, Figures, Row, at_least, at_most, run
from interop.peers import BrokerProcess

OVERRIDES = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
SEGMENT_BYTES = 32 * MB
MANY = 10_000
"""Records of a batch, as many as fit (the client's default)."""
FILLS = (
    ("compaction 1 KB", 1024, 400, "none", MANY),
    ("compaction 100 B", 100, 100, "none", MANY),
    ("compaction 1 KB lz4", 1024, 200, "lz4", MANY),
    ("compaction 100 B, one record a batch", 100, 40, "none", 1),
)
"""Row, bytes of a record, MB to write, codec, records of a batch: one as in `__consumer_offsets` and from producers with linger.ms=0."""


def fill(broker: BrokerProcess, topic: str, record_size: int, total_bytes: int, codec: str, batch_records: int = MANY) -> None:
    """Records whose keys come back about five times, in batches of up to 256 KiB and `batch_records`."""
    create_topic(broker, topic, {"segment.bytes": str(SEGMENT_BYTES)})
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "batch.size": 262_144,
            "batch.num.messages": batch_records,
            "linger.ms": 20,
            "queue.buffering.max.messages": 400_000,
        }
    )
    rng = random.Random(record_size)
    total = total_bytes // record_size
    keys = [b"key-%011d" % number for number in range(max(1, total // 5))]
    # Half of every value does not compress.
    values = [rng.randbytes(record_size // 2) + bytes(record_size // 2 - 16) for _ in range(64)]
    sent = 0
    while sent < total:
        burst = [{"key": rng.choice(keys), "value": values[number % 64]} for number in range(min(2_000, total - sent))]
        while burst:
            accepted = producer.produce_batch(topic, burst, partition=0)
            burst = [message for message in burst if "_error" in message]
            sent += accepted
            for message in burst:
                del message["_error"]
            producer.poll(0.002 if burst else 0)
    if producer.flush(120):
        raise RuntimeError("records left unsent")


def alter(broker: BrokerProcess, topic: str, key: str, value: str) -> None:
    """One topic key, set as any administrator would."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def cleaned_up_to(broker: BrokerProcess, topic: str) -> int:
    """What the cleaner's checkpoint says of partition 0, -1 before it says anything."""
    try:
        lines = (broker.data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return -1
    return next((int(line.split()[2]) for line in lines if line.split()[:2] == [topic, "0"]), -1)


def log_files(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob("*.log"))


def compaction(broker: BrokerProcess, topic: str) -> Figures:
    """MB of dirty log cleaned a second, and CPU seconds of the broker per GB."""
    os.sync()
    files = log_files(broker, topic)
    dirty_end = int(files[-1].stem)
    volume = sum(path.stat().st_size for path in files[:-1])
    if not volume:
        raise RuntimeError(f"{topic} has only its active segment: nothing can be cleaned, take a larger --scale")
    cpu, start = broker.cpu_seconds(), time.perf_counter()
    alter(broker, topic, "cleanup.policy", "compact")
    deadline = start + 300
    while cleaned_up_to(broker, topic) < dirty_end:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{broker.name}: {topic} was cleaned up to {cleaned_up_to(broker, topic)} of {dirty_end} only")
        time.sleep(0.01)
    elapsed = time.perf_counter() - start
    return {"MB/s": volume / MB / elapsed, "CPU s/GB": (broker.cpu_seconds() - cpu) / (volume / 1e9)}


def produce_while_cleaning(broker: BrokerProcess, scale: float, label: str) -> Figures:
    """Throughput of a producer while the cleaner works through another topic."""
    background, foreground = f"background-{label}", f"foreground-{label}"
    fill(broker, background, 1024, int(600 * MB * scale), "none")
    create_topic(broker, foreground)
    os.sync()
    alter(broker, background, "cleanup.policy", "compact")
    figures = produce_load(broker, foreground, 1024, 1_000_000, int(500 * MB * scale))
    for topic in (background, foreground):
        delete_topic(broker, topic)
    return figures


def produce_while_deleting(broker: BrokerProcess, scale: float, label: str) -> Figures:
    """Throughput of a producer to a topic that keeps 64 MB in segments of 16 MB."""
    topic = f"short-{label}"
    create_topic(broker, topic, {"retention.bytes": str(64 * MB), "segment.bytes": str(16 * MB), "file.delete.delay.ms": "500"})
    figures = produce_load(broker, topic, 1024, 1_000_000, int(700 * MB * scale))
    delete_topic(broker, topic)
    return figures


def rows(scale: float) -> Sequence[AnyRow]:
    made: list[AnyRow] = []
    for row, size, volume, codec, batch_records in FILLS:

        def compact(
            broker: BrokerProcess,
            label: str,
            row: str = row,
            size: int = size,
            volume: int = volume,
            codec: str = codec,
            batch_records: int = batch_records,
        ) -> Figures:
            topic = f"{row.replace(',', '').replace(' ', '-')}-{label}"
            fill(broker, topic, size, int(volume * MB * scale), codec, batch_records)
            figures = compaction(broker, topic)
            delete_topic(broker, topic)
            return figures

        made.append(Row(row, compact, "CPU s/GB", {"MB/s": at_least(1), "CPU s/GB": at_most(1)}))
    produce = {"MB/s": at_least(1), "CPU s/GB": at_most(1)}

    def while_cleaning(broker: BrokerProcess, label: str) -> Figures:
        return produce_while_cleaning(broker, scale, label)

    def while_deleting(broker: BrokerProcess, label: str) -> Figures:
        return produce_while_deleting(broker, scale, label)

    made.append(Row("produce while cleaning", while_cleaning, "CPU s/GB", produce, most_passes=4))
    made.append(Row("produce while retention deletes", while_deleting, "CPU s/GB", produce, most_passes=4))
    return made


if __name__ == "__main__":
    run(__doc__, "cleaning", rows, overrides=OVERRIDES)
