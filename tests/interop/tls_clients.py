"""Clients that nobody changed, with certificates and logins: what each is told of them, a round trip, and what becomes of a refusal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError as ConfluentError
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
    authority: Path | None
    """None: without TLS."""
    key: Path | None = None
    """PEM of key and certificate."""
    mechanism: str = ""
    """Empty: without SASL."""
    user: str = ""
    secret: str = ""
    """The password, or the token of OAUTHBEARER."""
    patience_s: float = 30
    """How long kafka-python tries to reach a broker, also one that has refused it."""

    @property
    def protocol(self) -> str:
        return {(True, True): "SASL_SSL", (True, False): "SASL_PLAINTEXT", (False, True): "SSL"}[
            self.mechanism != "", self.authority is not None
        ]


def confluent(told: Told, value: bytes) -> bytes:
    """The value that came back. Any exception, also TimeoutError, is a refusal."""
    settings: dict[str, Any] = {"bootstrap.servers": told.bootstrap, "security.protocol": told.protocol}
    if told.authority is not None:
        settings["ssl.ca.location"] = str(told.authority)
    if told.key is not None:
        settings |= {"ssl.certificate.location": str(told.key), "ssl.key.location": str(told.key)}
    if told.mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanism": told.mechanism, "oauth_cb": lambda _: (told.secret, time.time() + 3600)}
    elif told.mechanism:
        settings |= {"sasl.mechanism": told.mechanism, "sasl.username": told.user, "sasl.password": told.secret}
    final: list[str] = []

    def failed(error: ConfluentError) -> None:
        if error.code() in (ConfluentError._AUTHENTICATION, ConfluentError._SSL):
            final.append(error.str())

    producer = ConfluentProducer({**settings, "message.timeout.ms": SHORT_S * 1000, "log_level": 0, "error_cb": failed})
    sent: list[tuple[object, int]] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, message: sent.append((error, message.offset() or 0)))
    while not sent and not final:
        producer.poll(0.1)
    if not sent or sent[0][0] is not None:
        raise TimeoutError(str([*final, *sent]))
    consumer = ConfluentConsumer({**settings, "group.id": "none"})
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(TOPIC, 0, sent[0][1])])
        return bytes(consumer.consume(1, 20)[0].value() or b"")


class AioTokens(AbstractTokenProvider):
    """One token."""

    def __init__(self, given: str) -> None:
        self._given = given

    async def token(self) -> str:
        return self._given


def aio(told: Told, value: bytes) -> bytes:
    """As `confluent`."""
    key = str(told.key) if told.key is not None else None
    context = create_ssl_context(cafile=str(told.authority), certfile=key, keyfile=key) if told.authority is not None else None

    async def there_and_back() -> bytes:
        settings: dict[str, Any] = {"bootstrap_servers": told.bootstrap, "security_protocol": told.protocol, "ssl_context": context}
        if told.mechanism == "OAUTHBEARER":
            settings |= {"sasl_mechanism": told.mechanism, "sasl_oauth_token_provider": AioTokens(told.secret)}
        elif told.mechanism:
            settings |= {"sasl_mechanism": told.mechanism, "sasl_plain_username": told.user, "sasl_plain_password": told.secret}
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
    settings: dict[str, Any] = {"bootstrap_servers": told.bootstrap, "security_protocol": told.protocol}
    settings["bootstrap_timeout_ms"] = int(told.patience_s * 1000)
    if told.authority is not None:
        settings |= {"ssl_cafile": str(told.authority), "ssl_certfile": key, "ssl_keyfile": key}
    if told.mechanism == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider as Tokens

        provider = type("OneToken", (Tokens,), {"token": lambda _: told.secret})
        settings |= {"sasl_mechanism": told.mechanism, "sasl_oauth_token_provider": provider()}
    elif told.mechanism:
        settings |= {"sasl_mechanism": told.mechanism, "sasl_plain_username": told.user, "sasl_plain_password": told.secret}
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


def our_settings(told: Told) -> dict[str, Any]:
    """Those of our clients, and with `kafka.` before them of Spark; without the token."""
    settings: dict[str, Any] = {"bootstrap.servers": told.bootstrap, "security.protocol": told.protocol}
    if told.authority is not None:
        settings["ssl.truststore.location"] = str(told.authority)
    if told.key is not None:
        settings["ssl.keystore.location"] = str(told.key)
    if told.mechanism not in ("", "OAUTHBEARER"):
        settings |= {"sasl.mechanism": told.mechanism, "sasl.username": told.user, "sasl.password": told.secret}
    return settings


def ours(told: Told, value: bytes) -> bytes:
    """As `confluent`."""
    settings = our_settings(told)
    if told.mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanism": told.mechanism, "sasl.oauthbearer.token.provider": lambda: told.secret}
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


JAVA = "org.apache.kafka.common.security"
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}


def jvm_properties(told: Told, folder: Path) -> Path:
    """The --command-config of a script of Kafka's; the token of OAUTHBEARER stands in a file beside it, `token`."""
    lines = [f"security.protocol={told.protocol}", "request.timeout.ms=8000", "default.api.timeout.ms=8000"]
    if told.authority is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={told.authority}"]
    if told.key is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={told.key}"]
    if told.mechanism == "OAUTHBEARER":
        (folder / "token").write_text(told.secret)
        lines += [
            f"sasl.mechanism={told.mechanism}",
            f"sasl.jaas.config={JAVA}.oauthbearer.OAuthBearerLoginModule required;",
            f"sasl.login.callback.handler.class={JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url=file://{folder / 'token'}",
        ]
    elif told.mechanism:
        line = f'{JAVA}.{_MODULES[told.mechanism]} required username="{told.user}" password="{told.secret}";'
        lines += [f"sasl.mechanism={told.mechanism}", f"sasl.jaas.config={line}"]
    properties = folder / "client.properties"
    properties.write_text("\n".join(lines))
    return properties


def jvm_topics(tools: JvmTools, told: Told, folder: Path) -> tuple[int, str]:
    """kafka-topics --list: its exit status, and all it said."""
    arguments = ("--bootstrap-server", told.bootstrap, "--command-config", str(jvm_properties(told, folder)), "--list")
    done = tools.run("org.apache.kafka.tools.TopicCommand", *arguments)
    return done.returncode, (done.stdout + done.stderr).decode()
