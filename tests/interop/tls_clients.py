"""Clients that nobody changed, over TLS: what each is told of certificates, a round trip, and what becomes of a refusal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition

from interop.tools import JvmTools
from odradek.client import Consumer, Producer
from odradek.client import TopicPartition as OurPartition

TOPIC = "t"
SHORT_S = 8


class Told(NamedTuple):
    """Where a client goes, and with what."""

    bootstrap: str
    authority: Path
    key: Path | None = None
    """PEM of key and certificate."""


def confluent(told: Told, value: bytes) -> bytes:
    """The value that came back. Any exception, also TimeoutError, is a refusal."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": told.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(told.authority),
    }
    if told.key is not None:
        settings |= {"ssl.certificate.location": str(told.key), "ssl.key.location": str(told.key)}
    producer = ConfluentProducer({**settings, "message.timeout.ms": SHORT_S * 1000, "log_level": 0})
    sent: list[tuple[object, int]] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, message: sent.append((error, message.offset() or 0)))
    producer.flush(SHORT_S * 2)
    if not sent or sent[0][0] is not None:
        raise TimeoutError(str(sent))
    consumer = ConfluentConsumer({**settings, "group.id": "none"})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(TOPIC, 0, sent[0][1])])
        return bytes(consumer.consume(1, 20)[0].value() or b"")


def aio(told: Told, value: bytes) -> bytes:
    """As `confluent`."""
    key = str(told.key) if told.key is not None else None
    context = create_ssl_context(cafile=str(told.authority), certfile=key, keyfile=key)

    async def there_and_back() -> bytes:
        settings = {"bootstrap_servers": told.bootstrap, "security_protocol": "SSL", "ssl_context": context}
        async with AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait(TOPIC, value, partition=0)
        async with AIOKafkaConsumer(**settings) as consumer:
            consumer.assign([AioPartition(TOPIC, 0)])
            consumer.seek(AioPartition(TOPIC, 0), sent.offset)
            record = await consumer.getone()
        return bytes(record.value or b"")

    return asyncio.run(asyncio.wait_for(there_and_back(), 30))


def kafka_python(told: Told, value: bytes) -> bytes:
    """As `confluent`."""
    import kafka  # warns of itself when it is imported

    key = str(told.key) if told.key is not None else None
    settings = {
        "bootstrap_servers": told.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(told.authority),
        "ssl_certfile": key,
        "ssl_keyfile": key,
        "bootstrap_timeout_ms": SHORT_S * 1000,
    }
    producer = kafka.KafkaProducer(**settings, max_block_ms=SHORT_S * 1000)
    try:
        sent = producer.send(TOPIC, value, partition=0).get(SHORT_S)
    finally:
        producer.close(1)
    consumer = kafka.KafkaConsumer(**settings)
    try:
        consumer.assign([kafka.TopicPartition(TOPIC, 0)])
        consumer.seek(kafka.TopicPartition(TOPIC, 0), sent.offset)
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def ours(told: Told, value: bytes) -> bytes:
    """As `confluent`."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": told.bootstrap,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(told.authority),
    }
    if told.key is not None:
        settings["ssl.keystore.location"] = str(told.key)
    with Producer({**settings, "max.block.ms": SHORT_S * 1000}) as producer:
        offset = producer.send(TOPIC, value, partition=0).result(SHORT_S).offset
    with Consumer(settings) as consumer:
        consumer.assign([OurPartition(TOPIC, 0)])
        consumer.seek(OurPartition(TOPIC, 0), offset)
        while not (records := consumer.poll(SHORT_S)):
            pass
        return bytes(records[0].value or b"")


CLIENTS: dict[str, Callable[[Told, bytes], bytes]] = {
    "confluent": confluent,
    "aiokafka": aio,
    "kafka-python": kafka_python,
    "ours": ours,
}


def jvm_topics(tools: JvmTools, told: Told, folder: Path) -> tuple[int, str]:
    """kafka-topics --list: its exit status, and all it said."""
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={told.authority}"]
    lines += ["request.timeout.ms=8000", "default.api.timeout.ms=8000"]
    if told.key is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={told.key}"]
    properties = folder / "client.properties"
    properties.write_text("\n".join(lines))
    arguments = ("--bootstrap-server", told.bootstrap, "--command-config", str(properties), "--list")
    done = tools.run("org.apache.kafka.tools.TopicCommand", *arguments)
    return done.returncode, (done.stdout + done.stderr).decode()
