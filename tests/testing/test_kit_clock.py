"""The clock of an embedded broker: timers in their order, and what a broker does when it is put forward."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.testing import AsyncEmbeddedBroker, EmbeddedBroker, EmbeddedCluster
from odradek.testing.kit.embedded import unique_name
from odradek.testing.kit.kit_clock import AdjustableClock
from odradek.testing.kit.node_thread import NodeLoop
from tests.testing.wire import Wire


@pytest.fixture
def loop() -> Iterator[NodeLoop]:
    loop = NodeLoop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _clock(loop: NodeLoop) -> AdjustableClock:
    return AdjustableClock(loop, loop.settle)


def test_timers_run_in_the_order_in_which_they_are_due_each_after_what_the_one_before_began(loop: NodeLoop) -> None:
    clock, told = _clock(loop), []
    clock.call_later(20, told.append, "20")
    clock.call_later(10, lambda: (told.append("10"), clock.call_later(5, told.append, "10+5"), loop.call_soon(told.append, "soon")))
    clock.call_later(30, told.append, "30")
    loop.run_until_complete(clock.advance(25))
    assert told == ["10", "soon", "10+5", "20"]
    loop.run_until_complete(clock.advance(5))
    assert told[-1] == "30"


def test_a_timer_sees_the_time_at_which_it_is_due_as_far_as_the_steps_go(loop: NodeLoop) -> None:
    clock, at = _clock(loop), []
    begin = clock.monotonic()
    for delay in (10, 50.5, 100):
        clock.call_later(delay, lambda: at.append(clock.monotonic() - begin))
    loop.run_until_complete(clock.advance(120))
    assert [round(each) for each in at] == [10, 51, 100] or [int(each) for each in at] == [10, 51, 100]
    assert clock.monotonic() - begin >= 120
    assert abs(clock.time_ms() - time.time() * 1000 - 120_000) < 100


def test_what_was_cancelled_does_not_run_and_what_is_left_is_due_so_much_earlier(loop: NodeLoop) -> None:
    clock, told = _clock(loop), []
    clock.call_later(5, told.append, "no").cancel()
    clock.call_later(60, told.append, "yes")
    loop.run_until_complete(clock.advance(59.9))
    assert told == []

    loop.call_later(5, loop.stop)
    clock.call_later(0.2, loop.stop)
    loop.run_forever()
    assert told == ["yes"]


def test_a_job_that_a_timer_began_ends_before_the_next_timer_runs(loop: NodeLoop) -> None:
    clock, told = _clock(loop), []

    def job() -> None:
        time.sleep(0.03)
        told.append("job")

    clock.call_later(1, lambda: loop.run_in_executor(None, job))
    clock.call_later(2, told.append, "next")
    loop.run_until_complete(clock.advance(3))
    assert told == ["job", "next"]


def test_cancelled_timers_are_forgotten(loop: NodeLoop) -> None:
    clock = _clock(loop)
    for _ in range(10_000):
        clock.call_later(1000, print).cancel()
    assert len(clock._timers) < 300


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_clock_goes_forward_only(seconds: float) -> None:
    with EmbeddedBroker(memory=True) as broker, pytest.raises(ValueError, match="cannot be advanced"):
        broker.clock.advance(seconds)


# -- what a broker does ------------------------------------------------------------------------------------------------------------------


def _produce(servers: str, topic: str, *values: bytes, **settings: object) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value, key=b"k", on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
    assert errors == [None] * len(values)


def _first_offset(port: int, topic: str, timestamp: int = -2) -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    with Wire(port) as wire:
        answer = wire.ask(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])]), 7)
    return int(answer.topics[0].partitions[0].offset)


def test_a_broker_serves_on_after_a_week_and_after_a_year() -> None:
    with EmbeddedBroker(memory=True, topics=["t"]) as broker:
        for days in (7, 365):
            broker.clock.advance(timedelta(days=days))
            _produce(broker.bootstrap_servers, "t", b"here")
            broker.create_topic(f"after-{days}")
        assert abs(broker.clock.time_ms() - time.time() * 1000 - 372 * 86_400_000) < 60_000


def test_records_go_when_their_time_is_over() -> None:
    with EmbeddedBroker({"log.retention.hours": "24"}, memory=True, topics=["t"]) as broker:
        _produce(broker.bootstrap_servers, "t", b"one", b"two")
        broker.clock.advance(timedelta(hours=23))
        assert broker.apply_retention("t") == 0
        assert _first_offset(broker.port, "t") == 0
        broker.clock.advance(timedelta(hours=2))
        assert _first_offset(broker.port, "t") == 2


def test_the_clock_stays_ahead_over_a_restart() -> None:
    with EmbeddedBroker({"log.retention.hours": "24"}, memory=True, topics=["t"]) as broker:
        _produce(broker.bootstrap_servers, "t", b"one")
        broker.clock.advance(timedelta(hours=25))
        broker.kill()
        assert broker.clock.time_ms() - time.time() * 1000 > 24 * 3_600_000
        broker.start()
        assert broker.clock.time_ms() - time.time() * 1000 > 24 * 3_600_000
        assert broker.apply_retention() >= 0
        assert _first_offset(broker.port, "t") == 1


def test_a_member_that_does_not_beat_leaves_its_group_when_its_session_is_over() -> None:
    with EmbeddedBroker(memory=True, topics=["t"]) as broker, Wire(broker.port) as wire:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m" * 22, member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        deadline = time.monotonic() + 20
        while (answer := wire.ask(request, 1)).error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            _find_coordinator(broker)
            assert time.monotonic() < deadline
        assert answer.error_code == 0
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m" * 22, member_epoch=answer.member_epoch)
        broker.clock.advance(40)
        assert wire.ask(beat, 1).error_code == 0
        broker.clock.advance(46)
        assert wire.ask(beat, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def _find_coordinator(broker: EmbeddedBroker) -> None:
    """Makes the broker create the topic of offsets, as any consumer does."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "other"})
    consumer.subscribe(["t"])
    consumer.poll(1)
    consumer.close()


