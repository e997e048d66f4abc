"""Records that go straight into the batch that is open: none lost, in order, and never into one that is on its way."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from functools import partial
from itertools import pairwise

import pytest

from odradek.base.errors import KafkaError
from odradek.client import Consumer, Producer, RecordMetadata, TopicPartition
from odradek.client.core.partitioner import partition_for_key
from odradek.client.network.cluster import ClientClosed
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import Message
from odradek.records.batch import decode_records
from odradek.testing.kit.embedded import EmbeddedBroker, Topic
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.internals import partition_of
from tests.client.scripted import TOPIC, ScriptedBrokers, producer, run
from tests.loops import in_virtual_time


class _World:
    """A broker that leads four partitions and keeps what it is sent."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.brokers = ScriptedBrokers(loop, 1, self._answer)
        self.batches: defaultdict[int, list[list[bytes]]] = defaultdict(list)

    def _answer(self, _: int, request: Message) -> Message:
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if not isinstance(request, ProduceRequest):
            return self.brokers.metadata(leader=1, partitions=4)
        response = ProduceResponse()
        for topic in request.topic_data:
            answers = []
            for part in topic.partition_data:
                written = self.batches[part.index]
                offset = sum(map(len, written))
                written.append([record.value or b"" for record in decode_records(bytes(part.records or b""))])
                answers.append(ProduceResponse.PartitionProduceResponse(index=part.index, base_offset=offset))
            response.responses.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=answers))
        return response

    def values(self) -> list[bytes]:
        return [value for batches in self.batches.values() for batch in batches for value in batch]


@in_virtual_time
async def test_every_record_arrives_once_and_its_future_says_where(loop: SimulatedLoop) -> None:
    world = _World(loop)
    async with producer(loop, batch_size="400", linger_ms="5") as sending:
        futures = [await sending.send(TOPIC, b"%03d" % number) for number in range(300)]
        await sending.flush()
        for number, future in enumerate(futures):
            _, partition, offset, _ = future.result()
            flat = [value for batch in world.batches[partition] for value in batch]
            assert flat[offset] == b"%03d" % number
    assert sorted(world.values()) == [b"%03d" % number for number in range(300)]
    for batches in world.batches.values():
        flat = [value for batch in batches for value in batch]
        assert flat == sorted(flat)


@in_virtual_time
async def test_the_partition_changes_after_a_batch_worth_of_bytes(loop: SimulatedLoop) -> None:
    world = _World(loop)
    async with producer(loop, batch_size="400", linger_ms="5") as sending:
        for number in range(300):
            await sending.send(TOPIC, b"%03d" % number)
    place = {value: partition for partition, batches in world.batches.items() for batch in batches for value in batch}
    order = [place[b"%03d" % number] for number in range(300)]
    assert sum(one != other for one, other in pairwise(order)) > 6
    largest = max(len(batch) for batches in world.batches.values() for batch in batches)
    assert largest > 5, "records share batches"


@in_virtual_time
async def test_records_of_other_kinds_keep_their_place_among_the_others(loop: SimulatedLoop) -> None:
    world = _World(loop)
    async with producer(loop, batch_size="100000", linger_ms="5") as sending:
        future = await sending.send(TOPIC, b"0")
        partition = partition_of(future)
        await sending.send(TOPIC, b"1")
        await sending.send(TOPIC, "2")
        await sending.send(TOPIC, b"3", partition=partition)
        await sending.send(TOPIC, b"4", headers={"h": b"v"})
        await sending.send(TOPIC, b"5")
        await sending.send_many(TOPIC, [b"6", b"7"])
        await sending.send(TOPIC, b"8")
    assert world.batches == {partition: [[b"%d" % number for number in range(9)]]}


