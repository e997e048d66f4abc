"""One pass of one Python client, in a process of its own: `python -m bench.client_work CLIENT WORK PORT TOPIC COUNT`.

Prints one line of JSON: seconds and CPU seconds between the first record and the last one acknowledged or read, without imports,
connecting and metadata. `latency` sends one record after the other and waits for each: microseconds, p50 and p99.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

VALUE = b"x" * 100
_WAIT_S = 60.0
_ROWS = 50_000
"""Of an Arrow batch."""
Figures = dict[str, float]


class Stopwatch:
    """From its making on."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def figures(self, records: int) -> Figures:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"records/s": records / wall, "client CPU us": cpu / records * 1e6}


def _percentiles(times: list[float]) -> Figures:
    ordered = sorted(times)
    return {"p50 us": ordered[len(ordered) // 2] * 1e6, "p99 us": ordered[len(ordered) * 99 // 100] * 1e6}


# -- Odradek ------------------------------------------------------------------------------------------------------------------------


def _odradek_produce(port: int, topic: str, count: int) -> Figures:
    from odradek.client import Producer

    with Producer(bootstrap_servers=f"localhost:{port}") as producer:
        producer.send(topic, VALUE).result()
        watch = Stopwatch()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        return watch.figures(count)


def _odradek_consume(port: int, topic: str, count: int) -> Figures:
    from odradek.client import Consumer, TopicPartition

    with Consumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = len(consumer.poll(10_000, 1))
        watch = Stopwatch()
        while seen < count:
            for record in consumer.poll(10_000):
                seen += record.value is not None
        return watch.figures(count)


def _odradek_arrow_produce(port: int, topic: str, count: int) -> Figures:
    import pyarrow as pa

    from odradek.client import Producer

    rows = pa.record_batch({"value": pa.array([VALUE] * _ROWS, pa.binary())})
    with Producer(bootstrap_servers=f"localhost:{port}") as producer:
        producer.send(topic, VALUE).result()
        watch = Stopwatch()
        for _ in range(count // _ROWS):
            producer.send_batch(topic, rows)
        producer.flush()
        return watch.figures(count // _ROWS * _ROWS)


def _odradek_arrow_consume(port: int, topic: str, count: int) -> Figures:
    from odradek.client import Consumer, TopicPartition

    with Consumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        batch = consumer.next_batch(10_000)
        seen = first = 0 if batch is None else batch.num_rows
        watch = Stopwatch()
        while seen < count:
            batch = consumer.next_batch(10_000)
            seen += 0 if batch is None else len(batch.column("value"))
        return watch.figures(seen - first)


def _odradek_latency(port: int, topic: str, count: int) -> Figures:
    from odradek.client import Producer

    times = []
    with Producer(bootstrap_servers=f"localhost:{port}", linger_ms=0) as producer:
        producer.send(topic, VALUE).result()
        for _ in range(count):
            begin = time.perf_counter()
            producer.send(topic, VALUE).result()
            times.append(time.perf_counter() - begin)
    return _percentiles(times)


def _async(work: Callable[[int, str, int], Any]) -> Callable[[int, str, int], Figures]:
    def run(port: int, topic: str, count: int) -> Figures:
        figures: Figures = asyncio.run(work(port, topic, count))
        return figures

    return run


async def _odradek_async_produce(port: int, topic: str, count: int) -> Figures:
    from odradek.client import AsyncProducer

    async with AsyncProducer(bootstrap_servers=f"localhost:{port}") as producer:
        await (await producer.send(topic, VALUE))
        watch = Stopwatch()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
        return watch.figures(count)


async def _odradek_async_consume(port: int, topic: str, count: int) -> Figures:
    from odradek.client import AsyncConsumer, TopicPartition

    async with AsyncConsumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen = len(await consumer.poll(10_000, 1))
        watch = Stopwatch()
        while seen < count:
            for record in await consumer.poll(10_000):
                seen += record.value is not None
        return watch.figures(count)


async def _odradek_async_arrow_produce(port: int, topic: str, count: int) -> Figures:
    import pyarrow as pa

    from odradek.client import AsyncProducer

    rows = pa.record_batch({"value": pa.array([VALUE] * _ROWS, pa.binary())})
    async with AsyncProducer(bootstrap_servers=f"localhost:{port}") as producer:
        await (await producer.send(topic, VALUE))
        watch = Stopwatch()
        for _ in range(count // _ROWS):
            await producer.send_batch(topic, rows)
        await producer.flush()
        return watch.figures(count // _ROWS * _ROWS)


async def _odradek_async_arrow_consume(port: int, topic: str, count: int) -> Figures:
    from odradek.client import AsyncConsumer, TopicPartition

    async with AsyncConsumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        batch = await consumer.next_batch(10_000)
        seen = first = 0 if batch is None else batch.num_rows
        watch = Stopwatch()
        while seen < count:
            batch = await consumer.next_batch(10_000)
            seen += 0 if batch is None else len(batch.column("value"))
        return watch.figures(seen - first)


async def _odradek_async_latency(port: int, topic: str, count: int) -> Figures:
    from odradek.client import AsyncProducer

    times = []
    async with AsyncProducer(bootstrap_servers=f"localhost:{port}", linger_ms=0) as producer:
        await (await producer.send(topic, VALUE))
        for _ in range(count):
            begin = time.perf_counter()
            await (await producer.send(topic, VALUE))
            times.append(time.perf_counter() - begin)
    return _percentiles(times)


# -- confluent-kafka ----------------------------------------------------------------------------------------------------------------


def _confluent_produce(port: int, topic: str, count: int) -> Figures:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"localhost:{port}", "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000})
    producer.produce(topic, VALUE)
    producer.flush()
    watch = Stopwatch()
    for _ in range(count):
        try:
            producer.produce(topic, VALUE)
        except BufferError:
            producer.poll(0.1)
            producer.produce(topic, VALUE)
    producer.flush()
    return watch.figures(count)


def _confluent_consume(port: int, topic: str, count: int) -> Figures:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": f"localhost:{port}", "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = len(consumer.consume(1, _WAIT_S))
    watch = Stopwatch()
    while seen < count:
        for message in consumer.consume(500, _WAIT_S):
            seen += message.value() is not None
    figures = watch.figures(count)
    consumer.close()
    return figures


def _confluent_latency(port: int, topic: str, count: int) -> Figures:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"localhost:{port}", "enable.idempotence": True, "linger.ms": 0})
    producer.produce(topic, VALUE)
    producer.flush()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        producer.produce(topic, VALUE)
        producer.flush()
        times.append(time.perf_counter() - begin)
    return _percentiles(times)


# -- aiokafka -----------------------------------------------------------------------------------------------------------------------


async def _aiokafka_produce(port: int, topic: str, count: int) -> Figures:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=f"localhost:{port}", enable_idempotence=True, linger_ms=5) as producer:
        await producer.send_and_wait(topic, VALUE)
        watch = Stopwatch()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
        return watch.figures(count)


async def _aiokafka_consume(port: int, topic: str, count: int) -> Figures:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async with AIOKafkaConsumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        await consumer.getone()
        seen = 1
        watch = Stopwatch()
        while seen < count:
            for records in (await consumer.getmany(timeout_ms=10_000, max_records=500)).values():
                for record in records:
                    seen += record.value is not None
        return watch.figures(count)


async def _aiokafka_latency(port: int, topic: str, count: int) -> Figures:
    from aiokafka import AIOKafkaProducer

    times = []
    async with AIOKafkaProducer(bootstrap_servers=f"localhost:{port}", enable_idempotence=True) as producer:
        await producer.send_and_wait(topic, VALUE)
        for _ in range(count):
            begin = time.perf_counter()
            await producer.send_and_wait(topic, VALUE)
            times.append(time.perf_counter() - begin)
    return _percentiles(times)


# -- kafka-python -------------------------------------------------------------------------------------------------------------------


def _kafka_python_produce(port: int, topic: str, count: int) -> Figures:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"localhost:{port}", linger_ms=5)
    producer.send(topic, VALUE).get(_WAIT_S)
    watch = Stopwatch()
    for _ in range(count):
        producer.send(topic, VALUE)
    producer.flush()
    figures = watch.figures(count)
    producer.close()
    return figures


def _kafka_python_consume(port: int, topic: str, count: int) -> Figures:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    seen = sum(len(records) for records in consumer.poll(10_000, 1).values())
    watch = Stopwatch()
    while seen < count:
        for records in consumer.poll(10_000).values():
            for record in records:
                seen += record.value is not None
    figures = watch.figures(count)
    consumer.close()
    return figures


def _kafka_python_latency(port: int, topic: str, count: int) -> Figures:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=f"localhost:{port}")
    producer.send(topic, VALUE).get(_WAIT_S)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        producer.send(topic, VALUE).get(_WAIT_S)
        times.append(time.perf_counter() - begin)
    producer.close()
    return _percentiles(times)


WORK: dict[str, dict[str, Callable[[int, str, int], Figures]]] = {
    "odradek": {
        "produce": _odradek_produce,
        "consume": _odradek_consume,
        "latency": _odradek_latency,
        "arrow-produce": _odradek_arrow_produce,
        "arrow-consume": _odradek_arrow_consume,
    },
    "odradek-async": {
        "produce": _async(_odradek_async_produce),
        "consume": _async(_odradek_async_consume),
        "latency": _async(_odradek_async_latency),
        "arrow-produce": _async(_odradek_async_arrow_produce),
        "arrow-consume": _async(_odradek_async_arrow_consume),
    },
    "confluent": {
        "produce": _confluent_produce,
        "consume": _confluent_consume,
        "latency": _confluent_latency,
        # It has no columns: record by record, as it is used.
        "arrow-produce": _confluent_produce,
        "arrow-consume": _confluent_consume,
    },
    "aiokafka": {"produce": _async(_aiokafka_produce), "consume": _async(_aiokafka_consume), "latency": _async(_aiokafka_latency)},
    "kafka-python": {"produce": _kafka_python_produce, "consume": _kafka_python_consume, "latency": _kafka_python_latency},
}


def main() -> None:
    client, work, port, topic, count = sys.argv[1:]
    print(json.dumps(WORK[client][work](int(port), topic, int(count))))


if __name__ == "__main__":
    main()
