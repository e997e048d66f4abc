"""Odradek and JVM Kafka 4.3.1 side by side on this machine, driven by the same confluent-kafka client.

    python -m bench.brokers [--rounds N] [--only ROW ...] [--json FILE]

Each row is measured in turn on one broker and then on the other, as many rounds as asked for; the table shows the medians and the
median of the ratios of each round. Only one broker lives at a time. Broker CPU and memory come from /proc. Each row that writes
begins after a sync, and the produce rows write less than what makes the kernel throttle writers, so that the brokers are compared
and not the disk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.comparison import MB, Figures, Rows, Target, run
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker

OVERRIDES = {"log.retention.check.interval.ms": "3600000"}


HALF_CPU = Target("<= 0.5x", ratio_max=0.5)
TARGETS = {
    ("produce 1 KB, 1 MB batches", "MB/s"): Target(">= 2x", ratio_min=2),
    ("produce 1 KB, 16 KB batches", "MB/s"): Target(">= 2x", ratio_min=2),
    ("produce 100 B, 1 MB batches", "MB/s"): Target(">= 1.2x", ratio_min=1.2),
    ("consume 1 KB", "MB/s"): Target(">= 1x", ratio_min=1),
    ("produce 1 KB, 1 MB batches", "CPU s/GB"): HALF_CPU,
    ("produce 1 KB, 16 KB batches", "CPU s/GB"): HALF_CPU,
    ("produce 100 B, 1 MB batches", "CPU s/GB"): HALF_CPU,
    ("consume 1 KB", "CPU s/GB"): HALF_CPU,
    ("ack at 1,000 msg/s, acks=all", "p99 ms"): Target("<= 0.25x", ratio_max=0.25),
    ("start", "first acked record s"): Target("<= 0.35 s", limit=0.35),
    ("memory", "RSS idle MB"): Target("<= 60 MB", limit=60),
    ("memory", "RSS under load MB"): Target("<= 150 MB", limit=150),
    ("idle", "CPU % of a core"): Target("< 0.5 %", limit=0.5),
}


def create_topic(broker: BrokerProcess, name: str, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=dict(config or {}))])[name].result(30)


def produce_load(broker: BrokerProcess, topic: str, record_size: int, batch_bytes: int, total_bytes: int) -> Figures:
    """Produces `total_bytes` of records of `record_size` to partition 0; throughput of the whole and broker CPU per GB."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "batch.size": batch_bytes,
            "batch.num.messages": max(1, batch_bytes // record_size) + 10,
            "message.max.bytes": 2_000_000,
            "linger.ms": 20 if batch_bytes > 100_000 else 5,
            "queue.buffering.max.messages": 400_000,
            "queue.buffering.max.kbytes": 512 * 1024,
            "max.in.flight.requests.per.connection": 5,
        }
    )
    producer.list_topics(topic, timeout=30)
    value = os.urandom(record_size)
    burst = [{"value": value} for _ in range(max(1, min(2_000, 2_000_000 // record_size)))]
    total = total_bytes // record_size
    sent = 0
    cpu, start = broker.cpu_seconds(), time.perf_counter()
    while sent < total:
        accepted = producer.produce_batch(topic, burst, partition=0)
        sent += accepted
        if accepted < len(burst):
            producer.poll(0.002)
        else:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("records left unsent")
    elapsed = time.perf_counter() - start
    volume = sent * record_size
    return {"MB/s": volume / MB / elapsed, "CPU s/GB": (broker.cpu_seconds() - cpu) / (volume / 1e9)}


def end_offset(broker: BrokerProcess, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench"})
    try:
        high: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)[1]
        return high
    finally:
        consumer.close()


def consume_load(broker: BrokerProcess, topic: str, record_size: int) -> Figures:
    """Consumes all of partition 0 from the beginning."""
    total = end_offset(broker, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 8 << 20,
            "fetch.max.bytes": 64 << 20,
            "queued.max.messages.kbytes": 256 * 1024,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    cpu, start = broker.cpu_seconds(), time.perf_counter()
    seen = 0
    while seen < total:
        messages = consumer.consume(min(10_000, total - seen), 30)
        if not messages:
            raise RuntimeError(f"only {seen} of {total} records came")
        seen += len(messages)
    elapsed = time.perf_counter() - start
    used = broker.cpu_seconds() - cpu
    consumer.close()
    volume = seen * record_size
    return {"MB/s": volume / MB / elapsed, "CPU s/GB": used / (volume / 1e9)}


def ack_latency(broker: BrokerProcess, topic: str, seconds: float) -> Figures:
    """1,000 records of 100 B a second with acks=all, each sent at its moment; milliseconds until its acknowledgement."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "all", "socket.nagle.disable": True})
    producer.list_topics(topic, timeout=30)
    latencies: list[float] = []
    value = b"x" * 100

    def send() -> None:
        sent_at = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=lambda *_: latencies.append((time.perf_counter() - sent_at) * 1000))

    total = int(seconds * 1000)
    warm_up = 500
    start = time.perf_counter()
    for number in range(total + warm_up):
        due = start + number / 1000
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        send()
        producer.poll(0)
    producer.flush(30)
    latencies = sorted(latencies[warm_up:])
    return {"p50 ms": latencies[len(latencies) // 2], "p99 ms": latencies[int(len(latencies) * 0.99)]}


def start_to_first_ack(broker: BrokerProcess, topic: str) -> Figures:
    """Seconds from starting the process (formatted folder, existing topic) to the first acknowledged record."""
    broker.stop()
    broker.properties_path.read_bytes()
    start = time.perf_counter()
    broker.start()
    acknowledged: list[float] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20})
    producer.produce(
        topic, b"first", partition=0, on_delivery=lambda error, _: acknowledged.append(time.perf_counter()) if error is None else None
    )
    producer.flush(60)
    if not acknowledged:
        raise RuntimeError("the first record was not acknowledged")
    return {"first acked record s": acknowledged[0] - start}


def idle_cost(broker: BrokerProcess, seconds: float) -> Figures:
    time.sleep(2)
    before = broker.cpu_seconds()
    time.sleep(seconds)
    return {"CPU % of a core": (broker.cpu_seconds() - before) / seconds * 100}


class Bench:
    """One round on one broker: a fresh folder, every row that was asked for."""

    def __init__(self, broker: BrokerProcess, scale: float) -> None:
        self.broker = broker
        self.scale = scale

    def run(self, wanted: Callable[[str], bool]) -> Rows:
        broker, rows = self.broker, Rows()
        broker.start()
        try:
            if wanted("memory"):
                time.sleep(1)
                rows["memory"] = {"RSS idle MB": broker.rss_bytes() / MB}
            if wanted("idle"):
                rows["idle"] = idle_cost(broker, 10)
            for name, size, batch, volume in (
                ("produce 1 KB, 1 MB batches", 1024, 1_000_000, 1000 * MB),
                ("produce 1 KB, 16 KB batches", 1024, 16_384, 500 * MB),
                ("produce 100 B, 1 MB batches", 100, 1_000_000, 300 * MB),
            ):
                if wanted(name):
                    topic = f"load-{size}-{batch}"
                    create_topic(broker, topic)
                    produce_load(broker, topic, size, batch, int(volume * self.scale / 10))
                    os.sync()
                    rows[name] = produce_load(broker, topic, size, batch, int(volume * self.scale))
            if wanted("consume 1 KB"):
                topic = "load-1024-1000000"
                if "produce 1 KB, 1 MB batches" not in rows:
                    create_topic(broker, topic)
                    produce_load(broker, topic, 1024, 1_000_000, int(1000 * MB * self.scale))
                rows["consume 1 KB"] = consume_load(broker, topic, 1024)
            if wanted("memory"):
                rows["memory"]["RSS under load MB"] = broker.peak_rss_bytes() / MB
            if wanted("ack at 1,000 msg/s, acks=all"):
                create_topic(broker, "latency")
                os.sync()
                rows["ack at 1,000 msg/s, acks=all"] = ack_latency(broker, "latency", 10 * self.scale)
            if wanted("start"):
                create_topic(broker, "start")
                rows["start"] = start_to_first_ack(broker, "start")
        finally:
            broker.kill()
        return rows


def measure(name: str, home: Path, wanted: Callable[[str], bool], scale: float) -> Rows:
    make = OdradekBroker if name == "odradek" else JvmBroker
    return Bench(make(home, OVERRIDES), scale).run(wanted)


if __name__ == "__main__":
    run(__doc__, measure, TARGETS, "brokers")
