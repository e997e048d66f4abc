"""Calls that end early while a group rebalances: every listener hears, and what is committed is where the application was."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client import Admin, AsyncConsumer, Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition
from odradek.testing import EmbeddedBroker
from tests.client.interrupts import CtrlC

pytestmark = pytest.mark.odradek(settings={"group.initial.rebalance.delay.ms": "0"})
PATIENCE_MS = 20_000


class Listener(RebalanceListener):
    """What a listener was told that the consumer has."""

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()
        self.rebalances = 0

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        assert not self.owned & set(partitions)
        self.owned.update(partitions)
        self.rebalances += 1

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        assert self.owned >= set(partitions)
        self.owned.difference_update(partitions)


def test_ctrl_c_at_any_line_of_a_poll_that_rebalances_keeps_nothing_from_the_listener(
    odradek_broker: EmbeddedBroker, odradek_topic: str
) -> None:
    told = Listener()
    with Consumer(bootstrap_servers=odradek_broker.bootstrap_servers, group_id=odradek_topic, enable_auto_commit=False) as consumer:
        consumer.subscribe([odradek_topic], told)
        while not told.owned:
            consumer.poll(50)
        everything, interrupted, at = set(told.owned), True, 0
        while interrupted:
            at += 1
            before, interrupted = told.rebalances, False
            consumer.enforce_rebalance()
            try:
                CtrlC(at).during(lambda: consumer.poll(0))
            except KeyboardInterrupt:
                interrupted = True
            while told.rebalances == before:
                consumer.poll(50)
            assert told.owned == consumer.assignment() == everything, f"interrupted before line {at}"
        assert at > 20
    assert not told.owned


def test_a_seek_after_a_cancelled_poll_is_what_a_rebalance_commits(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    """The poll that was cancelled has begun to commit where the application was before."""
    where = TopicPartition(odradek_topic, 0)

    async def story() -> None:
        settings = {"bootstrap.servers": odradek_broker.bootstrap_servers, "group.id": odradek_topic, "client.id": odradek_topic}
        async with AsyncConsumer(settings | {"auto.offset.reset": "earliest", "partition.assignment.strategy": "range"}) as consumer:
            told = Listener()
            consumer.subscribe([odradek_topic], told)
            while not told.owned:
                await consumer.poll(50)
            assert await consumer.position(where) == 0
            consumer.enforce_rebalance()
            with odradek_broker.faults.delay("OffsetCommit", 0.1, client_id=odradek_topic, times=1):
                polling = asyncio.ensure_future(consumer.poll(PATIENCE_MS))
                await asyncio.to_thread(odradek_broker.wait_until_seen, "OffsetCommit", client_id=odradek_topic)
                polling.cancel()
                await asyncio.gather(polling, return_exceptions=True)
            assert told.owned == {where}
            consumer.seek(where, 7)
            while told.owned:
                await consumer.poll(0)
            assert (await consumer.committed([where]))[where] == OffsetAndMetadata(7)

    asyncio.run(story())


def test_close_commits_while_the_answer_to_a_join_is_under_way(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    """The coordinator has begun the next generation, which the member does not know yet."""
    where = TopicPartition(odradek_topic, 0)
    settings = {"bootstrap.servers": odradek_broker.bootstrap_servers, "group.id": odradek_topic, "auto.offset.reset": "earliest"}
    told = Listener()
    with Consumer(settings | {"client.id": odradek_topic, "partition.assignment.strategy": "cooperative-sticky"}) as consumer:
        consumer.subscribe([odradek_topic], told)
        while not told.owned:
            consumer.poll(50)
        consumer.seek(where, 3)
        joined = odradek_broker.seen("JoinGroup", client_id=odradek_topic)
        with odradek_broker.faults.delay("JoinGroup", 0.1, client_id=odradek_topic, times=1):
            consumer.enforce_rebalance()
            consumer.poll(0)
            odradek_broker.wait_until_seen("JoinGroup", joined + 1, client_id=odradek_topic)
            consumer.close()
    assert not told.owned
    with Consumer(settings) as other:
        assert other.committed([where])[where] == OffsetAndMetadata(3)


def test_a_member_leaves_although_its_connection_breaks(odradek_broker: EmbeddedBroker, odradek_topic: str) -> None:
    """Else the other members wait until its session ends."""
    settings = {"bootstrap.servers": odradek_broker.bootstrap_servers, "group.id": odradek_topic, "client.id": odradek_topic}
    told = Listener()
    with Consumer(settings) as consumer, odradek_broker.faults.disconnect_on("LeaveGroup", client_id=odradek_topic, times=1):
        consumer.subscribe([odradek_topic], told)
        while not told.owned:
            consumer.poll(50)
        consumer.close()
    with Admin(bootstrap_servers=odradek_broker.bootstrap_servers) as admin:
        assert not admin.describe_consumer_groups([odradek_topic])[odradek_topic].members
