"""Unmodified Python clients produce and consume: every codec, keys and values null, empty and large, headers, idempotence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.peers import BrokerProcess
from tests.interop.matrix import CODECS, SAMPLES, Sample, codecs_on_disk

MAX_BYTES = 8_000_000

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
"""The clients' own, not ours."""


def assert_codec(folder: Path, codec: str) -> None:
    """The batches on disk are in the codec asked for; clients send those uncompressed that compressing did not make smaller."""
    found = codecs_on_disk(folder)
    assert CODECS[codec] in found
    assert found <= {CODECS[codec], CODECS["none"]}


def consume_with_confluent(bootstrap: str, topic: str, count: int) -> list[Sample]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "interop", "enable.auto.commit": False, "fetch.message.max.bytes": MAX_BYTES}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    samples = []
    while len(samples) < count:
        message = consumer.poll(20)
        assert message is not None, f"only {len(samples)} of {count} records came"
        assert message.error() is None, message.error()
        assert message.offset() == len(samples)
        headers = tuple((name, bytes(value)) for name, value in message.headers() or ())  # type: ignore[arg-type]
        samples.append(Sample(message.key(), message.value(), headers))  # type: ignore[arg-type]
    consumer.close()
    return samples


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka(
    broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], codec: str, idempotent: bool
) -> None:
    topic = new_topic(f"confluent-{codec}", max_message_bytes=str(MAX_BYTES))
    settings = {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "message.max.bytes": MAX_BYTES, "linger.ms": 5}
    producer = Producer({**settings, "enable.idempotence": idempotent})
    errors: list[object] = []
    for sample in SAMPLES:
        producer.produce(
            topic,
            sample.value,
            sample.key,
            partition=0,
            headers=list(sample.headers),
            on_delivery=lambda error, _: error and errors.append(error),
        )
    assert producer.flush(30) == 0
    assert errors == []
    assert consume_with_confluent(broker.bootstrap, topic, len(SAMPLES)) == list(SAMPLES)
    assert_codec(partition_folder(topic), codec)


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka(
    broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], codec: str, idempotent: bool
) -> None:
    import aiokafka

    topic = new_topic(f"aiokafka-{codec}", max_message_bytes=str(MAX_BYTES))

    async def scenario() -> list[Sample]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=MAX_BYTES,
        )
        await producer.start()
        try:
            for sample in SAMPLES:
                await producer.send_and_wait(topic, sample.value, sample.key, partition=0, headers=list(sample.headers))
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", max_partition_fetch_bytes=MAX_BYTES
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            samples = []
            for _ in SAMPLES:
                record = await asyncio.wait_for(consumer.getone(), 20)
                samples.append(Sample(record.key, record.value, tuple(record.headers)))
            return samples
        finally:
            await consumer.stop()

    assert asyncio.run(scenario()) == list(SAMPLES)
    assert codecs_on_disk(partition_folder(topic)) == {CODECS[codec]}


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python(
    broker: BrokerProcess, new_topic: Callable[..., str], partition_folder: Callable[[str], Path], codec: str, idempotent: bool
) -> None:
    import kafka

    topic = new_topic(f"kafka-python-{codec}", max_message_bytes=str(MAX_BYTES))
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        max_request_size=MAX_BYTES,
    )
    futures = [producer.send(topic, sample.value, sample.key, list(sample.headers), partition=0) for sample in SAMPLES]
    producer.flush(30)
    assert [future.get(30).offset for future in futures] == list(range(len(SAMPLES)))
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=MAX_BYTES,
        consumer_timeout_ms=20_000,
    )
    consumer.assign([kafka.TopicPartition(topic, 0)])
    samples = []
    for record in consumer:
        samples.append(Sample(record.key, record.value, tuple(record.headers)))
        if len(samples) == len(SAMPLES):
            break
    consumer.close()
    assert samples == list(SAMPLES)
    assert_codec(partition_folder(topic), codec)
