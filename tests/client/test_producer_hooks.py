"""Partitioners, interceptors and callbacks of the producer: what they see, decide and hear, and that their errors are their own."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given as each_of
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.client import AsyncProducer, Producer, ProducerRecord, RecordFuture, RecordMetadata, SerializationError
from odradek.client.core.metadata import ClusterView
from odradek.client.core.partitioner import partition_for_key
from odradek.client.producer.hooks import producer_settings
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import Message
from odradek.records.batch import decode_records
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from tests.client.internals import partition_of
from tests.client.scripted import TOPIC, TOPIC_ID, ScriptedBrokers, run
from tests.loops import in_virtual_time

ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


class ProducerHooksWorld:
    """Brokers that keep what they are sent; `leaders` says who leads each partition, and `silent` nodes answer no Produce."""

    def __init__(self, loop: SimulatedLoop, *leaders: int) -> None:
        self.leaders = list(leaders) or [1, 1, 1, 1]
        self.silent: set[int] = set()
        self.refused: set[bytes] = set()
        self.written: defaultdict[int, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        self.brokers = ScriptedBrokers(loop, max(*self.leaders, 1), self._answer)

    def _answer(self, node: int, request: Message) -> Message | None:
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if not isinstance(request, ProduceRequest):
            return self._metadata()
        if node in self.silent:
            return None
        response = ProduceResponse()
        for topic in request.topic_data:
            answers = []
            for part in topic.partition_data:
                records = [(record.key, record.value) for record in decode_records(bytes(part.records or b""))]
                error = ErrorCode.INVALID_RECORD if any(value in self.refused for _, value in records) else ErrorCode.NONE
                answer = ProduceResponse.PartitionProduceResponse(index=part.index, base_offset=len(self.written[part.index]))
                if error is ErrorCode.NONE:
                    self.written[part.index] += records
                else:
                    answer = ProduceResponse.PartitionProduceResponse(index=part.index, error_code=error)
                answers.append(answer)
            response.responses.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=answers))
        return response

    def _metadata(self) -> MetadataResponse:
        found = self.brokers.metadata(leader=1)
        found.topics = [
            MetadataResponse.MetadataResponseTopic(
                name=TOPIC,
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponse.MetadataResponsePartition(partition_index=number, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
                    for number, leader in enumerate(self.leaders)
                ],
            )
        ]
        return found


def producer(loop: SimulatedLoop, **settings: Any) -> SimulatedProducer:
    return SimulatedProducer(SimulatedClock(loop), random.Random(1), bootstrap_servers="broker1:9092", **settings)


# -- partitioners -------------------------------------------------------------------------------------------------------------------------


class Last:
    """Everything goes to the last partition."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.settings: Mapping[str, Any] = {}
        self.closed = 0

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def partition(self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
        self.asked.append((topic, key, key_bytes, value, value_bytes))
        return max(cluster.topics[topic].partitions)

    def close(self) -> None:
        self.closed += 1
        raise RuntimeError("on purpose")


def test_an_object_decides_unless_a_partition_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    last = Last()

    async def story(loop: SimulatedLoop) -> None:
        world = ProducerHooksWorld(loop)
        async with producer(loop, partitioner_class=last, value_serializer="integer", linger_ms=5) as sending:
            await sending.send(TOPIC, 1, key="k")
            await sending.send(TOPIC, 2, partition=1)
            await sending.send_many(TOPIC, [3])  # type: ignore[list-item]
            with pytest.raises(OdradekError, match=r"send_batch\(\) sends bytes unchanged"):
                await sending.send_batch(TOPIC, None)
        await sending.close()
        assert [value for _, value in world.written[3]] == [b"\0\0\0\x01", b"\0\0\0\x03"]
        assert len(world.written[1]) == 1

    run(story)
    assert last.asked == [(TOPIC, "k", b"k", 1, b"\0\0\0\x01"), (TOPIC, None, None, 3, b"\0\0\0\x03")]
    assert last.settings["linger_ms"] == 5
    assert last.closed == 1
    assert "the partitioner failed to close" in caplog.text


@pytest.mark.parametrize("given", [lambda *_: 3, Last, f"{__name__}.Last", f"{__name__}:to_the_last"])
@in_virtual_time
async def test_functions_classes_and_import_paths_are_partitioners_too(loop: SimulatedLoop, given: object) -> None:
    world = ProducerHooksWorld(loop)
    async with producer(loop, partitioner_class=given) as sending:
        await sending.send_and_wait(TOPIC, b"x", key=b"k")
    assert [partition for partition, records in world.written.items() if records] == [3]


def to_the_last(topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: ClusterView) -> int:
    return 3


@in_virtual_time
async def test_round_robin_by_its_name(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop)
    async with producer(loop, partitioner_class=ROUND_ROBIN) as sending:
        for _ in range(12):
            await sending.send(TOPIC, b"x", key=b"same")
    assert {partition: len(records) for partition, records in world.written.items()} == dict.fromkeys(range(4), 3)


def failing(*_: object) -> int:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    ("partitioner", "error", "text"),
    [
        (lambda *_: 4, KafkaError, r"partitioner.class chose partition 4 of topic t, which has partitions 0 to 3"),
        (lambda *_: -1, KafkaError, "chose partition -1"),
        (lambda *_: "1", TypeError, "returned '1' for a record of topic t, which is not the number"),
        (failing, RuntimeError, "no idea"),
    ],
)
def test_a_partitioner_that_fails(partitioner: Callable[..., Any], error: type[Exception], text: str) -> None:
    watching = Watching()

    async def story(loop: SimulatedLoop) -> None:
        world = ProducerHooksWorld(loop)
        async with producer(loop, partitioner_class=partitioner, interceptor_classes=watching) as sending:
            with pytest.raises(error, match=text):
                await sending.send(TOPIC, b"x")
            await sending.send_and_wait(TOPIC, b"x", partition=0)
        assert sum(map(len, world.written.values())) == 1

    run(story)
    (metadata, raised), _ = watching.acknowledged
    assert metadata == RecordMetadata(TOPIC, -1, -1, -1)
    assert isinstance(raised, error)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", ROUND_ROBIN),
        ("no.such.Thing", "No module named 'no'"),
        ("round-robin", "Invalid value round-robin"),
        (object(), "at least one of the methods partition"),
        (7, "at least one of the methods partition"),
    ],
)
def test_what_is_no_partitioner_is_refused_in_one_line(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"partitioner.class: .*{why}|{why}") as caught:
        Producer(partitioner_class=given)
    assert "partitioner.class" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"partitioner.class": ROUND_ROBIN, "partitioner.ignore.keys": True}, "partitioner.ignore.keys has no effect: partitioner.class"),
        (
            {"partitioner.adaptive.partitioning.enable": False, "partitioner.availability.timeout.ms": 5},
            "partitioner.availability.timeout.ms has no effect: partitioner.adaptive.partitioning.enable is false",
        ),
        ({"partitioner.class": ROUND_ROBIN}, ""),
        ({"partitioner.ignore.keys": True, "partitioner.availability.timeout.ms": 5}, ""),
        ({"partitioner.adaptive.partitioning.enable": False}, ""),
    ],
)
def test_keys_without_effect_are_told(settings: dict[str, Any], warned: str, caplog: pytest.LogCaptureFixture) -> None:
    producer_settings(settings, {})
    assert warned in caplog.text
    assert bool(caplog.records) == bool(warned)


