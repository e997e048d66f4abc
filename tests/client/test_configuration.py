"""Configuration of the clients: every key of Java's is read or refused with its reason, and the page says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odradek.client
from odradek.base.errors import ConfigError
from odradek.client import Admin, Consumer, Producer
from odradek.client.settings.common_keys import CALLABLES, COMMON_KEYS, SPELLINGS
from odradek.client.settings.config import (
    ADMIN_CONFIG,
    CONSUMER_CONFIG,
    NOT_SUPPORTED_YET,
    PRODUCER_CONFIG,
    ClientConfig,
    settings_of_admin,
)
from odradek.client.settings.document import KAFKAS, document
from odradek.config.definition import ConfigDef

SOURCE = Path(odradek.client.__file__).parent
DEFINITIONS = (PRODUCER_CONFIG, CONSUMER_CONFIG, ADMIN_CONFIG)

# Names of AdminClientConfig, ProducerConfig and ConsumerConfig of Kafka 4.3.1.
JAVAS = [
    "acks",
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "bootstrap.controllers",
    "bootstrap.servers",
    "buffer.memory",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "config.providers",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
]


def test_every_key_of_java_is_read_or_refused() -> None:
    known = {key.name for definition in DEFINITIONS for key in definition}
    assert set(JAVAS) <= known | set(NOT_SUPPORTED_YET)
    assert not known & set(NOT_SUPPORTED_YET), "a key is read or refused, not both"


def test_every_key_that_is_read_has_a_reader() -> None:
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py") if not path.name.endswith(("_keys.py", "document.py"))}
    sources |= {path: path.read_text() for path in (SOURCE.parent / "network").glob("*.py")}  # those of TLS
    text = re.sub(r"(?ms)^from \S+_keys import (\(.*?\)|[^\n]*)", "", "\n".join(sources.values()))
    constants = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text))
    derived = {"enable.metrics.push", "config.providers"}
    derived |= {f"ssl.{store}.{rest}" for store in ("truststore", "keystore") for rest in ("type", "location", "password")}
    for definition in DEFINITIONS:
        for key in definition:
            constant = key.name.upper().replace(".", "_")
            assert key.name in derived or constant in constants or f'"{key.name}"' in text, f"nobody reads {key.name}"


@pytest.mark.parametrize("name", sorted(NOT_SUPPORTED_YET))
@pytest.mark.parametrize("definition", DEFINITIONS)
def test_a_refusal_names_the_key_and_the_reason(definition: ConfigDef, name: str) -> None:
    for settings in ({name: "x"}, {name.replace(".", "_"): "x"}):
        with pytest.raises(ConfigError, match=re.escape(f"Configuration {name} is refused: {NOT_SUPPORTED_YET[name]}")):
            ClientConfig(definition, settings)


@pytest.mark.parametrize("name", [key.name for key in COMMON_KEYS if key.default is not None and key.name not in CALLABLES])
def test_both_spellings_are_one_key(name: str) -> None:
    value = ADMIN_CONFIG[name].default or ""
    snake = name.replace(".", "_")
    assert ClientConfig(ADMIN_CONFIG, {name: value}).given() == [name]
    assert ClientConfig(ADMIN_CONFIG, {snake: value}).given() == [name]
    assert ClientConfig(ADMIN_CONFIG, **{snake: value}).given() == [name]
    with pytest.raises(ConfigError, match=f"{re.escape(name)} is given twice"):
        ClientConfig(ADMIN_CONFIG, {name: value}, **{snake: value})


def test_other_spellings_lead_to_keys_that_there_are() -> None:
    for spelling, name in SPELLINGS.items():
        assert name in ADMIN_CONFIG
        assert spelling not in ADMIN_CONFIG
        assert spelling not in JAVAS


def test_both_spellings_of_one_key_in_other_words() -> None:
    with pytest.raises(ConfigError, match=r"sasl.username is given twice"):
        ClientConfig(ADMIN_CONFIG, {"sasl.username": "a"}, sasl_plain_username="b")


def test_an_admin_client_gets_what_it_has_in_every_spelling() -> None:
    common = {"ssl.ca.location": "ca.pem", "ssl_cafile": "ca.pem", "sasl_plain_username": "a", "client_id": "c", "retries": 1}
    assert settings_of_admin({**common, "acks": "all", "linger_ms": "5", "group.id": "g", "auto_offset_reset": "latest"}) == common


def test_defaults_that_are_not_kafkas_are_told() -> None:
    assert set(KAFKAS) <= {key.name for key in COMMON_KEYS}


@pytest.mark.parametrize("entry", ["[::1]:9092", "[2001:db8::1]:9092", "host:9092"])
def test_addresses_of_servers(entry: str) -> None:
    host, port = ClientConfig(ADMIN_CONFIG, bootstrap_servers=entry).bootstrap_servers()[0]
    assert (host, port) == (entry.rpartition(":")[0].strip("[]"), 9092)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"bootstrap.servers": "::1:9092"}, "::1:9092 for configuration bootstrap.servers"),
        ({"bootstrap.servers": ""}, "bootstrap.servers does not name any server"),
        ({"bootstrap.controllers": "a:1", "bootstrap.servers": "b:1"}, "give one of them"),
        ({"bootstrap.controllers": "a"}, "a for configuration bootstrap.controllers"),
        ({"enable.metrics.push": True}, "enable.metrics.push=true is not supported"),
        ({"client.dns.lookup": "default"}, "client.dns.lookup"),
        ({"metadata.recovery.strategy": "hope"}, "metadata.recovery.strategy"),
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": len}, "takes no callable"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ClientConfig(ADMIN_CONFIG, settings)


def test_controllers_are_for_the_admin_client() -> None:
    assert ClientConfig(ADMIN_CONFIG, bootstrap_controllers="a:1").bootstrap_servers() == [("a", 1)]
    with pytest.raises(ConfigError, match=r"bootstrap.controllers"):
        ClientConfig(PRODUCER_CONFIG, bootstrap_controllers="a:1")


def test_the_page_is_up_to_date() -> None:
    page = SOURCE.parents[2] / "docs" / "client-configuration.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m odradek.client.settings.document > docs/client-configuration.md"


def test_all_clients_tell_their_metrics(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_id="p") as producer:
        producer.send(topic, b"x").result(30)
        found = {name.name: value for name, value in producer.metrics().items() if name.group == "producer-metrics"}
        assert found["request-total"] >= 2
        apis = {dict(name.tags).get("api") for name in producer.metrics()}
        assert {"METADATA", "PRODUCE", "INIT_PRODUCER_ID"} <= apis
    with Consumer(bootstrap_servers=bootstrap) as consumer, Admin(bootstrap_servers=bootstrap) as admin:
        assert consumer.partitions_for(topic)
        assert admin.list_topics()
        for kind, client in (("consumer", consumer), ("admin-client", admin)):
            groups = {name.group for name in client.metrics()}
            assert groups == {f"{kind}-metrics", f"{kind}-node-metrics", f"{kind}-api-metrics"}
