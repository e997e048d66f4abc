"""Python clients as writers and readers of samples: ours in all their forms, confluent-kafka, aiokafka and kafka-python, unmodified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.client import AsyncConsumer, AsyncProducer, Consumer, ConsumerRecord, Producer, TopicPartition
from tests.interop.matrix import Sample

MAX_BYTES = 8_000_000
_PATIENCE_S = 30

Writer = Callable[[str, str, int, str, Sequence[Sample]], None]
"""bootstrap, topic, partition, codec, samples: returns when all are acknowledged."""
Reader = Callable[[str, str, int, int], list[Sample]]
"""bootstrap, topic, partition, how many: from the beginning, in order."""


# -- ours -----------------------------------------------------------------------------------------------------------------------------


def _sending(bootstrap: str, codec: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "compression.type": codec, "max.request.size": MAX_BYTES}


def _reading(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}


def _write(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample]) -> None:
    with Producer(_sending(bootstrap, codec)) as producer:
        futures = [
            producer.send(topic, sample.value, key=sample.key, partition=partition, headers=list(sample.headers)) for sample in samples
        ]
        assert [future.result(_PATIENCE_S).offset for future in futures] == list(range(len(samples)))


def _write_async(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample]) -> None:
    async def story() -> None:
        async with AsyncProducer(_sending(bootstrap, codec)) as producer:
            for sample in samples:
                await producer.send(topic, sample.value, key=sample.key, partition=partition, headers=list(sample.headers))

    asyncio.run(story())


def _write_arrow(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample]) -> None:
    import pyarrow as pa

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch(
        {
            "key": pa.array([sample.key for sample in samples], pa.binary()),
            "value": pa.array([sample.value for sample in samples], pa.binary()),
            "headers": pa.array([[{"key": name, "value": value} for name, value in sample.headers] for sample in samples], headers),
        }
    )
    with Producer(_sending(bootstrap, codec)) as producer:
        for future in producer.send_batch(topic, rows, partition=partition):
            future.result(_PATIENCE_S)


def _sample(record: ConsumerRecord) -> Sample:
    return Sample(record.key, record.value, tuple((name, value or b"") for name, value in record.headers))


def _read(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    samples: list[Sample] = []
    with Consumer(_reading(bootstrap)) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        while len(samples) < count:
            records = consumer.poll(_PATIENCE_S * 1000)
            assert records, f"only {len(samples)} of {count} records came"
            samples += map(_sample, records)
    return samples


def _read_async(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    async def story() -> list[Sample]:
        samples: list[Sample] = []
        async with AsyncConsumer(_reading(bootstrap)) as consumer, asyncio.timeout(_PATIENCE_S):
            consumer.assign([TopicPartition(topic, partition)])
            async for record in consumer:
                samples.append(_sample(record))
                if len(samples) == count:
                    break
        return samples

    return asyncio.run(story())


def _read_arrow(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    samples: list[Sample] = []
    with Consumer(_reading(bootstrap)) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        while len(samples) < count:
            batch = consumer.next_batch(_PATIENCE_S * 1000, headers=True)
            assert batch is not None, f"only {len(samples)} of {count} records came"
            samples += [
                Sample(row["key"], row["value"], tuple((each["key"], each["value"]) for each in row["headers"] or ()))
                for row in batch.to_pylist()
            ]
    return samples


# -- confluent-kafka ------------------------------------------------------------------------------------------------------------------


def _write_confluent(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample], idempotent: bool = True) -> None:
    import confluent_kafka

    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "message.max.bytes": MAX_BYTES, "linger.ms": 5}
    # Without idempotence a batch that is sent again comes after those that were on the wire with it.
    in_flight = 5 if idempotent else 1
    producer = confluent_kafka.Producer({**settings, "enable.idempotence": idempotent, "max.in.flight": in_flight})
    errors: list[object] = []
    for sample in samples:
        producer.produce(
            topic,
            sample.value,
            sample.key,
            partition=partition,
            headers=list(sample.headers),
            on_delivery=lambda error, _: error and errors.append(error),
        )
    assert producer.flush(_PATIENCE_S) == 0
    assert errors == []


def _read_confluent(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "interop", "enable.auto.commit": False, "fetch.message.max.bytes": MAX_BYTES}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    samples: list[Sample] = []
    while len(samples) < count:
        message = consumer.poll(_PATIENCE_S)
        assert message is not None, f"only {len(samples)} of {count} records came"
        assert message.error() is None, message.error()
        assert message.offset() == len(samples)
        headers = tuple((name, bytes(value)) for name, value in message.headers() or ())  # type: ignore[arg-type]
        samples.append(Sample(message.key(), message.value(), headers))  # type: ignore[arg-type]
    consumer.close()
    return samples


# -- aiokafka -------------------------------------------------------------------------------------------------------------------------


def _write_aiokafka(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample], idempotent: bool = True) -> None:
    import aiokafka

    async def story() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=MAX_BYTES,
        ) as producer:
            for sample in samples:
                await producer.send_and_wait(topic, sample.value, sample.key, partition=partition, headers=list(sample.headers))

    asyncio.run(story())


def _read_aiokafka(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    import aiokafka

    async def story() -> list[Sample]:
        async with aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", max_partition_fetch_bytes=MAX_BYTES
        ) as consumer:
            consumer.assign([aiokafka.TopicPartition(topic, partition)])
            records = [await asyncio.wait_for(consumer.getone(), _PATIENCE_S) for _ in range(count)]
            return [Sample(record.key, record.value, tuple(record.headers)) for record in records]

    return asyncio.run(story())


# -- kafka-python ---------------------------------------------------------------------------------------------------------------------


def _write_kafka_python(bootstrap: str, topic: str, partition: int, codec: str, samples: Sequence[Sample], idempotent: bool = True) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        max_in_flight_requests_per_connection=5 if idempotent else 1,
        max_request_size=MAX_BYTES,
    )
    futures = [producer.send(topic, sample.value, sample.key, list(sample.headers), partition=partition) for sample in samples]
    producer.flush(_PATIENCE_S)
    assert [future.get(_PATIENCE_S).offset for future in futures] == list(range(len(samples)))
    producer.close()


def _read_kafka_python(bootstrap: str, topic: str, partition: int, count: int) -> list[Sample]:
    import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=MAX_BYTES,
        consumer_timeout_ms=_PATIENCE_S * 1000,
    )
    consumer.assign([kafka.TopicPartition(topic, partition)])
    samples: list[Sample] = []
    for record in consumer:
        samples.append(Sample(record.key, record.value, tuple(record.headers)))
        if len(samples) == count:
            break
    consumer.close()
    return samples


def _plain(writer: Callable[..., None]) -> Writer:
    return lambda *arguments: writer(*arguments, idempotent=False)


WRITERS: Mapping[str, Writer] = {
    "odradek": _write,
    "odradek-async": _write_async,
    "odradek-arrow": _write_arrow,
    "confluent": _write_confluent,
    "confluent-plain": _plain(_write_confluent),
    "aiokafka": _write_aiokafka,
    "aiokafka-plain": _plain(_write_aiokafka),
    "kafka-python": _write_kafka_python,
    "kafka-python-plain": _plain(_write_kafka_python),
}
"""Idempotent, where the name does not say otherwise."""

READERS: Mapping[str, Reader] = {
    "odradek": _read,
    "odradek-async": _read_async,
    "odradek-arrow": _read_arrow,
    "confluent": _read_confluent,
    "aiokafka": _read_aiokafka,
    "kafka-python": _read_kafka_python,
}
