"""Transactions, Odradek and JVM Kafka 4.3.1 side by side on this machine, acks=all.

    python -m bench.transactions [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

- transactions of 1 and of 100 records of 100 bytes: fifty producers with an id each, by raw requests from one process; in the younger
  form (v2: Produce, EndTxn) and in the older (v1: AddPartitionsToTxn, Produce, EndTxn). "CPU us" is the broker's for one transaction.
- librdkafka: eight confluent-kafka producers in threads of one process, one transaction after the other.
- latency: one producer begins twenty transactions a second, of one record each; milliseconds until its commit is answered, and until a
  reader with isolation.level=read_committed has the record, which takes the marker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Producer

from bench.comparison import Figures, Rows, run
from bench.groups import create_topic, use_coordinator
from bench.wire import TRANSACTION, generate, percentile
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker

OVERRIDES = {"log.retention.check.interval.ms": "3600000"}
PARTITIONS = 10
_VALUE = b"x" * 100


def raw(broker: BrokerProcess, topic: str, version: int, records: int, seconds: float) -> Figures:
    create_topic(broker, topic, PARTITIONS)
    cpu = broker.cpu_seconds()
    figures = generate(
        "bench.transacting",
        broker.port,
        topic=topic,
        version=version,
        records=records,
        producers=50,
        partitions=PARTITIONS,
        seconds=seconds,
    )
    used = broker.cpu_seconds() - cpu
    return {
        "transactions/s": figures["transactions/s"],
        "p99 ms": figures["p99 ms"],
        # The warm-up takes a quarter of the time besides.
        "CPU us": used / 1.25 / (figures["transactions/s"] * figures["elapsed"]) * 1e6,
    }


def librdkafka(broker: BrokerProcess, topic: str, records: int, seconds: float) -> Figures:
    create_topic(broker, topic, PARTITIONS)
    names = [f"{topic}-{number}" for number in range(8)]
    asyncio.run(use_coordinator(broker.port, names, TRANSACTION))
    latencies: list[float] = []

    def produce(number: int) -> int:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": names[number], "linger.ms": 0, "acks": "all", "log_level": 0}
        )
        producer.init_transactions(30)
        warm, end = time.perf_counter() + seconds / 4, time.perf_counter() + seconds * 1.25
        count = 0
        while (begin := time.perf_counter()) < end:
            producer.begin_transaction()
            for _ in range(records):
                producer.produce(topic, _VALUE, partition=number % PARTITIONS)
            producer.commit_transaction(30)
            if begin >= warm:
                count += 1
                latencies.append(time.perf_counter() - begin)
        return count

    with ThreadPoolExecutor(len(names)) as threads:
        counts = list(threads.map(produce, range(len(names))))
    return {
        "transactions/s": sum(counts) / seconds,
        "p50 ms": percentile(latencies, 0.5) * 1000,
        "p99 ms": percentile(latencies, 0.99) * 1000,
    }


def latency(broker: BrokerProcess, topic: str, version: int, seconds: float) -> Figures:
    create_topic(broker, topic, 1)
    return generate("bench.transacting", broker.port, topic=topic, version=version, rate=20, seconds=seconds)


def measure(name: str, home: Path, wanted: Callable[[str], bool], scale: float) -> Rows:
    rows = Rows()
    broker = OdradekBroker(home, OVERRIDES) if name == "odradek" else JvmBroker(home, OVERRIDES)
    broker.start()
    try:
        for version in (2, 1):
            # A JVM compiles as it goes: the row that came first would be measured on a cold one, and the last on a warm one.
            raw(broker, f"warm-up-{version}", version, 10, 10 * scale)
        for records in (1, 100):
            text = "1 record" if records == 1 else f"{records} records"
            for version in (2, 1):
                if wanted(row := f"transactions of {text}, v{version}"):
                    rows[row] = raw(broker, f"raw-{records}-{version}", version, records, 10 * scale)
            if wanted(row := f"transactions of {text}, librdkafka"):
                rows[row] = librdkafka(broker, f"librdkafka-{records}", records, 10 * scale)
        for version in (2, 1):
            if wanted(row := f"latency of a transaction, v{version}"):
                rows[row] = latency(broker, f"latency-{version}", version, 10 * scale)
    finally:
        broker.kill()
    return rows


if __name__ == "__main__":
    run(__doc__, measure, {}, "transactions")
