"""The program of this example, tested with the fixtures of odradek and confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from orders import Totals

from odradek.testing import EmbeddedBroker, EmbeddedCluster

Order = Callable[[str, int], None]


@pytest.fixture
def totals(odradek_broker: EmbeddedBroker, odradek_topic: str) -> Iterator[Totals]:
    odradek_broker.create_topic(f"{odradek_topic}-totals")
    program = Totals(odradek_broker.bootstrap_servers, odradek_topic, f"{odradek_topic}-totals", group=odradek_topic)
    yield program
    program.close()


@pytest.fixture
def order(odradek_broker: EmbeddedBroker, odradek_topic: str) -> Order:
    producer = Producer({"bootstrap.servers": odradek_broker.bootstrap_servers})

    def send(customer: str, amount: int) -> None:
        producer.produce(odradek_topic, str(amount).encode(), customer.encode())
        assert producer.flush(20) == 0

    return send


def test_orders_of_a_customer_are_added_up(totals: Totals, order: Order) -> None:
    order("ann", 3)
    order("ann", 4)
    assert [totals.take(), totals.take()] == [3, 7]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"])
def test_a_total_is_written_in_spite_of_errors(totals: Totals, order: Order, odradek_broker: EmbeddedBroker, error: str) -> None:
    order("ann", 5)
    fault = odradek_broker.faults.fail("Produce", error, times=2)
    assert totals.take() == 5
    assert fault.hits == 2


def test_an_order_comes_after_a_restart_of_the_broker(totals: Totals, order: Order, odradek_broker: EmbeddedBroker) -> None:
    order("ann", 1)
    assert totals.take() == 1
    odradek_broker.kill()
    odradek_broker.start()
    order("bob", 2)
    assert totals.take() == 2


@pytest.mark.odradek(fresh=True, settings={"log.retention.hours": "1"})
def test_orders_that_are_too_old_are_not_seen(odradek_broker: EmbeddedBroker, odradek_topic: str, order: Order) -> None:
    order("ann", 1)
    odradek_broker.clock.advance(2 * 3600)
    odradek_broker.apply_retention(odradek_topic)
    odradek_broker.create_topic("totals")
    program = Totals(odradek_broker.bootstrap_servers, odradek_topic, "totals")
    with pytest.raises(TimeoutError):
        program.take(1.0)
    program.close()


@pytest.mark.odradek(version="2.8")
def test_it_works_with_a_broker_of_2_8(totals: Totals, order: Order) -> None:
    order("ann", 8)
    assert totals.take() == 8


@pytest.mark.odradek(nodes=3, settings={"min.insync.replicas": "2"})
def test_nothing_is_lost_with_a_node(odradek_cluster: EmbeddedCluster) -> None:
    source, target = odradek_cluster.create_topic("orders"), odradek_cluster.create_topic("totals")
    program = Totals(odradek_cluster.bootstrap_servers, source, target)
    producer = Producer({"bootstrap.servers": odradek_cluster.bootstrap_servers, "acks": "all"})
    for amount in (1, 2):
        producer.produce(source, str(amount).encode(), b"ann")
        assert producer.flush(30) == 0
        program.take()
        if amount == 1:
            odradek_cluster.kill(3)
    assert producer.flush(0) == 0
    program.close()