@pytest.mark.parametrize("ignored", [True, False])
@in_virtual_time
async def test_keys_may_be_ignored(loop: SimulatedLoop, *, ignored: bool) -> None:
    world = ProducerHooksWorld(loop)
    async with producer(loop, partitioner_ignore_keys=ignored, batch_size=100_000) as sending:
        for number in range(40):
            await sending.send(TOPIC, b"x", key=b"%d" % number)
    if ignored:
        assert [len(records) for records in world.written.values()] == [40]
    else:
        assert len(world.written) == 4
        assert all(partition_for_key(key or b"", 4) == part for part, records in world.written.items() for key, _ in records)


@in_virtual_time
async def test_records_with_a_key_arrive_once_and_their_futures_say_where(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop)
    async with producer(loop, batch_size=400, linger_ms=5) as sending:
        futures = [
            await sending.send(TOPIC, b"%03d" % number, key=("k%d" if number % 2 else b"k%d") % (number % 37)) for number in range(600)
        ]
        await sending.flush()
        for number, future in enumerate(futures):
            _, partition, offset, _ = future.result()
            assert world.written[partition][offset] == (b"k%d" % (number % 37), b"%03d" % number)
            assert partition == partition_for_key(b"k%d" % (number % 37), 4)
    assert sum(map(len, world.written.values())) == 600


