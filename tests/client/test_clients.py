"""The clients against a broker of our own: what is sent is read, what is asked is answered, what is wrong is said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interop.waiting import until
from odradek.base.errors import ErrorCode
from odradek.cli.records import consume, produce
from odradek.cli.topics import topics
from odradek.client import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    ConfigChange,
    ConfigError,
    ConfigResource,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    RecordFuture,
    RecordMetadata,
    TopicPartition,
)
from odradek.client.types import ConfigEntry

NOW = int(time.time() * 1000)
"""Recent times: retention takes old ones away."""


def read_all(bootstrap: str, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        records = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            records += consumer.poll(5000)
        return sorted((record.partition, record.offset, record.key, record.value) for record in records)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_is_read(bootstrap: str, topic: str, compression: str) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=1) as producer:
        futures = [
            producer.send(topic, f"v{number}", key=f"k{number}" if number % 3 else None, partition=number % 3) for number in range(500)
        ]
        producer.flush()
        placed = [future.result() for future in futures]
    read = read_all(bootstrap, topic)
    assert read == sorted(
        (place.partition, place.offset, f"k{number}".encode() if number % 3 else None, f"v{number}".encode())
        for number, place in enumerate(placed)
    )


def test_headers_nulls_and_timestamps_survive(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, None, partition=0, headers=[("a", b"1"), ("a", None)], timestamp=NOW).result(10)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        (record,) = consumer.poll(5000)
    assert (record.key, record.value, record.timestamp, record.headers) == (None, None, NOW, (("a", b"1"), ("a", None)))


def test_many_values_keep_their_order(bootstrap: str, topic: str) -> None:
    values = [str(number).encode() for number in range(20_000)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, values, partition=1)
    assert [value for _, _, _, value in read_all(bootstrap, topic)] == values


def test_a_small_buffer_only_slows_down(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, buffer_memory=4096, batch_size=1024) as producer:
        for number in range(500):
            producer.send(topic, b"x" * 100, key=str(number))
    assert len(read_all(bootstrap, topic)) == 500


def test_after_a_flush_records_linger_again(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as lingering, Producer(bootstrap_servers=bootstrap) as other:
        lingering.send(topic, "a", partition=0)
        lingering.flush()
        late = lingering.send(topic, "b", partition=0)
        for _ in range(5):
            other.send(topic, "c", partition=0).result(30)
        assert not late.done()
    assert late.result(0).offset == 6


def test_asyncio_clients(bootstrap: str, topic: str) -> None:
    async def scenario() -> list[bytes | None]:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            metadata = await producer.send_and_wait(topic, "one", partition=2)
            assert (metadata.partition, metadata.offset) == (2, 0)
            await producer.send(topic, "two", partition=2)
        read: list[bytes | None] = []
        async with AsyncConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([(topic, 2)])
            consumer.seek_to_beginning()
            async for record in consumer:
                read.append(record.value)
                if len(read) == 2:
                    break
        return read

    assert asyncio.run(scenario()) == [b"one", b"two"]


class _WithoutTime(asyncio.TimerHandle):
    __slots__ = ()

    @property
    def when(self) -> Callable[[], float]:  # type: ignore[override]
        raise AttributeError("'uvloop.loop.Handle' object has no attribute 'when'")


class _TimeHasCome(asyncio.SelectorEventLoop):
    """As uvloop, which hands out a plain handle where a time comes within half a millisecond."""

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, **more)
        timer.__class__ = _WithoutTime
        return timer


def test_timers_whose_time_has_come_do_not_stop_a_producer(bootstrap: str, topic: str) -> None:
    heard: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        async with AsyncProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            futures = [await producer.send(topic, "value", partition=number) for number in range(2)]
            assert [(await future).offset for future in futures] == [0, 0]

    with asyncio.Runner(loop_factory=_TimeHasCome) as runner:
        runner.run(main())
    assert heard == []


def test_seek_position_and_times(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), partition=0, timestamp=NOW + number)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 7)
        assert [record.value for record in consumer.poll(5000, max_records=2)] == [b"7", b"8"]
        assert consumer.position(partition) == 9
        found = consumer.offsets_for_times({partition: NOW + 4})[partition]
        assert found is not None
        assert (found.offset, found.timestamp) == (4, NOW + 4)
        assert consumer.offsets_for_times({partition: NOW + 9999}) == {partition: None}
        consumer.seek_to_end()
        assert consumer.poll(50) == []


def test_a_position_outside_the_log_is_an_error_when_there_is_no_reset(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 99)
        with pytest.raises(KafkaError) as caught:
            consumer.poll(5000)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_administration(bootstrap: str) -> None:
    # The controller answers changes; JVM Kafka's broker, which answers the descriptions, may learn of them later.
    resource = ConfigResource("topic", "administered")
    with Admin(bootstrap_servers=bootstrap) as admin:

        def described() -> dict[str, ConfigEntry]:
            return {entry.name: entry for entry in admin.describe_configs([resource])[resource]}

        created = admin.create_topics([NewTopic("administered", 2, 1, {"retention.ms": "12345"})])
        assert created["administered"].num_partitions == 2
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic("administered")])
        admin.create_partitions({"administered": 5})
        until(lambda: len(admin.describe_topics(["administered"])["administered"].partitions) == 5, "five partitions", 30)
        (entry,) = admin.describe_configs([resource], names=["retention.ms"])[resource]
        assert (entry.value, entry.is_default) == ("12345", False)
        admin.incremental_alter_configs(
            {resource: [ConfigChange("retention.ms", operation="delete"), ConfigChange("cleanup.policy", "compact", "append")]}
        )
        until(lambda: described()["retention.ms"].is_default, "retention.ms is the default again", 30)
        assert described()["cleanup.policy"].value == "delete,compact"
        with pytest.raises(KafkaError, match=r"INVALID_CONFIG.*retention\.ms"):
            admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "soon")]}, validate_only=True)
        admin.delete_topics(["administered"])
        until(lambda: "administered" not in [topic.name for topic in admin.list_topics()], "the topic is gone", 30)
        with pytest.raises(KafkaError, match="does not exist"):
            admin.describe_topics(["administered"])
        assert admin.describe_cluster().brokers


def test_a_broker_is_configured_at_run_time(bootstrap: str) -> None:
    broker, everybody = ConfigResource("broker", "1"), ConfigResource("broker", "")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.incremental_alter_configs({broker: [ConfigChange("message.max.bytes", "3000000")]})
        admin.incremental_alter_configs({everybody: [ConfigChange("message.max.bytes", "2000000")]})

        def shown(of: ConfigResource) -> list[tuple[str | None, int]]:
            # Of everybody's there is nothing before the first change has arrived.
            return [(entry.value, entry.source) for entry in admin.describe_configs([of], names=["message.max.bytes"])[of]]

        until(lambda: shown(broker) == [("3000000", 2)], "the broker's own limit to be shown", 10)
        until(lambda: shown(everybody) == [("2000000", 3)], "everybody's limit to be shown", 10)
        with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
            admin.incremental_alter_configs({broker: [ConfigChange("auto.create.topics.enable", "false")]})
        for each in (broker, everybody):
            admin.incremental_alter_configs({each: [ConfigChange("message.max.bytes", operation="delete")]})
        until(lambda: shown(broker) == [("1048588", 5)], "the default to be shown again", 10)
        with pytest.raises(ValueError, match="one of set, delete, append, subtract"):
            admin.incremental_alter_configs({broker: [ConfigChange("message.max.bytes", "1", "add")]})


def test_records_are_deleted(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer, Admin(bootstrap_servers=bootstrap) as admin:
        for number in range(30):
            producer.send(topic, f"v{number}", partition=number % 3)
        producer.flush()
        beginnings = admin.delete_records({TopicPartition(topic, 0): 4, TopicPartition(topic, 1): -1})
        assert beginnings == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 10}
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            admin.delete_records({TopicPartition(topic, 2): 11})
    # A partition that is not there might be coming: it is asked for until the time is up.
    with (
        Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=1_000, request_timeout_ms=1_000) as hasty,
        pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        hasty.delete_records({TopicPartition(topic, 7): 0})
    read = read_all(bootstrap, topic)
    assert [record[:2] for record in read] == [(0, offset) for offset in range(4, 10)] + [(2, offset) for offset in range(10)]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"no.such.key": "1"}, "Unknown configuration key no.such.key"),
        ({"transactional.id": ""}, "transactional.id must not be empty"),
        ({"transactional.id": "x", "enable.idempotence": False}, "transactional.id needs enable.idempotence=true"),
        ({"transactional.id": "x", "acks": "1"}, "transactional.id needs acks=all"),
        (
            {"transactional.id": "x", "transaction.two.phase.commit.enable": True, "transaction.timeout.ms": 5},
            "transaction.timeout.ms has no effect with transaction.two.phase.commit.enable",
        ),
        ({"linger.ms": "soon"}, "linger.ms"),
        ({"enable.idempotence": True, "acks": "1"}, "enable.idempotence=true needs acks=all"),
        ({"delivery.timeout.ms": 1}, "delivery.timeout.ms must be at least"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(settings: dict[str, str | bool | int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Producer(settings)


def test_an_unreachable_broker_is_said_to_be_one() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=200) as admin,
        pytest.raises(KafkaError, match="no broker can be reached"),
    ):
        admin.list_topics()


def test_the_commands(bootstrap: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    at = ["-b", bootstrap]
    assert topics.main(["create", "typed", "-p", "1", *at]) == 0
    assert topics.main(["create", "typed", *at]) == 1
    lines = tmp_path / "lines"
    lines.write_bytes(b"a:1\nb:2\nc\n")
    assert produce.main(["-t", "typed", "-K", ":", "-H", "h=x", "-l", str(lines), *at]) == 0
    capfdbinary.readouterr()
    assert consume.main(["-t", "typed", "-e", "-f", "%p %o %k=%s %h%%\\n", *at]) == 0
    assert capfdbinary.readouterr().out == b"0 0 a=1 h=x%\n0 1 b=2 h=x%\n0 2 =c h=x%\n"
    assert consume.main(["-t", "typed", "-o", "-2", "-c", "1", *at]) == 0
    assert capfdbinary.readouterr().out == b"2\n"
    assert consume.main(["-t", "typed", "-o", "sideways", *at]) == 2
    assert topics.main(["describe", "typed", *at]) == 0
    assert b"PartitionCount: 1" in capfdbinary.readouterr().out
    assert topics.main(["config", "typed", "-s", "retention.ms=5000000", "-s", "cleanup.policy=compact,delete", *at]) == 0
    assert topics.main(["config", "typed", "-d", "cleanup.policy", *at]) == 0
    capfdbinary.readouterr()
    assert topics.main(["config", "typed", *at]) == 0
    assert capfdbinary.readouterr().out == b"typed\tretention.ms=5000000\n"
    assert topics.main(["config", "typed", "--all", *at]) == 0
    assert b"typed\tcleanup.policy=delete\n" in capfdbinary.readouterr().out
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        topics.main(["config", "typed", "-s", "retention.ms=soon", *at])
    assert topics.main(["config", "typed", "-s", "retention.ms", *at]) == 2
    assert topics.main(["delete", "--execute", "typed", *at]) == 0
    assert topics.main(["delete", "--execute", "typed", *at]) == 1
    assert topics.main(["delete", "typed", "--if-exists", *at]) == 0


def test_a_failing_helper_of_the_consumer_is_heard_of(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("odradek.client.consumer.fetching.fetched_partitions", broken)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"value", partition=0).result(10)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(RuntimeError, match="broken on purpose"):
            consumer.poll(20_000)


def test_a_record_of_a_blocking_producer_is_awaited_in_a_loop_of_the_application(bootstrap: str, topic: str) -> None:
    async def outcome(future: RecordFuture) -> RecordMetadata:
        return await future

    async def story(producer: Producer) -> RecordMetadata:
        task = asyncio.ensure_future(outcome(producer.send(topic, b"x", partition=1)))
        done, _ = await asyncio.wait([task], timeout=10)
        assert done, "nobody woke the loop"
        return task.result()

    loop = asyncio.new_event_loop()
    loop.set_debug(True)  # It says when it is woken in a way that is not safe among threads.
    try:
        with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            assert loop.run_until_complete(story(producer)).partition == 1
    finally:
        loop.close()


def test_records_without_a_key_are_spread_although_batches_may_be_large(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        used = [producer.send(topic, bytes(1000)).result(30).partition for _ in range(40)]
    moves = [number for number in range(1, 40) if used[number] != used[number - 1]]
    assert len(moves) == 2
    assert moves[0] == 17  # Behind 16 KiB.
