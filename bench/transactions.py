"""Transactions, Odradek and JVM Kafka 4.3.1 side by side on this machine, acks=all.

    python -m bench.transactions [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

How it is measured: bench/comparison.py.
- transactions of 1 and of 100 records of 100 bytes: fifty producers with an id each, by raw requests from one process; in the younger
  form (v2: Produce, EndTxn) and in the older (v1: AddPartitionsToTxn, Produce, EndTxn). "CPU us" is the broker's for one transaction,
  "client CPU us" the generator's.
- librdkafka: eight confluent-kafka producers in threads of one process, one transaction after the other.
- latency: one producer begins twenty transactions a second, of one record each; milliseconds until its commit is answered, and until a
  reader with isolation.level=read_committed has the record, which takes the marker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from bench.brokers import create_topic, delete_topic
from bench.comparison import AnyRow, Figures, Row, at_least, at_most, below, run
from bench.groups import use_coordinator
from bench.wire import TRANSACTION, generate, percentile
from interop.peers import BrokerProcess

PARTITIONS = 10
_VALUE = b"x" * 100


def raw(broker: BrokerProcess, topic: str, version: int, records: int, seconds: float) -> Figures:
    create_topic(broker, topic, partitions=PARTITIONS)
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
    delete_topic(broker, topic)
    return {
        "transactions/s": figures["transactions/s"],
        "p99 ms": figures["p99 ms"],
        # The warm-up takes a quarter of that time in addition.
        "CPU us": used / 1.25 / (figures["transactions/s"] * figures["elapsed"]) * 1e6,
        "client CPU us": figures["client CPU us"],
    }


def librdkafka(broker: BrokerProcess, topic: str, records: int, seconds: float) -> Figures:
    create_topic(broker, topic, partitions=PARTITIONS)
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
    delete_topic(broker, topic)
    return {
        "transactions/s": sum(counts) / seconds,
        "p50 ms": percentile(latencies, 0.5) * 1000,
        "p99 ms": percentile(latencies, 0.99) * 1000,
    }


def latency(broker: BrokerProcess, topic: str, version: int, seconds: float) -> Figures:
    create_topic(broker, topic)
    figures = generate("bench.transacting", broker.port, topic=topic, version=version, rate=20, seconds=seconds)
    delete_topic(broker, topic)
    return figures


def rows(scale: float) -> Sequence[AnyRow]:
    seconds = 5 * scale
    made: list[AnyRow] = []
    for records in (1, 100):
        text = "1 record" if records == 1 else f"{records} records"
        for version in (2, 1):

            def work(broker: BrokerProcess, label: str, version: int = version, records: int = records) -> Figures:
                return raw(broker, f"raw-{records}-{version}-{label}", version, records, seconds)

            targets = {"transactions/s": at_least(1), "CPU us": below(130, "us") if version == 2 and records == 1 else at_most(0.5)}
            made.append(Row(f"transactions of {text}, v{version}", work, "CPU us", targets))

        def clients(broker: BrokerProcess, label: str, records: int = records) -> Figures:
            return librdkafka(broker, f"librdkafka-{records}-{label}", records, seconds)

        made.append(Row(f"transactions of {text}, librdkafka", clients, "transactions/s", {"transactions/s": at_least(1)}))
    for version in (2, 1):

        def timed(broker: BrokerProcess, label: str, version: int = version) -> Figures:
            return latency(broker, f"latency-{version}-{label}", version, seconds)

        targets = {"committed p50 ms": at_most(1), "committed p99 ms": at_most(1), "read p50 ms": at_most(1)}
        made.append(Row(f"latency of a transaction, v{version}", timed, "committed p50 ms", targets, most_passes=3))
    return made


if __name__ == "__main__":
    run(__doc__, "transactions", rows)