def test_a_classic_consumer_that_hangs_is_put_out_of_its_group() -> None:
    with EmbeddedBroker({"group.initial.rebalance.delay.ms": "0"}, memory=True, topics=["t"]) as broker:
        _produce(broker.bootstrap_servers, "t", b"one")
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", "client.id": "member"}
        )
        consumer.subscribe(["t"])
        assert consumer.consume(1, 20)
        with Wire(broker.port) as wire:
            (group,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
            assert (group.group_state, len(group.members)) == ("Stable", 1)
            broker.faults.drop(["Heartbeat", "JoinGroup", "LeaveGroup"], client_id="member")
            broker.clock.advance(60)
            (group,) = wire.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
            assert (group.group_state, len(group.members)) == ("Empty", 0)
        broker.faults.clear()
        broker.faults.disconnect()
        consumer.close()


def test_a_transaction_that_nobody_ends_is_aborted_when_its_time_is_over() -> None:
    with EmbeddedBroker(memory=True, topics=["t"]) as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "open", "transaction.timeout.ms": 60_000, "linger.ms": 0}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("t", b"never seen")
        assert producer.flush(20) == 0
        assert _last_stable_offset(broker.port) == 0
        broker.clock.advance(75)
        broker.wait_until_seen("Produce")
        with Wire(broker.port) as wire:
            (state,) = wire.ask(DescribeTransactionsRequest(transactional_ids=["open"]), 0).transaction_states
        assert state.transaction_state == "CompleteAbort"
        assert _last_stable_offset(broker.port) == 2
        broker.faults.drop(None)
        broker.faults.disconnect()


def _last_stable_offset(port: int) -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])]
    )
    with Wire(port) as wire:
        return int(wire.ask(request, 7).topics[0].partitions[0].offset)


