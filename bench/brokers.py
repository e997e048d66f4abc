"""Producing, consuming, starting and resting: Odradek and JVM Kafka 4.3.1 driven by the same confluent-kafka client.

    python -m bench.brokers [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

How it is measured: bench/comparison.py. Broker CPU and memory come from /proc; "client CPU s/GB" is what this process took for the same
records. The produce rows write less than what makes the kernel throttle writers, so that the brokers are compared and not the disk.
"Small batches" leaves librdkafka out: raw Produce requests of 16 KB, five under way on one connection; "CPU us" is the broker's for one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.acks import ack_latencies
from bench.comparison import MB, AnyRow, ColdRow, Figures, Row, at_least, at_most, below, run
from bench.wire import generate
from interop.peers import BrokerProcess

_TOPIC = "consume"


def create_topic(broker: BrokerProcess, name: str, config: Mapping[str, str] | None = None, partitions: int = 1) -> None:
    """Returns when its partitions are led."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(120)
    # The controller has answered; the broker becomes leader of the partitions a moment later, in their order.
    end_offset(broker, name, partitions - 1)


def delete_topic(broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(60)


def produce_load(
    broker: BrokerProcess, topic: str, record_size: int, batch_bytes: int, total_bytes: int, client: Mapping[str, str] | None = None
) -> Figures:
    """Produces `total_bytes` of records of `record_size` to partition 0; throughput of the whole, and CPU per GB of both ends. `client`:
    other settings of the client.
    """
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
            **(client or {}),
        }
    )
    producer.list_topics(topic, timeout=30)
    value = os.urandom(record_size)
    burst = [{"value": value} for _ in range(max(1, min(2_000, 2_000_000 // record_size)))]
    total = total_bytes // record_size
    sent = 0
    cpu, client_cpu, start = broker.cpu_seconds(), time.process_time(), time.perf_counter()
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
    return _throughput(sent * record_size, elapsed, broker.cpu_seconds() - cpu, time.process_time() - client_cpu)


def _throughput(volume: int, elapsed: float, broker_cpu: float, client_cpu: float) -> Figures:
    gigabytes = volume / 1e9
    return {"MB/s": volume / MB / elapsed, "CPU s/GB": broker_cpu / gigabytes, "client CPU s/GB": client_cpu / gigabytes}


def end_offset(broker: BrokerProcess, topic: str, partition: int = 0) -> int:
    """Waits up to 30 s until the partition has a leader that answers."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 0})
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                high: int = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[1]
                return high
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        consumer.close()


def consume_load(broker: BrokerProcess, topic: str, record_size: int, client: Mapping[str, str] | None = None) -> Figures:
    """Consumes all of partition 0 from the beginning. `client`: other settings of the client."""
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
            **(client or {}),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    cpu, client_cpu, start = broker.cpu_seconds(), time.process_time(), time.perf_counter()
    seen = 0
    while seen < total:
        messages = consumer.consume(min(10_000, total - seen), 30)
        if not messages:
            raise RuntimeError(f"only {seen} of {total} records came")
        seen += len(messages)
    elapsed = time.perf_counter() - start
    figures = _throughput(seen * record_size, elapsed, broker.cpu_seconds() - cpu, time.process_time() - client_cpu)
    consumer.close()
    return figures


def ack_latency(broker: BrokerProcess, topic: str, seconds: float) -> Figures:
    """1,000 records of 100 B a second with acks=all, each sent at its moment; milliseconds until its acknowledgement."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "all", "socket.nagle.disable": True})
    return ack_latencies(producer, topic, rate=1000, seconds=seconds, warm_up=500)


def start_to_first_ack(broker: BrokerProcess, folder: Path) -> Figures:
    """Seconds from starting the process (formatted folder, existing topic) to the first acknowledged record; then memory and idle CPU."""
    topic = "start"
    broker.start(180)
    create_topic(broker, topic)
    broker.stop()
    start = time.perf_counter()
    broker.start(180)
    acknowledged: list[float] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 20})
    producer.produce(
        topic, b"first", partition=0, on_delivery=lambda error, _: acknowledged.append(time.perf_counter()) if error is None else None
    )
    producer.flush(60)
    if not acknowledged:
        raise RuntimeError("the first record was not acknowledged")
    return {"first acked record s": acknowledged[0] - start}


def at_rest(broker: BrokerProcess, folder: Path) -> Figures:
    """A broker that has just started and has nothing to do; then its peak after a gigabyte has come and gone."""
    broker.start(180)
    time.sleep(3)
    figures = {"RSS MB": broker.rss_bytes() / MB}
    before = broker.cpu_seconds()
    time.sleep(10)
    figures["CPU % of a core"] = (broker.cpu_seconds() - before) * 10
    create_topic(broker, "memory")
    produce_load(broker, "memory", 1024, 1_000_000, 700 * MB)
    consume_load(broker, "memory", 1024)
    figures["peak RSS under load MB"] = broker.peak_rss_bytes() / MB
    return figures


def rows(scale: float) -> Sequence[AnyRow]:
    def produce(name: str, record: int, batch: int, volume: int, least: float) -> Row:
        def work(broker: BrokerProcess, label: str) -> Figures:
            topic = f"load-{record}-{batch}-{label}"
            create_topic(broker, topic)
            figures = produce_load(broker, topic, record, batch, int(volume * MB * scale))
            delete_topic(broker, topic)
            return figures

        return Row(name, work, "CPU s/GB", {"MB/s": at_least(least), "CPU s/GB": at_most(0.5)})

    def small_batches(broker: BrokerProcess, label: str) -> Figures:
        topic = f"small-{label}"
        create_topic(broker, topic)
        cpu = broker.cpu_seconds()
        figures = generate("bench.producing", broker.port, topic=topic, in_flight=5, seconds=4 * scale)
        used = broker.cpu_seconds() - cpu
        delete_topic(broker, topic)
        # The warm-up takes a quarter of that time in addition.
        return {
            "batches/s": figures["batches/s"],
            "CPU us": used / 1.25 / figures["batches"] * 1e6,
            "client CPU us": figures["client CPU s"] / figures["batches"] * 1e6,
        }

    def fill(broker: BrokerProcess) -> None:
        create_topic(broker, _TOPIC)
        produce_load(broker, _TOPIC, 1024, 1_000_000, int(1000 * MB * scale))

    def acks(broker: BrokerProcess, label: str) -> Figures:
        topic = f"latency-{label}"
        create_topic(broker, topic)
        figures = ack_latency(broker, topic, 6 * scale)
        delete_topic(broker, topic)
        return figures

    return (
        ColdRow("start", start_to_first_ack, {"first acked record s": below(0.35, "s")}),
        ColdRow(
            "at rest, then under load",
            at_rest,
            {"RSS MB": below(60, "MB"), "CPU % of a core": below(0.5, "%"), "peak RSS under load MB": below(150, "MB")},
        ),
        produce("produce 1 KB, 1 MB batches", 1024, 1_000_000, 700, 2),
        produce("produce 1 KB, 16 KB batches", 1024, 16_384, 300, 2),
        produce("produce 100 B, 1 MB batches", 100, 1_000_000, 200, 1.2),
        Row("produce, small batches, raw", small_batches, "CPU us", {"CPU us": below(40, "us"), "batches/s": at_least(2)}),
        Row(
            "consume 1 KB",
            lambda broker, _: consume_load(broker, _TOPIC, 1024),
            "CPU s/GB",
            {"MB/s": at_least(1), "CPU s/GB": at_most(1)},
            prepare=fill,
        ),
        Row("ack at 1,000 msg/s, acks=all", acks, "p50 ms", {"p50 ms": at_most(1), "p99 ms": at_most(0.25)}),
    )


if __name__ == "__main__":
    run(__doc__, "brokers", rows)