@in_virtual_time
async def test_keys_go_by_the_new_number_of_partitions_once_it_is_known(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop, 1, 1)
    async with producer(loop, linger_ms=0, metadata_max_age_ms=1000) as sending:
        for round_ in range(2):
            for number in range(20):
                await sending.send(TOPIC, b"%d" % round_, key=b"%d" % number)
            await sending.flush()
            world.leaders = [1] * 5
            await asyncio.sleep(2)
            await sending.flush()
    for partition, records in world.written.items():
        for key, value in records:
            assert partition == partition_for_key(key or b"", 5 if value == b"1" else 2)
    assert len(world.written) == 5


@in_virtual_time
async def test_a_partition_that_was_added_meanwhile_is_looked_for_before_it_is_refused(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop, 1, 1)
    async with producer(loop) as sending:
        await sending.send_and_wait(TOPIC, b"x", partition=1)
        world.leaders = [1] * 3
        await sending.send_and_wait(TOPIC, b"y", partition=2)
        await asyncio.gather(*await sending.send_many(TOPIC, [b"z"], partition=2))
        for wrong in (3, -1):
            with pytest.raises(KafkaError, match=f"topic t has partitions 0 to 2, not {wrong}") as caught:
                await sending.send(TOPIC, b"x", partition=wrong)
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(world.written[2]) == 2


@in_virtual_time
async def test_a_partition_that_lost_its_leader_is_left_at_once(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop, 1, 1)
    async with producer(loop, batch_size=100_000) as sending:
        first = (await sending.send_and_wait(TOPIC, b"x")).partition
        world.leaders[first] = -1
        await sending.engine.cluster.refresh()
        assert (await sending.send_and_wait(TOPIC, b"x")).partition == 1 - first


@pytest.mark.parametrize("timeout_ms", [0, 500])
@in_virtual_time
async def test_a_partition_whose_leader_takes_nothing_is_avoided_after_a_while(loop: SimulatedLoop, timeout_ms: int) -> None:
    world = ProducerHooksWorld(loop, 1, 1, 2, 2)
    sending = producer(
        loop,
        partitioner_availability_timeout_ms=timeout_ms,
        max_in_flight_requests_per_connection=1,
        batch_size=200,
        linger_ms=0,
        request_timeout_ms=60_000,
    )
    async with sending:
        for partition in range(4):
            await sending.send_and_wait(TOPIC, b"x", partition=partition)
        world.silent.add(2)
        places: Counter[bool] = Counter()
        for number in range(600):
            future = await sending.send(TOPIC, b"x" * 150)
            places[number >= 300, partition_of(future) >= 2] += 1
            await asyncio.sleep(0.01)
        assert places[False, True] > 0
        assert (places[True, True] == 0) == (timeout_ms > 0)
        await sending.close(0)


