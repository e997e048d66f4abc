"""Quotas as others set them and feel them: kafka-configs, librdkafka, and a JVM broker's directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from interop.peers import BrokerProcess
from interop.waiting import becomes
from odradek.base.errors import KafkaError
from odradek.client import Admin
from odradek.client.admin.types.security import ClientQuotaAlteration, ClientQuotaEntity
from odradek.client.types import NewTopic
from tests.interop.pair import PATIENCE_S, Pair, create

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CONFIGS = "kafka.admin.ConfigCommand"
ENTITIES = (
    "--entity-type users --entity-name q-user",
    "--entity-type users --entity-default",
    "--entity-type clients --entity-name q-client",
    "--entity-type clients --entity-default",
    "--entity-type users --entity-name q-user --entity-type clients --entity-name q-client",
    "--entity-type users --entity-name q-user --entity-type clients --entity-default",
)


def give(admin: Admin, entity: ClientQuotaEntity, quotas: dict[str, float]) -> None:
    """Sets quotas, and waits until the broker knows of them."""
    admin.alter_client_quotas([ClientQuotaAlteration(entity, quotas)])
    becomes(lambda: admin.describe_client_quotas().get(entity), quotas)


def followed(pair: Pair, *where: str, by: Callable[[list[str]], bool]) -> list[str]:
    """What both say of an entity, as soon as both have heard of the change."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        said = [sorted(done.stdout.decode().splitlines()) for done in pair.run(CONFIGS, "--describe", *where)]
        if all(by(lines) for lines in said) or time.monotonic() > deadline:
            # The tool prints the keys of a hash map.
            ours, theirs = [[sorted(line.replace(",", "").split()) for line in lines] for lines in said]
            assert ours == theirs
            return said[0]


@pytest.mark.parametrize("entity", ENTITIES)
def test_kafka_configs_sets_and_shows_quotas_of_clients(pair: Pair, entity: str) -> None:
    where = entity.split()
    pair.same(CONFIGS, "--alter", *where, "--add-config", "producer_byte_rate=1000000000,request_percentage=9999.5", status=0)
    followed(pair, *where, by=lambda lines: any("request_percentage" in line for line in lines))
    pair.same(CONFIGS, "--alter", *where, "--delete-config", "producer_byte_rate,request_percentage", status=0)
    followed(pair, *where, by=lambda lines: not any("request_percentage" in line for line in lines))


def test_kafka_configs_sets_and_shows_quotas_of_addresses(pair: Pair) -> None:
    for name in ("--entity-name 10.9.8.7", "--entity-default"):
        where = ("--entity-type", "ips", *name.split())
        pair.same(CONFIGS, "--alter", *where, "--add-config", "connection_creation_rate=100000", status=0)
        followed(pair, *where, by=lambda lines: any("connection_creation_rate" in line for line in lines))
        pair.same(CONFIGS, "--alter", *where, "--delete-config", "connection_creation_rate", status=0)


@pytest.mark.parametrize("quota", ["producer_byte_rate=-1", "producer_byte_rate=0.5", "no_such_quota=1", "connection_creation_rate=1"])
def test_kafka_configs_is_told_the_same_of_what_cannot_be(pair: Pair, quota: str) -> None:
    pair.same(CONFIGS, "--alter", "--entity-type", "users", "--entity-name", "q-bad", "--add-config", quota, hide=[r"\(?\w+\.java:\d+\)?"])


def test_a_librdkafka_producer_settles_at_the_same_rate_and_is_told_to_wait(pair: Pair) -> None:
    def settled(broker: BrokerProcess) -> tuple[float, float]:
        create(broker, **{"q-throttled": 1})
        told: list[float] = []
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            entity = ClientQuotaEntity(client_id="q-slow")
            give(admin, entity, {"producer_byte_rate": 100_000.0})
            settings = {"bootstrap.servers": broker.bootstrap, "client.id": "q-slow", "linger.ms": 0, "batch.size": 25_000, "acks": 1}
            producer = Producer({**settings, "throttle_cb": lambda event: told.append(event.throttle_time), "enable.idempotence": False})
            begin, sent = time.monotonic(), 0
            while time.monotonic() - begin < 12:
                producer.produce("q-throttled", b"x" * 20_000, partition=0)
                sent += 20_000
                producer.flush(30)
            took = time.monotonic() - begin
            admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": None})])
        # What a window holds is free at first.
        return (sent - 1_000_000) / took, max(told)

    with ThreadPoolExecutor() as pool:
        (ours, told), (theirs, they_told) = pool.map(settled, pair.brokers)
    assert ours == pytest.approx(theirs, rel=0.2)
    assert told > 0
    assert they_told > 0


def test_creations_beyond_a_quota_are_refused_alike(pair: Pair) -> None:
    def refused(broker: BrokerProcess) -> list[tuple[str, str]]:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            give(admin, ClientQuotaEntity(client_id="q-builder"), {"controller_mutation_rate": 1.0})
        with Admin(bootstrap_servers=broker.bootstrap, client_id="q-builder", retries=0) as builder:
            made = builder.try_create_topics([NewTopic(f"q-built-{number}", 6, 1) for number in range(4)])
            gone = builder.try_delete_topics(["q-built-0"])
        return [(name, each.code.name if isinstance(each, KafkaError) else "") for name, each in (*made.items(), *gone.items())]

    said = pair.each(refused)
    assert said["odradek"] == said["jvm"]
    assert [code for _, code in said["odradek"]] == ["", "", "THROTTLING_QUOTA_EXCEEDED", "THROTTLING_QUOTA_EXCEEDED", ""]
