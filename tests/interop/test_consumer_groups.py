"""Unmodified clients of the consumer protocol (KIP-848): librdkafka. (JVM Kafka's: test_verifiable_clients, test_group_tools.)"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from interop.peers import BrokerProcess
from interop.waiting import until
from tests.interop.group_support import COUNT, PATIENCE_S, consumer, fill, read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def new(broker: BrokerProcess, group: str, **options: object) -> Consumer:
    return consumer(broker, group, group_protocol="consumer", **options)


def partitions(source: Consumer) -> set[int]:
    return {each.partition for each in source.assignment()}


def until_assigned(wanted: int, *sources: Consumer) -> None:
    """Every one of them has as many, and all of them different ones."""

    def shared() -> bool:
        for each in sources:
            each.poll(0.1)
        return all(len(partitions(each)) == wanted for each in sources)

    until(shared)
    assert len(set[int]().union(*map(partitions, sources))) == wanted * len(sources)


def test_members_share_the_partitions(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("shared", 4)
    fill(broker, topic, 4)
    first, second = new(broker, f"{topic}-group"), new(broker, f"{topic}-group")
    first.subscribe([topic])
    assert len(read(first, COUNT)) == COUNT
    second.subscribe([topic])
    until_assigned(2, first, second)
    second.close()
    until_assigned(4, first)
    first.close()


def test_a_pattern_is_evaluated_by_the_coordinator(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("matched", 2)
    fill(broker, topic, 2)
    source = new(broker, f"{topic}-group")
    source.subscribe([f"^{topic[:-1]}.*"])
    assert len(read(source, COUNT)) == COUNT
    source.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_and_back(broker: BrokerProcess, new_topic: Callable[..., str], strategy: str) -> None:
    topic = new_topic("migrated", 4)
    group = f"{topic}-group"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def type_of_group() -> object:
        (found,) = [each for each in admin.list_consumer_groups().result(PATIENCE_S).valid if each.group_id == group]
        return found.type

    old = consumer(broker, group, partition_assignment_strategy=strategy, heartbeat_interval_ms=500)
    old.subscribe([topic])
    until_assigned(4, old)
    young = new(broker, group)
    young.subscribe([topic])
    until_assigned(2, old, young)
    assert type_of_group() is ConsumerGroupType.CONSUMER
    young.close()
    until_assigned(4, old)
    assert type_of_group() is ConsumerGroupType.CLASSIC
    old.close()