@pytest.mark.parametrize("adaptive", [True, False])
@in_virtual_time
async def test_partitions_with_short_queues_get_more_records(loop: SimulatedLoop, *, adaptive: bool) -> None:
    world = ProducerHooksWorld(loop, 1, 1, 2, 2)
    sending = producer(loop, partitioner_adaptive_partitioning_enable=adaptive, batch_size=200, linger_ms=0, request_timeout_ms=60_000)
    async with sending:
        for partition in range(4):
            await sending.send_and_wait(TOPIC, b"x", partition=partition)
        world.silent.add(2)
        slow = 0
        for _ in range(600):
            future = await sending.send(TOPIC, b"x" * 150)
            slow += partition_of(future) >= 2
            await asyncio.sleep(0.01)
        assert (slow < 150) == adaptive
        await sending.close(0)


# -- interceptors -------------------------------------------------------------------------------------------------------------------------


class Watching:
    """Remembers what it is told, and appends its name to values."""

    def __init__(self, name: bytes = b"!") -> None:
        self.name = name
        self.settings: Mapping[str, Any] | None = None
        self.acknowledged: list[tuple[RecordMetadata, BaseException | None]] = []
        self.threads: set[int] = set()
        self.closed = 0

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.name)

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.threads.add(threading.get_ident())
        self.acknowledged.append((metadata, error))

    def close(self) -> None:
        self.closed += 1


class Failing:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on purpose")

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        raise RuntimeError("on purpose")

    def close(self) -> None:
        raise RuntimeError("on purpose")


class Forgetful:
    def on_send(self, record: ProducerRecord) -> None:
        pass


def test_each_gets_what_the_one_before_it_gave_and_failures_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    one, two = Watching(b"1"), Watching(b"2")

    async def story(loop: SimulatedLoop) -> None:
        world = ProducerHooksWorld(loop)
        world.refused = {b"bad12"}
        async with producer(loop, interceptor_classes=[one, Failing, Forgetful(), two], linger_ms=0) as sending:
            await sending.send_and_wait(TOPIC, b"good", partition=0)
            with pytest.raises(KafkaError):
                await sending.send_and_wait(TOPIC, b"bad", partition=1)
            with pytest.raises(KafkaError, match="exceeds"):
                await sending.send(TOPIC, b"x" * (1 << 21), partition=2)
        assert world.written[0] == [(None, b"good12")]

    with caplog.at_level(logging.WARNING):
        run(story)
    for each in (one, two):
        assert each.closed == 1
        (good, no_error), (bad, refused), (large, raised) = each.acknowledged
        assert (good.partition, good.offset, no_error) == (0, 0, None)
        assert bad == RecordMetadata(TOPIC, 1, -1, -1)
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.INVALID_RECORD
        assert large == RecordMetadata(TOPIC, 2, -1, -1)
        assert isinstance(raised, KafkaError)
    assert caplog.text.count("RuntimeError: on purpose") == 7, "three records, three acknowledgements, one close"
    assert caplog.text.count("must return a ProducerRecord, not NoneType") == 3


def test_they_see_records_before_the_serializers_and_hear_of_their_errors() -> None:
    watching = Watching("!")  # type: ignore[arg-type]

    async def story(loop: SimulatedLoop) -> None:
        world = ProducerHooksWorld(loop)
        async with producer(loop, interceptor_classes=watching, value_serializer="string", key_serializer="integer") as sending:
            await sending.send(TOPIC, "x")
            with pytest.raises(SerializationError):
                await sending.send(TOPIC, "x", key="not the number of a partition")
        assert [record for records in world.written.values() for record in records] == [(None, b"x!")]

    run(story)
    assert [type(error) for _, error in watching.acknowledged] in ([type(None), SerializationError], [SerializationError, type(None)])
    assert watching.settings == {"bootstrap_servers": "broker1:9092"}


