"""Unmodified clients log in to Odradek as they do to JVM Kafka, and are refused alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from interop.peers import run_jvm_tool
from tests.interop.sasl_pair import JAVA, PASSWORD, SCRAM_PASSWORD, USER, SaslBroker, both_with_sasl, signed_token

MECHANISMS = {"PLAIN": PASSWORD, "SCRAM-SHA-256": SCRAM_PASSWORD, "SCRAM-SHA-512": SCRAM_PASSWORD}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with both_with_sasl(tmp_path_factory.mktemp("sasl"), jvm=False) as (one,):
        yield one


def at(broker: SaslBroker, listener: str = "SASL") -> str:
    return f"127.0.0.1:{broker.port[listener]}"


def librdkafka(broker: SaslBroker, mechanism: str, password: str, listener: str = "SASL", **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": at(broker, listener),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        **more,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(broker: SaslBroker, mechanism: str) -> None:
    settings = librdkafka(broker, mechanism, MECHANISMS[mechanism])
    topic = f"rdkafka-{mechanism}"
    producer = Producer(settings)
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = None
    deadline = time.monotonic() + 30
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password(broker: SaslBroker, mechanism: str) -> None:
    errors: list[KafkaError] = []
    client = AdminClient(librdkafka(broker, mechanism, "wrong", error_cb=errors.append))
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        client.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.parametrize(("listener", "make"), [("SIGNED", signed_token)])
def test_librdkafka_with_a_bearer_token(broker: SaslBroker, listener: str, make: Any) -> None:
    settings = librdkafka(broker, "OAUTHBEARER", "", listener)
    del settings["sasl.username"], settings["sasl.password"]
    client = AdminClient({**settings, "oauth_cb": lambda _: (make(), time.time() + 3600)})
    client.poll(0)
    assert client.list_topics(timeout=20).brokers


def test_librdkafka_sets_a_credential_and_uses_it(broker: SaslBroker) -> None:
    admin = AdminClient(librdkafka(broker, "PLAIN", PASSWORD))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", info, b"carol-secret")]).values():
        future.result(20)
    settings = librdkafka(broker, "SCRAM-SHA-512", "carol-secret") | {"sasl.username": "carol"}
    assert AdminClient(settings).list_topics(timeout=20).brokers


class Provider(AbstractTokenProvider):
    async def token(self) -> str:
        return signed_token()


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
def test_aiokafka(broker: SaslBroker, mechanism: str) -> None:
    async def main(password: str) -> None:
        bearer = mechanism == "OAUTHBEARER"
        producer = AIOKafkaProducer(
            bootstrap_servers=at(broker, "SIGNED" if bearer else "SASL"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=None if bearer else USER,
            sasl_plain_password=None if bearer else password,
            sasl_oauth_token_provider=Provider() if bearer else None,
        )
        try:
            await producer.start()
            await producer.send_and_wait(f"aiokafka-{mechanism}", b"hello")
        finally:
            await producer.stop()

    asyncio.run(main(MECHANISMS.get(mechanism, "")))
    if mechanism != "OAUTHBEARER":
        with pytest.raises(AioKafkaError):
            asyncio.run(main("wrong"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: SaslBroker, mechanism: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError as PythonKafkaError

    def admin(password: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=at(broker),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
            bootstrap_timeout_ms=10_000,
        )

    client = admin(MECHANISMS[mechanism])
    assert client.describe_cluster()["cluster_id"]
    client.close()
    with pytest.raises(PythonKafkaError):
        admin("wrong")


LINES = {
    "PLAIN": f'{JAVA}.plain.PlainLoginModule required username="{USER}" password="{{password}}";',
    "SCRAM-SHA-256": f'{JAVA}.scram.ScramLoginModule required username="{USER}" password="{{password}}";',
    "SCRAM-SHA-512": f'{JAVA}.scram.ScramLoginModule required username="{USER}" password="{{password}}";',
    "OAUTHBEARER": f'{JAVA}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
}


@pytest.mark.jvm
@pytest.mark.parametrize("mechanism", LINES)
def test_the_tools_of_java(broker: SaslBroker, mechanism: str, tmp_path: Path) -> None:
    def run(password: str) -> Any:
        file = tmp_path / "client.properties"
        line = LINES[mechanism].format(password=password)
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={line}\n")
        arguments = ("--bootstrap-server", at(broker), "--command-config", str(file), "--list")
        return run_jvm_tool("org.apache.kafka.tools.TopicCommand", *arguments)

    done = run(MECHANISMS.get(mechanism, ""))
    assert done.returncode == 0, done.stderr.decode()
    if mechanism != "OAUTHBEARER":
        refused = run("wrong")
        assert refused.returncode != 0
        assert b"SaslAuthenticationException" in refused.stdout + refused.stderr