def test_a_timer_need_not_know_its_time() -> None:
    """uvloop's handle of a call that is due already has no `when`."""

    class Handle:
        def __init__(self, timer: asyncio.TimerHandle) -> None:
            self.cancel = timer.cancel

    async def story(loop: SimulatedLoop) -> None:
        world = _World(loop)
        async with producer(loop, batch_size="400", linger_ms="5") as sending:
            call_at = loop.call_at
            loop.call_at = lambda *given, **more: Handle(call_at(*given, **more))  # type: ignore[method-assign,assignment]
            try:
                futures = [await sending.send(TOPIC, b"%03d" % number, partition=0) for number in range(20)]
                for future in futures:
                    await future
            finally:
                loop.call_at = call_at  # type: ignore[method-assign]
        assert world.values() == [b"%03d" % number for number in range(20)]

    run(story)


@in_virtual_time
async def test_a_closed_producer_takes_nothing(loop: SimulatedLoop) -> None:
    world = _World(loop)
    sending = producer(loop)
    await sending.start()
    await sending.send(TOPIC, b"0")
    await sending.send(TOPIC, b"1")
    await sending.close()
    with pytest.raises(ClientClosed):
        await sending.send(TOPIC, b"2")
    assert world.values() == [b"0", b"1"]


@in_virtual_time
async def test_a_batch_larger_than_a_request_may_be_does_not_let_a_large_record_in(loop: SimulatedLoop) -> None:
    world = _World(loop)
    async with producer(loop, batch_size="100000", max_request_size="1000") as sending:
        await sending.send(TOPIC, b"0")
        with pytest.raises(KafkaError, match=r"max\.request\.size"):
            await sending.send(TOPIC, b"x" * 2000)
    assert world.values() == [b"0"]


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_threads_share_a_producer(linger_ms: int) -> None:
    """Each thread's records arrive once and in its order, while the loop's thread takes the batches away from under them."""
    threads, count = 4, 5_000
    with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=linger_ms, batch_size=2000) as sending:
        sending.send("t", b"first").result(30)

        def work(mine: int) -> None:
            for number in range(count):
                sending.send("t", b"%d:%d" % (mine, number))

        running = [threading.Thread(target=work, args=(mine,)) for mine in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        sending.flush()
        seen: defaultdict[int, list[int]] = defaultdict(list)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            end = consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]
            while consumer.position(TopicPartition("t", 0)) < end:
                for record in consumer.poll(10_000, 10_000):
                    if record.value != b"first":
                        mine, _, number = (record.value or b"").partition(b":")
                        seen[int(mine)].append(int(number))
    assert seen == {mine: list(range(count)) for mine in range(threads)}


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_threads_with_keys_share_a_producer(linger_ms: int) -> None:
    """Records of a key arrive once, in its partition and in order, and their callbacks come so, too."""
    threads, count, partitions = 4, 4_000, [TopicPartition("t", number) for number in range(3)]
    told: defaultdict[bytes, list[int]] = defaultdict(list)
    with EmbeddedBroker(topics=[Topic("t", 3)]) as broker:
        bootstrap = broker.bootstrap_servers
        with Producer(bootstrap_servers=bootstrap, linger_ms=linger_ms, batch_size=2000) as sending:

            def work(mine: int) -> None:
                for number in range(count):
                    key = b"%d-%d" % (mine, number % 7)
                    on_delivery = partial(hear, key, number) if number % 3 == 0 else None
                    sending.send("t", b"%d" % number, key=key, on_delivery=on_delivery)

            def hear(key: bytes, number: int, metadata: RecordMetadata, error: BaseException | None) -> None:
                assert error is None
                assert metadata.partition == partition_for_key(key, 3)
                told[key].append(number)

            running = [threading.Thread(target=work, args=(mine,)) for mine in range(threads)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
        seen: defaultdict[bytes, list[int]] = defaultdict(list)
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions)
            left = sum(consumer.end_offsets(partitions).values())
            while left:
                for record in consumer.poll(10_000, 10_000):
                    left -= 1
                    assert record.partition == partition_for_key(record.key, 3)
                    seen[record.key].append(int(record.value))
    expected = {b"%d-%d" % (mine, rest): [n for n in range(count) if n % 7 == rest] for mine in range(threads) for rest in range(7)}
    assert seen == expected
    assert told == {key: [number for number in numbers if number % 3 == 0] for key, numbers in expected.items()}
