"""Groups of our consumers against a broker of our own: sharing, commits, rebalances, leaving, and what they say when something is wrong."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter

import pytest

from odradek.base.errors import ConfigError, ErrorCode, OdradekError
from odradek.client import (
    Admin,
    AsyncConsumer,
    CommitFailed,
    Consumer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    SubscriptionPattern,
    TopicPartition,
)
from tests.client.members import PATIENCE_S, PROTOCOLS, Member, fill, poll_until, protocol_settings, share


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_come_and_go_and_nothing_is_lost(bootstrap: str, topic: str, protocol: str) -> None:
    fill(bootstrap, topic, 30)
    first = Member(bootstrap, topic, [topic], protocol)
    share([first], 3)
    second, third = (Member(bootstrap, topic, [topic], protocol) for _ in range(2))
    share([first, second, third], 3)
    fill(bootstrap, topic, 30)
    poll_until([first, second, third], lambda: len({*first.seen, *second.seen, *third.seen}) == 60)
    first.consumer.close()
    fill(bootstrap, topic, 30)
    share([second, third], 3)
    poll_until([second, third], lambda: len({*first.seen, *second.seen, *third.seen}) == 90)
    second.consumer.close()
    third.consumer.close()
    assert max(Counter([*first.seen, *second.seen, *third.seen]).values()) == 1, "what was handed out is committed before it goes to others"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_partition_that_came_goes_again(bootstrap: str, topic: str, protocol: str) -> None:
    member = Member(bootstrap, topic, [topic], protocol)
    share([member], 3)
    member.consumer.unsubscribe()
    assert member.owned == set() == member.consumer.assignment()
    assert member.events[-1][0] == "revoked"
    member.consumer.subscribe([topic], member)
    share([member], 3)
    member.consumer.close()
    assert member.owned == set()


def test_a_cooperative_member_keeps_what_nobody_else_gets(bootstrap: str, topic: str) -> None:
    first = Member(bootstrap, topic, [topic], "cooperative-sticky")
    share([first], 3)
    second = Member(bootstrap, topic, [topic], "cooperative-sticky")
    share([first, second], 3)
    revoked = [partitions for kind, partitions in first.events if kind == "revoked"]
    assert [len(each) for each in revoked] == [1]
    first.consumer.close()
    second.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_who_comes_back_goes_on_where_the_group_was(bootstrap: str, topic: str, protocol: str) -> None:
    fill(bootstrap, topic, 30, partitions=1)
    member = Member(bootstrap, topic, [topic], protocol, max_poll_records=7)
    poll_until([member], lambda: len(member.seen) >= 7)
    read = len(member.seen)
    member.consumer.close()
    back = Member(bootstrap, topic, [topic], protocol)
    poll_until([back], lambda: bool(back.seen))
    assert back.seen[0] == (0, read)
    back.consumer.close()


def test_an_iteration_commits_only_what_it_came_to(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30, partitions=1)
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            if record.offset == 11:
                break
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as other:
        committed = other.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 12


def test_explicit_commits_with_metadata(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 3)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    member = Member(bootstrap, topic, [topic], enable_auto_commit=False)
    share([member], 3)
    consumer = member.consumer
    poll_until([member], lambda: len(member.seen) == 3)
    assert consumer.committed([zero]) == {zero: None}
    consumer.commit({zero: OffsetAndMetadata(1, None, "a note"), one: 1})
    assert consumer.committed([zero, one]) == {zero: OffsetAndMetadata(1, None, "a note"), one: OffsetAndMetadata(1)}
    consumer.commit()
    assert consumer.committed([zero]) == {zero: OffsetAndMetadata(1, 0)}
    with pytest.raises(ValueError, match="not -1"):
        consumer.commit({zero: -1})
    with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.commit({zero: OffsetAndMetadata(1, None, "x" * 10_000)})
    consumer.close()


def test_callbacks_of_asynchronous_commits_run_in_the_thread_that_polls_and_in_order(bootstrap: str, topic: str) -> None:
    member = Member(bootstrap, topic, [topic], enable_auto_commit=False)
    share([member], 3)
    zero = TopicPartition(topic, 0)
    told: list[tuple[int, int]] = []
    for offset in range(5):
        member.consumer.commit_async({zero: offset}, lambda offsets, error: told.append((offsets[zero].offset, threading.get_ident())))
    member.consumer.commit({zero: 7})
    poll_until([member], lambda: len(told) == 5)
    assert told == [(offset, threading.get_ident()) for offset in range(5)]
    assert member.consumer.committed([zero]) == {zero: OffsetAndMetadata(7)}
    member.consumer.commit_async({zero: 8}, lambda offsets, error: told.append((8, 0)))
    member.consumer.close()
    assert told[-1] == (8, 0)


def test_assigned_partitions_begin_at_the_committed_offset_and_are_committed(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30, partitions=1)
    zero = TopicPartition(topic, 0)
    for first, last in ((0, 9), (10, 19)):
        with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", max_poll_records=10) as consumer:
            consumer.assign([zero])
            records = consumer.poll(10_000)
            assert (records[0].offset, records[-1].offset) == (first, last)


def test_offsets_are_committed_as_time_passes(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30)
    member = Member(bootstrap, topic, [topic], auto_commit_interval_ms=50)
    poll_until([member], lambda: len(member.seen) == 30)
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as other:
        partitions = [TopicPartition(topic, number) for number in range(3)]
        poll_until([member], lambda: all(each is not None and each.offset == 10 for each in other.committed(partitions).values()))
    member.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_a_member_that_does_not_poll_loses_its_partitions_and_comes_back(bootstrap: str, topic: str, protocol: str) -> None:
    fill(bootstrap, topic, 3)
    slow = Member(bootstrap, topic, [topic], protocol, max_poll_interval_ms=600, enable_auto_commit=False)
    share([slow], 3)
    other = Member(bootstrap, topic, [topic], protocol, max_poll_interval_ms=600, enable_auto_commit=False)
    held: set[TopicPartition] = set(slow.owned)
    poll_until([other], lambda: len(other.owned) == 3)
    with pytest.raises(CommitFailed):
        slow.consumer.commit({next(iter(held)): 1})
    share([slow, other], 3)
    assert "lost" in [kind for kind, _ in slow.events]
    slow.consumer.close()
    other.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, topic: str, protocol: str) -> None:
    stays = Member(bootstrap, topic, [topic], protocol, group_instance_id="stays")
    goes = Member(bootstrap, topic, [topic], protocol, group_instance_id="goes")
    share([stays, goes], 3)
    held, events = set(goes.owned), list(stays.events)
    goes.consumer.close()
    back = Member(bootstrap, topic, [topic], protocol, group_instance_id="goes")
    poll_until([stays, back], lambda: back.owned == held)
    assert stays.events == events
    back.consumer.close(leave_group=True)
    share([stays], 3)
    stays.consumer.close(leave_group=True)


def test_a_second_member_of_the_same_instance_fences_the_first_for_good(bootstrap: str, topic: str) -> None:
    first = Member(bootstrap, topic, [topic], group_instance_id="one")
    share([first], 3)
    second = Member(bootstrap, topic, [topic], group_instance_id="one")
    share([second], 3)
    with pytest.raises(KafkaError, match=r"FENCED_INSTANCE_ID.*group\.instance\.id"):
        poll_until([first], lambda: False)
    for _ in range(3):
        with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
            first.poll()
    share([second], 3)
    first.consumer.close()
    second.consumer.close()


def test_members_without_a_common_assignor_are_told(bootstrap: str, topic: str) -> None:
    first = Member(bootstrap, topic, [topic], "range")
    share([first], 3)
    second = Member(bootstrap, topic, [topic], "roundrobin")
    with pytest.raises(KafkaError, match=r"INCONSISTENT_GROUP_PROTOCOL.*partition\.assignment\.strategy"):
        poll_until([second], lambda: False)
    second.consumer.close()
    first.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
def test_another_subscription_takes_the_place_of_the_first(bootstrap: str, topic: str, protocol: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-other", 2, 1)])
    member = Member(bootstrap, topic, [topic], protocol)
    share([member], 3)
    member.consumer.subscribe([f"{topic}-other"], member)
    poll_until([member], lambda: {each.topic for each in member.owned} == {f"{topic}-other"})
    member.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_pattern_finds_topics_that_come_later(bootstrap: str, topic: str, protocol: str) -> None:
    pattern = SubscriptionPattern(f"{topic}.*") if protocol == "consumer" else re.compile(f"{topic}.*")
    member = Member(bootstrap, topic, pattern, protocol, metadata_max_age_ms=200)
    share([member], 3)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-other", 2, 1)])
    poll_until([member], lambda: len(member.owned) == 5)
    member.consumer.close()


def test_a_topic_that_comes_later_is_read(bootstrap: str, topic: str) -> None:
    later = f"{topic}-later"
    member = Member(bootstrap, topic, [later], allow_auto_create_topics=False)
    poll_until([member], lambda: member.events == [("assigned", frozenset())])
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(later, 2, 1)])
    poll_until([member], lambda: len(member.owned) == 2)
    member.consumer.close()


def test_more_partitions_make_the_leader_rebalance(bootstrap: str, topic: str) -> None:
    member = Member(bootstrap, topic, [topic], metadata_max_age_ms=200)
    share([member], 3)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: 5})
    poll_until([member], lambda: len(member.owned) == 5)
    member.consumer.close()


def test_a_rebalance_can_be_enforced(bootstrap: str, topic: str) -> None:
    member = Member(bootstrap, topic, [topic])
    share([member], 3)
    before = member.consumer.group_metadata()
    member.consumer.enforce_rebalance()
    poll_until([member], lambda: member.consumer.group_metadata().generation_id > before.generation_id and len(member.owned) == 3)
    assert member.consumer.group_metadata().member_id == before.member_id
    member.consumer.close()


def test_listeners_run_in_the_thread_that_polls_and_may_call_the_consumer(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30)
    threads: list[int] = []

    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            threads.append(threading.get_ident())
            for partition in partitions:
                consumer.seek(partition, 8)

        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            threads.append(threading.get_ident())
            consumer.commit({partition: consumer.position(partition) for partition in partitions})

    consumer = Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.subscribe([topic], Listener())
    seen: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < 6 and time.monotonic() < deadline:
        seen += [record.offset for record in consumer.poll(100)]
    assert sorted(seen) == [8, 8, 8, 9, 9, 9]
    consumer.close()
    assert threads == [threading.get_ident()] * 2
    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as other:
        committed = other.committed([TopicPartition(topic, number) for number in range(3)])
    assert {each.offset for each in committed.values() if each is not None} == {10}


def test_what_a_listener_raises_comes_out_of_poll_and_the_rebalance_goes_on(bootstrap: str, topic: str) -> None:
    class Listener:
        def on_partitions_assigned(self, _: list[TopicPartition]) -> None:
            raise RuntimeError("on purpose")

    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(RuntimeError, match="on purpose"):
            consumer.poll(10_000)
        assert len(consumer.assignment()) == 3
        consumer.poll(50)


def test_the_asyncio_consumer_awaits_its_listener(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30)
    told: list[str] = []

    class Listener:
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(f"assigned {len(partitions)}")

        async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(f"revoked {len(partitions)}")

    async def story() -> int:
        count = 0
        async with AsyncConsumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic], Listener())
            async for _ in consumer:
                count += 1
                if count == 30:
                    break
        return count

    assert asyncio.run(story()) == 30
    assert told == ["assigned 3", "revoked 3"]


def test_a_coroutine_listener_is_refused_by_the_blocking_consumer(bootstrap: str, topic: str) -> None:
    class Listener:
        async def on_partitions_assigned(self, _: list[TopicPartition]) -> None: ...

    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(TypeError, match="use AsyncConsumer"):
            consumer.poll(10_000)


def test_a_listener_cannot_poll(bootstrap: str, topic: str) -> None:
    class Listener:
        def on_partitions_assigned(self, _: list[TopicPartition]) -> None:
            consumer.poll(10)

    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(OdradekError, match="must not be called by a rebalance listener"):
            consumer.poll(10_000)
        assert len(consumer.assignment()) == 3
        assert consumer.poll(50) == []


def test_what_nobody_expected_in_a_membership_is_raised_by_poll(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        monkeypatch.setattr("odradek.client.core.membership_classic.ClassicMembership._on_joined", broken)
        consumer.subscribe([topic])
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            poll_for_ever(consumer)


def test_an_interrupted_callback_is_over(bootstrap: str, topic: str) -> None:
    class Listener:
        def on_partitions_assigned(self, _: list[TopicPartition]) -> None:
            raise KeyboardInterrupt

    with Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic], Listener())
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(10_000)
        assert consumer.poll(50) == []


def test_a_duration_before_now_is_where_reading_begins(bootstrap: str, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"old", partition=0, timestamp=now_ms - 7_200_000)
        producer.send(topic, b"new", partition=0, timestamp=now_ms - 60_000)
        producer.flush()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert [record.value for record in consumer.poll(10_000)] == [b"new"]
        assert consumer.position(TopicPartition(topic, 1)) == 0


def test_how_far_behind_a_member_is(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, 30, partitions=1)
    zero = TopicPartition(topic, 0)
    member = Member(bootstrap, topic, [topic], max_poll_records=10)
    poll_until([member], lambda: len(member.seen) >= 10)
    assert member.consumer.current_lag(zero) == 30 - len(member.seen)
    poll_until([member], lambda: len(member.seen) == 30)
    assert member.consumer.current_lag(zero) == 0
    with pytest.raises(ValueError, match="not assigned"):
        member.consumer.current_lag(TopicPartition(topic, 77))
    member.consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_how_a_member_fares(bootstrap: str, topic: str, protocol: str) -> None:
    fill(bootstrap, topic, 30)
    member = Member(bootstrap, topic, [topic], protocol)
    before = member.consumer.health()
    assert (before.assigned, before.coordinator, before.last_poll_ms) == (0, None, None)
    poll_until([member], lambda: len(member.seen) == 30 and member.consumer.health().state == "stable")
    health = member.consumer.health()
    assert (health.assigned, health.lag, health.failing, health.coordinator) == (3, 0, 0, 1)
    assert health.last_poll_ms is not None
    assert 0 <= health.last_poll_ms < 10_000
    fill(bootstrap, topic, 9)
    poll_until([member], lambda: len(member.seen) == 39)
    member.consumer.close()
    assert member.consumer.health().state == "closed"


def test_without_a_policy_a_group_without_offsets_is_told(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(ValueError, match=r"no position and auto\.offset\.reset=none"):
            poll_for_ever(consumer)


def poll_for_ever(consumer: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        consumer.poll(50)


def test_subscriptions_and_assignments_exclude_one_another(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, group_id="g") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        with pytest.raises(OdradekError, match="exclude one another"):
            consumer.subscribe(["t"])
        consumer.unsubscribe()
        consumer.subscribe(["t"])
        with pytest.raises(OdradekError, match="exclude one another"):
            consumer.subscribe(re.compile("t"))
        with pytest.raises(TypeError, match="list of topics"):
            consumer.subscribe("t")
        with pytest.raises(KafkaError, match=r"group\.protocol=consumer"):
            consumer.subscribe(SubscriptionPattern("t"))


def test_without_a_group_there_are_no_subscriptions_and_commits(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        for call in (lambda: consumer.subscribe(["t"]), consumer.commit, lambda: consumer.committed([]), consumer.group_metadata):
            with pytest.raises(KafkaError, match=r"group\.id") as caught:
                call()
            assert caught.value.code is ErrorCode.INVALID_GROUP_ID
        with pytest.raises(OdradekError, match="subscribe"):
            consumer.enforce_rebalance()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"group_id": " "}, "group.id"),
        ({"group_id": "g", "group_instance_id": ""}, "group.instance.id"),
        ({"enable_auto_commit": True}, "enable.auto.commit=true needs a group.id"),
        ({"group_id": "g", "heartbeat_interval_ms": 9, "session_timeout_ms": 9}, "heartbeat.interval.ms must be less"),
        ({"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 9000}, "session.timeout.ms cannot be set"),
        ({"group_id": "g", "group_remote_assignor": "range"}, "group.remote.assignor needs"),
        ({"group_id": "g", "partition_assignment_strategy": "mine"}, "the assignors are range"),
        ({"group_id": "g", "partition_assignment_strategy": ["range", "range"]}, "named twice"),
        ({"group_id": "g", "group_protocol": "streams"}, "group.protocol"),
        ({"auto_offset_reset": "by_duration:1h"}, "ISO 8601"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_in_one_line(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AsyncConsumer(**settings)  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_names_of_assignors_are_understood(bootstrap: str, topic: str) -> None:
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    member = Member(bootstrap, topic, [topic], partition_assignment_strategy=strategy)
    share([member], 3)
    member.consumer.close()


def test_kip_848_with_an_assignor_of_the_broker(bootstrap: str, topic: str) -> None:
    settings = protocol_settings("consumer")
    assert settings
    member = Member(bootstrap, topic, [topic], "consumer", group_remote_assignor="range")
    share([member], 3)
    member.consumer.close()
    wrong = Member(bootstrap, f"{topic}-wrong", [topic], "consumer", group_remote_assignor="nonesuch")
    with pytest.raises(KafkaError, match="UNSUPPORTED_ASSIGNOR"):
        poll_until([wrong], lambda: False)
    wrong.consumer.close()