def test_what_was_made_for_a_producer_that_cannot_be_is_closed() -> None:
    made: list[Made] = []

    class Made(Watching):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    with pytest.raises(ConfigError, match=r"linger\.ms"):
        Producer(interceptor_classes=Made, linger_ms="soon")
    assert not made
    with pytest.raises(ConfigError, match="no-such-file"):
        Producer(interceptor_classes=Made, security_protocol="SSL", ssl_truststore_location="/no-such-file")
    assert [each.closed for each in made] == [1]

    async def never_started() -> None:
        await AsyncProducer(interceptor_classes=Made).close()

    asyncio.run(never_started())
    assert [each.closed for each in made] == [1, 1]


@pytest.mark.parametrize(("given", "why"), [(object(), "of the methods on_send, on_acknowledgement, close"), ([Failing, Failing], "twice")])
def test_what_is_no_interceptor_is_refused(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Producer(interceptor_classes=given)


# -- callbacks ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hooks", [{}, {"interceptor_classes": Failing}])
def test_callbacks_come_in_the_order_of_the_records_and_before_flush_returns(
    hooks: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(loop: SimulatedLoop) -> None:
        world = ProducerHooksWorld(loop)
        heard: list[tuple[int, RecordMetadata, BaseException | None]] = []
        async with producer(loop, batch_size=400, linger_ms=5, **hooks) as sending:
            for number in range(200):

                def told(metadata: RecordMetadata, error: BaseException | None, number: int = number) -> None:
                    heard.append((number, metadata, error))
                    if number % 50 == 0:
                        raise RuntimeError("a bug of the application")

                await sending.send(TOPIC, b"%d" % number, key=b"k", on_delivery=told)
            await sending.flush()
            assert [number for number, _, _ in heard] == list(range(200))
            assert [metadata.offset for _, metadata, _ in heard] == list(range(200))
            assert all(error is None for _, _, error in heard)
        assert len(world.written[partition_for_key(b"k", 4)]) == 200

    run(story)
    assert caplog.text.count("RuntimeError: a bug of the application") == 4


def test_interceptors_hear_before_the_application() -> None:
    heard: list[str] = []

    class First:
        def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
            heard.append("interceptor")

    async def story(loop: SimulatedLoop) -> None:
        ProducerHooksWorld(loop)
        async with producer(loop, interceptor_classes=First) as sending:
            await sending.send(TOPIC, b"x", on_delivery=lambda *_: heard.append("application"))

    run(story)
    assert heard == ["interceptor", "application"]


@in_virtual_time
async def test_a_callback_hears_of_a_refused_record_and_of_one_that_came_too_late(loop: SimulatedLoop) -> None:
    world = ProducerHooksWorld(loop)
    world.refused = {b"bad"}
    heard: list[tuple[RecordMetadata, BaseException | None]] = []
    settings = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000, "linger_ms": 0}
    async with producer(loop, **settings) as sending:
        await sending.send(TOPIC, b"bad", partition=2, on_delivery=lambda *each: heard.append(each))
        await sending.flush()
        world.silent.add(1)
        await sending.send(TOPIC, b"late", partition=0, on_delivery=lambda *each: heard.append(each))
        await sending.flush()
        with pytest.raises(KafkaError, match="partitions 0 to 3, not 9"):
            await sending.send(TOPIC, b"x", partition=9, on_delivery=lambda *each: heard.append(each))
    assert [metadata for metadata, _ in heard] == [RecordMetadata(TOPIC, 2, -1, -1), RecordMetadata(TOPIC, 0, -1, -1)]
    assert [error.code for _, error in heard if isinstance(error, KafkaError)] == [
        ErrorCode.INVALID_RECORD,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


async def coroutine(*_: object) -> None:
    pass


@pytest.mark.parametrize("given", [coroutine, 7])
@in_virtual_time
async def test_what_cannot_be_called_back_is_refused_before_anything_is_sent(loop: SimulatedLoop, given: Any) -> None:
    world = ProducerHooksWorld(loop)
    async with producer(loop) as sending:
        for _ in range(2):
            for partition in (None, 0):
                with pytest.raises(TypeError, match="on_delivery must be a plain function"):
                    await sending.send(TOPIC, b"x", partition=partition, on_delivery=given)
            await sending.send(TOPIC, b"y")
    assert [record for records in world.written.values() for record in records] == [(None, b"y")] * 2


@hypothesis_settings(max_examples=40, deadline=None)
@each_of(
    st.lists(
        st.tuples(
            st.sampled_from([None, b"a", b"b", "c"]),
            st.sampled_from([None, 0, 3]),
            st.sampled_from([b"x", b"bad", b"y" * 90]),
            st.integers(0, 3),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 5, 40]),
    st.integers(60, 400),
)
@in_virtual_time
async def test_whatever_is_sent_is_told_once_in_order_and_as_its_future_says(
    loop: SimulatedLoop, records: list[tuple[Any, int | None, bytes, int]], linger_ms: int, batch_size: int
) -> None:
    world = ProducerHooksWorld(loop)
    world.refused = {b"bad"}
    futures: list[RecordFuture] = []
    heard: list[tuple[int, RecordMetadata, BaseException | None]] = []
    async with producer(loop, linger_ms=linger_ms, batch_size=batch_size) as sending:
        for number, (key, partition, value, pause_ms) in enumerate(records):

            def told(metadata: RecordMetadata, error: BaseException | None, number: int = number) -> None:
                heard.append((number, metadata, error))

            futures.append(await sending.send(TOPIC, value, key=key, partition=partition, on_delivery=told))
            await asyncio.sleep(pause_ms / 1000)
        await sending.flush()
    assert sorted(number for number, _, _ in heard) == list(range(len(records)))
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for number, metadata, error in heard:
        by_partition[metadata.partition].append(number)
        failure = futures[number].exception()
        assert type(error) is type(failure)
        if error is None:
            assert metadata == futures[number].result()
            key, _, value, _ = records[number]
            assert world.written[metadata.partition][metadata.offset] == (key.encode() if isinstance(key, str) else key, value)
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_a_callback_that_finds_no_room_does_not_wait_for_itself(bootstrap: str, topic: str) -> None:
    ended = threading.Event()
    errors: list[Exception] = []

    with Producer(bootstrap_servers=bootstrap, linger_ms=0, buffer_memory=1000, batch_size=500, max_block_ms=30_000) as sending:

        def flood(metadata: RecordMetadata, error: BaseException | None) -> None:
            try:
                for _ in range(10):
                    sending.send(topic, b"x" * 300, partition=metadata.partition)
            except KafkaError as failure:
                errors.append(failure)
            ended.set()

        sending.send(topic, b"x", on_delivery=flood)
        assert ended.wait(20), "the sender waits for room that only it can make"
    assert "buffer.memory is full" in str(errors[0])


def test_a_callback_may_send(bootstrap: str, topic: str) -> None:
    ready = threading.Event()
    threads: list[str] = []

    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as sending:

        def again(metadata: RecordMetadata, error: BaseException | None) -> None:
            threads.append(threading.current_thread().name)
            sending.send(topic, "two", partition=metadata.partition, on_delivery=lambda *_: ready.set())

        sending.send(topic, "one", on_delivery=again)
        assert ready.wait(30)
    assert threads == ["odradek-client"]


def test_blocking_and_asyncio_producers_pass_their_hooks(bootstrap: str, topic: str) -> None:
    watching, last = Watching(), Last()
    last.close = lambda: None  # type: ignore[method-assign]
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "interceptor.classes": watching, "partitioner.class": last}
    with Producer(settings) as sending:
        assert sending.send(topic, b"x").result(30)[1:3] == (2, 0)
    assert watching.closed == 1
    assert threading.get_ident() not in watching.threads

    async def story() -> None:
        async with AsyncProducer(settings) as sending:
            assert (await sending.send_and_wait(topic, b"y"))[1:3] == (2, 1)

    asyncio.run(story())
    assert [metadata.offset for metadata, _ in watching.acknowledged] == [0, 1]
    assert watching.closed == 2
