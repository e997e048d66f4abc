"""Who logs in how, and what the others are told: clients that nobody changed, each mechanism, with and without TLS, or by certificate.

What test_sasl_clients.py (SASL without TLS) and test_tls_listeners.py (certificates alone) show already is not shown again.
"""

from __future__ import annotations

import base64
import gc
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from pyspark.sql import SparkSession

from interop.peers import run_jvm_tool
from interop.tools import JvmTools
from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import Admin, NewTopic, Producer
from odradek.security.sasl.scram_client import ScramClient
from odradek.spark.environment import use_this_python
from tests.client.token_servers import Server
from tests.interop import spark_direct
from tests.interop.login_broker import DELAY_MS, MECHANISMS, PROTOCOLS, LoginBroker, login_broker
from tests.interop.sasl_pair import SCRAM_PASSWORD, USER, signed_token
from tests.interop.sasl_support import Wire, bearer, other_nonce, other_proof
from tests.interop.tls_clients import CLIENTS, TOPIC, Told, jvm_properties, jvm_topics, our_settings

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""The clients' own warnings, not ours."""


@pytest.fixture(autouse=True)
def _sockets_left_open() -> Iterator[None]:
    """Clients that were refused leave sockets to the garbage collector, which complains here and not at the end of all tests."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with login_broker(tmp_path_factory.mktemp("logins")) as started:
        yield started


ROUND_TRIPS = [
    *((client, "SASL_SSL", mechanism) for client in CLIENTS for mechanism in MECHANISMS),
    *(("ours", "SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS),
    ("kafka-python", "SASL_PLAINTEXT", "OAUTHBEARER"),
    ("confluent", "SASL_PLAINTEXT", "OAUTHBEARER"),
    *((client, "SSL", "") for client in CLIENTS),
]


@pytest.mark.parametrize(("client", "protocol", "mechanism"), ROUND_TRIPS)
def test_a_record_of_who_logged_in_goes_there_and_back(broker: LoginBroker, client: str, protocol: str, mechanism: str) -> None:
    value = f"{client} {protocol} {mechanism}".encode()
    assert CLIENTS[client](broker.told(protocol, mechanism), value) == value


def refusals(broker: LoginBroker) -> dict[str, Told]:
    good = broker.told("SASL_SSL", "SCRAM-SHA-512")
    return {
        "wrong password": broker.told("SASL_SSL", "SCRAM-SHA-256", secret="wrong"),
        "unknown user": broker.told("SASL_SSL", "SCRAM-SHA-512", "nobody"),
        "wrong password, PLAIN": broker.told("SASL_SSL", "PLAIN", secret="wrong"),
        "expired token": broker.told("SASL_SSL", "OAUTHBEARER", secret=signed_token(exp=int(time.time()) - 60)),
        "unknown authority": good._replace(authority=broker.certificates.stranger),
        "another host": good._replace(bootstrap=good.bootstrap.replace("localhost", "127.0.0.1")),
    }


LOGIN = r"invalid credentials|AuthenticationFailed|Authentication failed|invalid_token"
NO_TRUST = r"(?i)certificate verify failed|is not accepted|broker certificate could not be verified|CERTIFICATE_VERIFY_FAILED"
SAID = {
    "wrong password": LOGIN,
    "unknown user": LOGIN,
    "wrong password, PLAIN": LOGIN,
    "expired token": LOGIN,
    "unknown authority": NO_TRUST,
    "another host": NO_TRUST,
}


UNASKED = {
    ("aiokafka", "expired token"),
    *(("kafka-python", why) for why in ("wrong password, PLAIN", "unknown user", "unknown authority")),
}
"""aiokafka takes the broker's challenge for its consent (RFC 7628 has it confirmed), and asks on and on for what it is not told;
kafka-python takes seconds for each refusal.
"""
SAID_BY = {("kafka-python", why): f"{LOGIN}|socket disconnected" for why in SAID if SAID[why] == LOGIN}
"""It loses the answer when the end of the connection comes with it, as often with a JVM broker."""


@pytest.mark.parametrize(("client", "why"), [(client, why) for client in CLIENTS for why in SAID if (client, why) not in UNASKED])
def test_who_is_refused_is_told_why(broker: LoginBroker, client: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(Exception) as refused:  # noqa: PT011  (each client has its own)
        CLIENTS[client](refusals(broker)[why]._replace(patience_s=2), b"never")
    told = f"{refused.value!r} {refused.value} {caplog.text}"
    assert re.search(SAID_BY.get((client, why), SAID[why]), told), told


def test_nobody_else_may_do_anything(broker: LoginBroker) -> None:
    """So that the round trips show who the broker takes somebody for."""
    other = broker.told("SSL")._replace(key=broker.certificates.broker)
    for settings in (our_settings(other), {"bootstrap.servers": broker.bootstrap}):
        with Admin(settings) as admin, pytest.raises(KafkaError) as refused:
            admin.create_topics([NewTopic("mine", 1)])
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- bytes --------------------------------------------------------------------------------------------------------------------------------


def plain(wire: Wire, text: str) -> None:
    wire.handshake("PLAIN")
    wire.authenticate(text.encode())


def scram(wire: Wire, name: str, password: str, change: Callable[[bytes], bytes] = bytes) -> None:
    wire.handshake("SCRAM-SHA-512")
    client = ScramClient("SCRAM-SHA-512", name, password, "nonce-of-the-client")
    challenge = wire.authenticate(client.first())
    if challenge:
        final = client.answer(challenge)
        assert final is not None
        wire.authenticate(change(final))


def token(wire: Wire, **changed: object) -> None:
    wire.handshake("OAUTHBEARER")
    wire.authenticate(bearer(signed_token(**changed).encode()))
    wire.authenticate(b"\x01")


EXCHANGES: dict[str, Callable[[Wire], None]] = {
    "wrong password, PLAIN": lambda wire: plain(wire, "\0alice\0wrong"),
    "unknown user, PLAIN": lambda wire: plain(wire, "\0nobody\0wrong"),
    "wrong password": lambda wire: scram(wire, USER, "wrong"),
    "unknown user": lambda wire: scram(wire, "nobody", SCRAM_PASSWORD),
    "a different nonce": lambda wire: scram(wire, USER, SCRAM_PASSWORD, other_nonce),
    "another proof": lambda wire: scram(wire, USER, SCRAM_PASSWORD, other_proof),
    "expired token": lambda wire: token(wire, exp=int(time.time()) - 60),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("why", EXCHANGES)
def test_a_refusal_comes_after_the_delay_and_is_the_last_word(broker: LoginBroker, why: str, protocol: str) -> None:
    """Kafka's error, not before connection.failed.authentication.delay.ms, and nothing else in the meantime."""
    port = broker.ports[PROTOCOLS[protocol]]
    wire = Wire(port, broker.certificates.authority if protocol == "SASL_SSL" else None)
    try:
        begin = time.monotonic()
        EXCHANGES[why](wire)
        assert time.monotonic() - begin >= DELAY_MS / 1000
        code, message, answer, _ = wire.noted[-1]  # type: ignore[misc]
        assert (code, answer) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
        assert re.search(LOGIN, str(message)), message
        wire.closed()
        assert wire.noted[-1] == "closed"
    finally:
        wire.close()


