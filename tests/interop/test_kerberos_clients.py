"""Clients that people have log in to Odradek with Kerberos: ours, aiokafka, kafka-python, the tools of Java, the command line, Spark.

librdkafka is not among them: its wheels have no GSSAPI (`builtin.features`), which a test notices should that change.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdkafkaProducer

from interop.kerberos import REALM, Kdc
from interop.peers import jvm_command
from odradek.client import Admin, Consumer, Producer
from odradek.client.failures import AuthenticationFailed
from tests.interop import spark_direct
from tests.interop.kerberos_pair import Kerberized, client_line, kerberized, realm_with_people


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with realm_with_people(tmp_path_factory.mktemp("realm")) as one:
        one.kinit("alice", one.folder / "people.keytab", one.folder / "cache")
        yield one


@pytest.fixture(scope="module")
def broker(realm: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    with kerberized(realm, tmp_path_factory.mktemp("kerberized"), users="User:alice") as one:
        yield one


def ours(broker: Kerberized, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.at(), "security.protocol": "SASL_PLAINTEXT", **more}


def over_tls(broker: Kerberized) -> dict[str, str]:
    """What our clients and those of Java need for the listener with TLS."""
    return {
        "bootstrap.servers": broker.at("GSSTLS"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.certificates.authority),
    }


def with_keytab(realm: Kdc, who: str = "alice") -> dict[str, str]:
    return {"sasl.kerberos.keytab": str(realm.folder / "people.keytab"), "sasl.kerberos.principal": who}


@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_producer_and_consumer_with_a_keytab(broker: Kerberized, realm: Kdc, tls: bool) -> None:
    settings = {**ours(broker, **with_keytab(realm)), **(over_tls(broker) if tls else {})}
    topic = f"ours-{tls}"
    with Producer(settings) as producer:
        producer.send(topic, b"hello").result(20)
    with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in consumer.poll(20_000)] == [b"hello"]


@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_source_of_spark(broker: Kerberized, realm: Kdc, tls: bool) -> None:
    settings = {**ours(broker, **with_keytab(realm)), **(over_tls(broker) if tls else {})}
    topic = f"spark-{tls}"
    with Producer(settings) as producer:
        producer.send(topic, b"hello").result(20)
    options = {f"kafka.{name}": setting for name, setting in settings.items()}
    answer = spark_direct.read({**options, "subscribe": topic})
    assert [base64.b64decode(row[5]) for row in answer["rows"]] == [b"hello"]
    nobody = {**options, "kafka.sasl.kerberos.principal": "nobody"}
    assert "nobody" in spark_direct.read({**nobody, "subscribe": topic})["error"]


def test_the_line_of_java_and_the_cache_of_kinit(broker: Kerberized, realm: Kdc) -> None:
    keytab = realm.folder / "people.keytab"
    for more in (
        {"sasl.jaas.config": client_line(keytab, f"carl/laptop@{REALM}"), "sasl.mechanism": "GSSAPI"},
        {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true serviceName=kafka;"},
        {},
    ):
        with Admin(ours(broker, **more)) as admin:
            owner = admin.create_delegation_token().owner
        assert str(owner) == ("User:carl" if "sasl.mechanism" in more else "User:alice")


def test_a_wrong_keytab_and_an_unknown_service(broker: Kerberized, realm: Kdc) -> None:
    for more, said in (
        (with_keytab(realm, "nobody"), "no ticket for nobody with the keytab "),
        ({**with_keytab(realm), "sasl.kerberos.service.name": "nothing"}, f"Server nothing/localhost@{REALM} not found"),
        ({**with_keytab(realm), "sasl.kerberos.domain.name": "elsewhere"}, f"Server kafka/elsewhere@{REALM} not found"),
        ({**with_keytab(realm), "sasl.kerberos.service.name": "other"}, "Authentication failed during authentication due to invalid"),
    ):
        with pytest.raises(AuthenticationFailed, match=said), Admin(ours(broker, **more)) as admin:
            admin.describe_cluster()


def test_sessions_with_an_end_are_prolonged(broker: Kerberized, realm: Kdc) -> None:
    with Admin({**ours(broker, **with_keytab(realm)), "bootstrap.servers": broker.at("SHORT")}) as admin:
        assert str(admin.create_delegation_token().owner) == "User:alice"


@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_aiokafka(broker: Kerberized, tls: bool) -> None:
    async def main(service: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.at("GSSTLS" if tls else "GSS"),
            security_protocol="SASL_SSL" if tls else "SASL_PLAINTEXT",
            ssl_context=ssl.create_default_context(cafile=str(broker.certificates.authority)) if tls else None,
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name=service,
            sasl_kerberos_domain_name="localhost",
        )
        try:
            await producer.start()
            await producer.send_and_wait("aiokafka", b"hello")
        finally:
            await producer.stop()

    asyncio.run(main("kafka"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_kafka_python(broker: Kerberized, tls: bool) -> None:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(
        bootstrap_servers=broker.at("GSSTLS" if tls else "GSS"),
        security_protocol="SASL_SSL" if tls else "SASL_PLAINTEXT",
        ssl_cafile=str(broker.certificates.authority),
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        bootstrap_timeout_ms=10_000,
    )
    assert client.describe_cluster()["cluster_id"]
    client.close()


def test_librdkafka_as_it_is_built_has_no_gssapi(broker: Kerberized) -> None:
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        RdkafkaProducer({"bootstrap.servers": broker.at(), "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})


def test_the_command_line(broker: Kerberized, realm: Kdc, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    for who, code in (("alice", 0), ("nobody", 1)):
        line = client_line(realm.folder / "people.keytab", f"{who}@{REALM}")
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\nsasl.jaas.config={line}\n"
        )
        words = ["topics", "list", "--bootstrap-server", broker.at(), "--command-config", str(file)]
        done = subprocess.run([sys.executable, "-m", "odradek.cli.main", *words], capture_output=True, check=False)
        assert done.returncode == code, done.stderr.decode()
    assert b"no ticket for nobody@ODRADEK.TEST with the keytab" in done.stderr


@pytest.mark.jvm
@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_the_tools_of_java(broker: Kerberized, realm: Kdc, tmp_path: Path, tls: bool) -> None:
    def run(main: str, *words: str, who: str = "alice", stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        file = tmp_path / "client.properties"
        settings = {
            **(over_tls(broker) if tls else ours(broker)),
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": client_line(realm.folder / "people.keytab", f"{who}@{REALM}"),
        }
        at = settings.pop("bootstrap.servers")
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options = (f"-Djava.security.krb5.conf={realm.config}",)
        command = jvm_command(main, "--bootstrap-server", at, "--command-config", str(file), *words, options=options)
        return subprocess.run(command, capture_output=True, check=False, timeout=90, input=stdin)

    topic = f"java-{tls}"
    done = run("org.apache.kafka.tools.ConsoleProducer", "--topic", topic, stdin=b"hello\n")
    assert done.returncode == 0, done.stderr.decode()
    done = run("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "1")
    assert done.stdout == b"hello\n", done.stderr.decode()
    refused = run("org.apache.kafka.tools.TopicCommand", "--list", who="nobody")
    assert refused.returncode != 0