def test_producers_are_forgotten_a_day_after_their_last_record() -> None:
    def producers(port: int) -> int:
        topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
        with Wire(port) as wire:
            return len(wire.ask(DescribeProducersRequest(topics=[topic]), 0).topics[0].partitions[0].active_producers)

    with EmbeddedBroker(memory=True, topics=["t"]) as broker:
        _produce(broker.bootstrap_servers, "t", b"one", **{"enable.idempotence": True})
        broker.clock.advance(timedelta(hours=23))
        assert producers(broker.port) == 1
        broker.clock.advance(timedelta(hours=2))
        assert producers(broker.port) == 0


def test_compaction_on_demand_leaves_the_last_of_each_key() -> None:
    with EmbeddedBroker(memory=True) as broker:
        broker.create_topic("c", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"})
        _produce(broker.bootstrap_servers, "c", b"1", b"2", b"3")
        assert broker.compact("c") == 1
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["c"])
        assert [message.value() for message in consumer.consume(1, 20)] == [b"3"]
        consumer.close()


def _values(broker: EmbeddedBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": unique_name("group"),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_tombstones_go_when_delete_retention_is_over() -> None:
    with EmbeddedBroker({"log.cleaner.backoff.ms": "86400000000"}, memory=True) as broker:
        broker.create_topic("c", configs={"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", None)):
            producer.produce("c", value, key=key)
            assert producer.flush(20) == 0
        assert broker.compact("c") == 1
        assert _values(broker, "c") == [(b"b", b"2"), (b"a", None)]
        broker.clock.advance(timedelta(hours=23))
        broker.compact("c")
        assert _values(broker, "c") == [(b"b", b"2"), (b"a", None)]
        broker.clock.advance(timedelta(hours=2))
        broker.compact("c")
        assert _values(broker, "c") == [(b"b", b"2")]


def test_min_compaction_lag_holds_until_the_clock_is_put_forward() -> None:
    with EmbeddedBroker(memory=True) as broker:
        broker.create_topic("c", configs={"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"})
        _produce(broker.bootstrap_servers, "c", b"1", b"2")
        assert broker.compact("c") == 0
        broker.clock.advance(3700)
        assert broker.compact("c", 0) == 1


def test_what_cannot_be_compacted_or_shortened_is_said(tmp_path: object) -> None:
    with EmbeddedBroker(memory=True, topics=["plain"]) as broker:
        with pytest.raises(RuntimeError, match=r"plain has no cleanup\.policy=compact"):
            broker.compact("plain")
        with pytest.raises(RuntimeError, match="the topic nowhere does not exist"):
            broker.compact("nowhere")
        with pytest.raises(RuntimeError, match="the topic nowhere does not exist"):
            broker.apply_retention("nowhere")
    with EmbeddedBroker({"log.cleaner.enable": "false"}, memory=True) as broker:
        broker.create_topic("c", configs={"cleanup.policy": "compact"})
        with pytest.raises(RuntimeError, match=r"log\.cleaner\.enable=false"):
            broker.compact("c")


def test_the_nodes_of_a_cluster_are_put_forward_together_and_go_on() -> None:
    with EmbeddedCluster(3, {"log.retention.hours": "1"}, memory=True, topics=["t"]) as cluster:
        _produce(cluster.bootstrap_servers, "t", b"one")
        leaders = _leaders(cluster)
        cluster.clock.advance(120)
        assert _leaders(cluster) == leaders
        _produce(cluster.bootstrap_servers, "t", b"two")


def _leaders(cluster: EmbeddedCluster) -> dict[str, int]:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=20)
    return {name: topic.partitions[0].leader for name, topic in metadata.topics.items()}


def test_the_clock_can_be_put_forward_from_a_coroutine() -> None:
    async def story() -> None:
        async with AsyncEmbeddedBroker({"log.retention.hours": "1"}, memory=True, topics=["t"]) as broker:
            await asyncio.to_thread(_produce, broker.bootstrap_servers, "t", b"one")
            await broker.advance(timedelta(hours=2))
            await broker.apply_retention("t")
            assert await asyncio.to_thread(_first_offset, broker.sync.port, "t") == 1

    asyncio.run(story())