# -- scripts of Kafka ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if each != "OAUTHBEARER"])
def test_scripts_of_kafka_log_in_over_tls(broker: LoginBroker, jvm_tools: JvmTools, mechanism: str, tmp_path: Path) -> None:
    status, said = jvm_topics(jvm_tools, broker.told("SASL_SSL", mechanism), tmp_path)
    assert (status, TOPIC in said) == (0, True), said
    status, said = jvm_topics(jvm_tools, broker.told("SASL_SSL", mechanism, "nobody"), tmp_path)
    assert (status, "SaslAuthenticationException" in said) == (1, True), said


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scripts_of_kafka_log_in_with_a_signed_token(
    broker: LoginBroker, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed}.urls=file://{tmp_path}/token {allowed}.files={tmp_path}/token")
    file = jvm_properties(broker.told(protocol, "OAUTHBEARER"), tmp_path)
    at = ("--bootstrap-server", broker.address[PROTOCOLS[protocol]], "--command-config", str(file))
    done = run_jvm_tool("org.apache.kafka.tools.TopicCommand", *at, "--list")
    assert (done.returncode, TOPIC in done.stdout.decode()) == (0, True), done.stderr.decode()


def test_an_authorization_server_is_asked_as_by_java(broker: LoginBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Client credentials (KIP-768): the same request, and with the token that it brings both log in. Java encodes the scope only where name
    and secret are; a form has to be encoded in any case (RFC 6749 appendix B).
    """
    server = Server()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.url()}")
    told = broker.told("SASL_SSL", "OAUTHBEARER")
    try:
        server.answers = [(200, json.dumps({"access_token": told.secret, "expires_in": 300}).encode())]
        how: dict[str, Any] = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": server.url(),
            "sasl.oauthbearer.client.credentials.client.id": "a client",
            "sasl.oauthbearer.client.credentials.client.secret": "a/secret+of:it",
            "sasl.oauthbearer.scope": "read write",
        }
        for encoded in ("false", "true"):
            server.asked.clear()
            how["sasl.oauthbearer.header.urlencode"] = encoded
            file = jvm_properties(told, tmp_path)
            lines = [line for line in file.read_text().splitlines() if not line.startswith(("sasl.mechanism", "sasl.oauthbearer"))]
            file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in how.items())]))
            at = ("--bootstrap-server", broker.address["CLOSED"], "--command-config", str(file))
            done = run_jvm_tool("org.apache.kafka.tools.TopicCommand", *at, "--list")
            assert (done.returncode, TOPIC in done.stdout.decode()) == (0, True), done.stderr.decode()
            with Admin({**our_settings(told), **how}) as admin:
                assert TOPIC in {topic.name for topic in admin.list_topics()}
            of_java, ours = server.asked
            for part in ("Authorization", "Accept", "Cache-Control", "Content-Type"):
                assert ours[2].get(part) == of_java[2].get(part), part
            assert ours[:2] == of_java[:2]
            assert parse_qs(ours[3]) == parse_qs(of_java[3])
            assert b"scope=read+write" in ours[3]
            assert (b"scope=read write" in of_java[3]) == (encoded == "false")
    finally:
        server.close()


def test_scripts_of_kafka_keep_to_the_right_authority_and_host(broker: LoginBroker, jvm_tools: JvmTools, tmp_path: Path) -> None:
    for why in ("unknown authority", "another host"):
        status, said = jvm_topics(jvm_tools, refusals(broker)[why], tmp_path)
        assert (status, "SslAuthenticationException" in said or "SSL handshake failed" in said) == (1, True), said


def test_scripts_of_kafka_administer_over_tls(broker: LoginBroker, jvm_tools: JvmTools, tmp_path: Path) -> None:
    """Each that has to do with security, once: rules, passwords, quotas, tokens, metrics of clients."""
    file = jvm_properties(broker.told("SASL_SSL", "SCRAM-SHA-512"), tmp_path)

    def kafka(main_class: str, words: str) -> str:
        done = jvm_tools.run(main_class, "--bootstrap-server", broker.address["CLOSED"], "--command-config", str(file), *words.split())
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, said
        return said

    def seen(main_class: str, words: str, what: str) -> str:
        """What it says as soon as the broker has read the change in the metadata."""
        deadline = time.monotonic() + 20
        while what not in (said := kafka(main_class, words)):
            assert time.monotonic() < deadline, said
        return said

    acls, configs = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"
    tokens, metrics = "org.apache.kafka.tools.DelegationTokenCommand", "org.apache.kafka.tools.ClientMetricsCommand"
    kafka(acls, "--add --allow-principal User:carol --producer --topic t")
    assert "principal=User:carol" in seen(acls, "--list --topic t", "operation=WRITE")
    kafka(configs, "--alter --entity-type users --entity-name carol --add-config SCRAM-SHA-512=[password=carol-secret]")
    kafka(configs, "--alter --entity-type users --entity-name carol --add-config producer_byte_rate=1000000")
    seen(configs, "--describe --entity-type users --entity-name carol", "producer_byte_rate=1000000")
    seen(configs, "--describe --entity-type users --entity-name carol", "SCRAM-SHA-512=iterations=")
    made = kafka(tokens, "--create --max-life-time-period 3600000 --renewer-principal User:carol")
    hmac = next(word for word in made.split() if word.endswith("=="))
    seen(tokens, "--describe --owner-principal User:alice", hmac)
    kafka(tokens, f"--expire --expiry-time-period -1 --hmac {hmac}")
    kafka(metrics, "--alter --name all --interval 60000 --metrics org.apache.kafka.")
    seen(metrics, "--describe --name all", "interval.ms=60000")
    carol = broker.told("SASL_SSL", "SCRAM-SHA-512", "carol", "carol-secret")
    with Producer(our_settings(carol)) as producer:
        assert producer.send(TOPIC, b"of carol").result(20).offset >= 0
    with Admin(our_settings(carol)) as admin, pytest.raises(KafkaError, match="AUTHORIZATION_FAILED"):
        admin.delete_topics([TOPIC])


# -- Spark --------------------------------------------------------------------------------------------------------------------------------

OF_SPARK = [("SSL", ""), *((protocol, mechanism) for protocol in PROTOCOLS for mechanism in MECHANISMS)]


def spark_options(told: Told, folder: Path, **others: str) -> dict[str, str]:
    """A table of options has no room for a callable that gives tokens: they stand in a file."""
    settings = our_settings(told)
    if told.mechanism == "OAUTHBEARER":
        (folder / "token").write_text(told.secret)
        settings |= {"sasl.mechanism": told.mechanism, "sasl.oauthbearer.token.endpoint.url": (folder / "token").as_uri()}
    return {**{f"kafka.{name}": setting for name, setting in settings.items()}, **others}


@pytest.mark.parametrize(("protocol", "mechanism"), OF_SPARK)
def test_the_source_of_spark_logs_in(broker: LoginBroker, protocol: str, mechanism: str, tmp_path: Path) -> None:
    told = broker.told(protocol, mechanism)
    value = f"spark {protocol} {mechanism}".encode()
    assert CLIENTS["ours"](told, value) == value
    answer = spark_direct.read(spark_options(told, tmp_path, subscribe=TOPIC))
    assert base64.b64encode(value).decode() in [row[5] for row in answer["rows"]]


@pytest.mark.parametrize("why", SAID)
def test_the_source_of_spark_is_refused(broker: LoginBroker, why: str, tmp_path: Path) -> None:
    said = spark_direct.read(spark_options(refusals(broker)[why], tmp_path, subscribe=TOPIC))["error"]
    assert re.search("has already expired" if why == "expired token" else SAID[why], said)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    use_this_python()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_spark_writes_and_reads_with_a_login(broker: LoginBroker, spark: SparkSession, mechanism: str, tmp_path: Path) -> None:
    """In Spark itself: the driver and its Python workers log in."""
    told = broker.told("SASL_SSL", mechanism)
    value = f"of spark by {mechanism}"
    words = spark.sql(f"SELECT '{value}' value")
    words.write.format("odradek").options(**spark_options(told, tmp_path, topic=TOPIC)).mode("append").save()
    options = spark_options(told, tmp_path, subscribe=TOPIC)
    rows = spark.read.format("odradek").options(**options).load().selectExpr("cast(value as string)").collect()
    assert value in [row.value for row in rows]
