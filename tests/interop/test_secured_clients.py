"""Odradek's clients against a JVM broker that asks who they are: TLS, certificates, every mechanism of SASL, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import Admin, AsyncAdmin, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.settings.config import Setting
from tests.client.certificates import KEY_PASSWORD
from tests.interop.secured import PASSWORD, SCRAM_PASSWORD, SESSION_MS, UNSECURED, USER, SecuredBroker, plain_line, secured

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured(tmp_path_factory.mktemp("secured")) as started:
        with Admin(bootstrap_servers=started.address["PLAINTEXT"]) as admin:
            admin.create_topics([NewTopic("t", 1)])
        yield started


def token(**claims: object) -> str:
    parts = [{"alg": "none"}, {"sub": USER, "iat": time.time(), "exp": time.time() + 600, **claims}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


async def coroutine_token() -> str:
    return token()


def tls(broker: SecuredBroker, **settings: Setting) -> dict[str, Setting]:
    return {"bootstrap.servers": broker.address["TLS"], "security.protocol": "SSL"} | {
        "ssl.truststore.location": str(broker.certificates.authority),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def sasl(broker: SecuredBroker, listener: str = "SASL", mechanism: str = "PLAIN", **settings: Setting) -> dict[str, Setting]:
    protocol = "SASL_SSL" if listener == "SASLTLS" else "SASL_PLAINTEXT"
    trust = {"ssl.truststore.location": str(broker.certificates.authority)} if listener == "SASLTLS" else {}
    common = {"bootstrap.servers": broker.address[listener], "security.protocol": protocol, "sasl.mechanism": mechanism}
    return {**common, **trust, **{name.replace("_", "."): value for name, value in settings.items()}}


def round_trip(settings: dict[str, Setting]) -> None:
    """A large and a small record there and back."""
    values = [b"x" * 700_000, b"small"]
    with Producer(settings) as producer:
        offsets = [producer.send("t", value).result(30).offset for value in values]
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), offsets[0])
        got: list[bytes | None] = []
        while len(got) < 2:
            got += [record.value for record in consumer.poll(10)]
    assert got == values


def refusal(settings: dict[str, Setting]) -> KafkaError:
    begin = time.monotonic()
    with pytest.raises(KafkaError) as raised, Admin(settings) as admin:
        admin.list_topics()
    assert time.monotonic() - begin < 10, "it is final, and not tried again"
    assert "\n" not in str(raised.value)
    for secret in (PASSWORD, SCRAM_PASSWORD, "wrong-secret"):
        assert secret not in str(raised.value)
    return raised.value


def test_tls(broker: SecuredBroker) -> None:
    round_trip(tls(broker))


def test_tls_with_certificates_in_the_configuration(broker: SecuredBroker) -> None:
    text = broker.certificates.authority.read_text().replace("\n", " ")
    settings = tls(broker, ssl_truststore_certificates=text)
    del settings["ssl.truststore.location"]
    round_trip(settings)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_one_protocol(broker: SecuredBroker, protocol: str) -> None:
    round_trip(tls(broker, ssl_enabled_protocols=protocol))


def test_a_cipher_suite_by_the_name_of_java(broker: SecuredBroker) -> None:
    round_trip(tls(broker, ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"))


def test_a_broker_whose_authority_is_not_trusted(broker: SecuredBroker) -> None:
    said = str(refusal(tls(broker, ssl_truststore_location=str(broker.certificates.stranger))))
    assert said.startswith(f"the certificate of {broker.address['TLS']} is not accepted: ")
    assert "ssl.truststore.location" in said


def test_a_broker_of_another_name(broker: SecuredBroker) -> None:
    port = broker.address["TLS"].rpartition(":")[2]
    settings = tls(broker, bootstrap_servers=f"127.0.0.1:{port}")
    assert "IP address mismatch" in str(refusal(settings))
    with Admin({**settings, "ssl.endpoint.identification.algorithm": ""}) as admin:
        assert admin.list_topics()


def test_certificates_of_clients(broker: SecuredBroker) -> None:
    both = broker.certificates
    there = {"bootstrap_servers": broker.address["MUTUAL"]}
    round_trip(tls(broker, ssl_keystore_location=str(both.client), **there))
    round_trip(tls(broker, ssl_keystore_location=str(both.encrypted), ssl_key_password=KEY_PASSWORD, **there))
    round_trip(tls(broker, ssl_keystore_certificate_chain=both.client.read_text(), ssl_keystore_key=both.client.read_text(), **there))
    folder = both.folder
    round_trip(tls(broker, ssl_certificate_location=str(folder / "client.crt"), ssl_key_location=str(folder / "client.key"), **there))


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_client_without_the_certificate_that_is_demanded(broker: SecuredBroker, protocol: str) -> None:
    there = {"bootstrap_servers": broker.address["MUTUAL"], "ssl_enabled_protocols": protocol}
    assert "ssl.keystore" in str(refusal(tls(broker, **there)))
    strange = str(refusal(tls(broker, ssl_keystore_location=str(broker.certificates.strange_client), **there)))
    assert "does not accept the certificate" in strange
    assert "ssl.keystore" in strange


def test_a_listener_that_speaks_something_else(broker: SecuredBroker) -> None:
    settings: dict[str, Setting] = {"bootstrap.servers": broker.address["TLS"], "default.api.timeout.ms": 1500}
    assert "security.protocol=PLAINTEXT" in str(refusal(settings))
    settings = tls(broker, bootstrap_servers=broker.address["PLAINTEXT"], default_api_timeout_ms=1500)
    assert "security.protocol" in str(refusal(settings))
    settings = sasl(broker, sasl_username=USER, sasl_password=PASSWORD, bootstrap_servers=broker.address["PLAINTEXT"])
    assert refusal(settings).code in (ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("PLAIN", {"sasl_username": USER, "sasl_password": PASSWORD}),
        ("PLAIN", {"sasl_jaas_config": plain_line()}),
        ("SCRAM-SHA-256", {"sasl_username": USER, "sasl_password": SCRAM_PASSWORD}),
        ("SCRAM-SHA-512", {"sasl_username": USER, "sasl_password": SCRAM_PASSWORD}),
        ("OAUTHBEARER", {"sasl_oauthbearer_token_provider": token}),
        ("OAUTHBEARER", {"sasl_oauthbearer_token_provider": coroutine_token}),
        ("OAUTHBEARER", {"sasl_jaas_config": UNSECURED}),
    ],
)
def test_mechanisms(broker: SecuredBroker, listener: str, mechanism: str, settings: dict[str, Setting]) -> None:
    round_trip(sasl(broker, listener, mechanism, **settings))


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        ("PLAIN", {"sasl_username": USER, "sasl_password": "wrong-secret"}),
        ("SCRAM-SHA-256", {"sasl_username": USER, "sasl_password": "wrong-secret"}),
        ("SCRAM-SHA-512", {"sasl_username": "nobody", "sasl_password": "wrong-secret"}),
        ("OAUTHBEARER", {"sasl_oauthbearer_token_provider": lambda: token(exp=1)}),
    ],
)
def test_who_is_not_known_is_told_so_once(broker: SecuredBroker, mechanism: str, settings: dict[str, Setting]) -> None:
    assert refusal(sasl(broker, "SASL", mechanism, **settings)).code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_sessions_are_prolonged(broker: SecuredBroker) -> None:
    async def story() -> None:
        async with AsyncAdmin(sasl(broker, "SHORT", "SCRAM-SHA-256", sasl_username=USER, sasl_password=SCRAM_PASSWORD)) as admin:
            end = time.monotonic() + 2.5 * SESSION_MS / 1000
            await admin.describe_cluster()
            while time.monotonic() < end:
                await asyncio.gather(*(admin.describe_cluster() for _ in range(20)))
            values = {name.name: value for name, value in admin.cluster.metrics().items() if name.group == "admin-client-metrics"}
            assert values["connection-creation-total"] == 1
            assert values["successful-reauthentication-total"] >= 2
            assert values["failed-reauthentication-total"] == 0

    asyncio.run(story())
