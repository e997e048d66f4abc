"""Consumer groups of unmodified clients: sharing partitions, committing, coming back, and what an administrator sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from interop.peers import BrokerProcess
from interop.waiting import until
from tests.interop.group_support import COUNT, PATIENCE_S, consumer, fill, read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions(broker: BrokerProcess, new_topic: Callable[..., str], strategy: str) -> None:
    topic = new_topic("shared", 4)
    fill(broker, topic, 4)
    first = consumer(broker, f"{topic}-group", partition_assignment_strategy=strategy)
    second = consumer(broker, f"{topic}-group", partition_assignment_strategy=strategy)
    first.subscribe([topic])
    assert len(read(first, COUNT)) == COUNT
    second.subscribe([topic])

    def shared() -> bool:
        first.poll(0.1)
        second.poll(0.1)
        return len(first.assignment()) == len(second.assignment()) == 2

    until(shared)
    assert {each.partition for each in first.assignment()}.isdisjoint(each.partition for each in second.assignment())
    second.close()

    def alone() -> bool:
        first.poll(0.1)
        return len(first.assignment()) == 4

    until(alone)
    first.close()


def test_who_comes_back_goes_on_where_the_group_was(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("resumed")
    fill(broker, topic, 1)
    before = consumer(broker, f"{topic}-group")
    before.subscribe([topic])
    read(before, 10)
    before.commit(offsets=[TopicPartition(topic, 0, 10, "a note")], asynchronous=False)
    before.close()
    after = consumer(broker, f"{topic}-group")
    (committed,) = after.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert (committed.offset, committed.metadata) == (10, "a note")
    after.subscribe([topic])
    assert read(after, COUNT - 10)[0] == b"10"
    after.close()


def test_a_static_member_restarts_unnoticed(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("static", 2)
    fill(broker, topic, 2)
    group = f"{topic}-group"
    rebalances: list[int] = []
    stays = consumer(broker, group, group_instance_id="stays")
    stays.subscribe([topic], on_assign=lambda _, partitions: rebalances.append(len(partitions)))
    goes = consumer(broker, group, group_instance_id="goes")
    goes.subscribe([topic])

    def shared() -> bool:
        stays.poll(0.1)
        goes.poll(0.1)
        return len(stays.assignment()) == len(goes.assignment()) == 1

    until(shared)
    seen = len(rebalances)
    goes.close()
    back = consumer(broker, group, group_instance_id="goes")
    back.subscribe([topic])

    def returned() -> bool:
        stays.poll(0.1)
        back.poll(0.1)
        return len(back.assignment()) == 1

    until(returned)
    assert len(rebalances) == seen
    stays.close()
    back.close()


def test_administrators_see_and_delete_groups(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic("managed")
    fill(broker, topic, 1)
    group = f"{topic}-group"
    member = consumer(broker, group)
    member.subscribe([topic])
    read(member, 5)
    member.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state == ConsumerGroupState.STABLE
    assert [each.partition for each in described.members[0].assignment.topic_partitions] == [0]
    with pytest.raises(Exception, match=r"NON_EMPTY_GROUP|not empty"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    member.close()
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])])[group].result(PATIENCE_S)
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S).topic_partitions
    assert found.offset == 3
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert group not in {each.group_id for each in listed.valid}


def test_kafka_python_consumes_in_a_group(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import kafka
    from kafka.errors import RebalanceInProgressError

    topic = new_topic("kafka-python")
    fill(broker, topic, 1)
    source = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=f"{topic}-group", auto_offset_reset="earliest")
    # A leader that is quicker to join than to learn of the topic assigns nothing (3.0.12, whatever the broker).
    assert source.partitions_for_topic(topic) == {0}
    source.subscribe([topic])
    found = 0

    def enough() -> bool:
        nonlocal found
        found += sum(len(records) for records in source.poll(timeout_ms=200).values())
        return found >= COUNT

    def committed() -> bool:
        # When the client has learnt more of the topic since it joined, it joins again, and a commit waits for its next polls.
        source.poll(timeout_ms=200)
        try:
            source.commit()
        except RebalanceInProgressError:
            return False
        return bool(source.committed(kafka.TopicPartition(topic, 0)) == COUNT)

    until(enough, pause_s=0)
    until(committed)
    source.close()


def test_aiokafka_consumes_in_a_group(broker: BrokerProcess, new_topic: Callable[..., str]) -> None:
    import aiokafka

    topic = new_topic("aiokafka")
    fill(broker, topic, 1)

    async def consume() -> int:
        source = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=f"{topic}-group", auto_offset_reset="earliest", enable_auto_commit=False
        )
        await source.start()
        found = 0
        while found < COUNT:
            found += sum(len(records) for records in (await source.getmany(timeout_ms=200)).values())
        await source.commit()
        offset = await source.committed(next(iter(source.assignment())))
        await source.stop()
        return int(offset)

    assert asyncio.run(asyncio.wait_for(consume(), PATIENCE_S)) == COUNT
