"""One notion of "handed out": whatever ends a call or a loop, what comes next and what is committed go by what the application got."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.client import AsyncConsumer, Consumer, KafkaError, Producer, TopicPartition
from odradek.client.consumer import hand_out
from odradek.client.core.fetcher import decode_chunk
from odradek.client.core.positions import Chunk
from odradek.client.settings.common_keys import BOOTSTRAP_SERVERS
from odradek.records.batch import encode_batch
from odradek.testing.kit.embedded import unique_name
from tests.client.internals import engine_of
from tests.client.interrupts import CtrlC

COUNT = 10


@pytest.fixture
def filled(bootstrap: str, topic: str) -> TopicPartition:
    """A partition with the records 0 to 9, in one batch."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)], partition=0)
    return TopicPartition(topic, 0)


@pytest.fixture
def consumer(bootstrap: str, filled: TopicPartition) -> Iterator[Consumer]:
    """A member of no generation, which reads the partition and commits when it is told to."""
    group = unique_name("group")
    # A Fetch that waits at the broker would hold up each seek.
    settings: dict[str, Any] = {"group_id": group, "fetch_max_wait_ms": 5, "enable_auto_commit": False}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as client:
        client.assign([filled])
        yield client


def committed(client: Consumer, where: TopicPartition) -> int:
    found = client.committed([where])[where]
    assert found is not None
    return found.offset


def rest(client: Consumer) -> list[int]:
    """The offsets of all that is left."""
    seen: list[int] = []
    while not seen or seen[-1] != COUNT - 1:
        seen += [record.offset for record in client.poll(5000)]
    return seen


class Left(Exception):
    """Ends a loop."""


def by_break(client: Consumer) -> None:
    for record in client:
        if record.offset == 2:
            break


def by_exception(client: Consumer) -> None:
    try:
        for record in client:
            if record.offset == 2:
                raise Left
    except Left:
        pass


def by_next(client: Consumer) -> None:
    records = iter(client)
    for _ in range(3):
        next(records)


def by_a_poll_of_few(client: Consumer) -> None:
    client.poll(5000, max_records=3)


LEAVE = {"break": by_break, "exception": by_exception, "next": by_next, "poll": by_a_poll_of_few}


@pytest.mark.parametrize("leave", LEAVE)
def test_reading_goes_on_behind_what_a_loop_came_to(consumer: Consumer, filled: TopicPartition, leave: str) -> None:
    LEAVE[leave](consumer)
    assert consumer.position(filled) == 3
    consumer.commit()
    assert committed(consumer, filled) == 3
    assert rest(consumer) == list(range(3, COUNT))
    consumer.commit()
    assert committed(consumer, filled) == COUNT


def test_two_loops_at_once_share_the_records(consumer: Consumer) -> None:
    first, second = iter(consumer), iter(consumer)
    assert [next(each).offset for each in (first, second, second, first)] == [0, 1, 2, 3]
    assert [record.offset for record in consumer.poll(5000, max_records=1)] == [4]
    assert next(first).offset == 5


def test_the_position_within_a_loop_is_behind_the_record_at_hand(consumer: Consumer, filled: TopicPartition) -> None:
    for record in consumer:
        assert consumer.position(filled) == record.offset + 1
        assert consumer.current_lag(filled) == COUNT - record.offset - 1
        if record.offset == COUNT - 1:
            break


def test_a_seek_within_a_loop_is_heeded_and_committed(consumer: Consumer, filled: TopicPartition) -> None:
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            consumer.seek(filled, 7)
            consumer.commit()
            assert committed(consumer, filled) == 7
        if record.offset == 8:
            consumer.seek_to_end(filled)
            assert consumer.position(filled) == COUNT
            consumer.seek_to_beginning(filled)
            assert consumer.position(filled) == 0
        if len(seen) == 6:
            break
    assert seen == [0, 1, 2, 7, 8, 0]


def test_a_pause_within_a_loop_holds_back_the_rest(consumer: Consumer, filled: TopicPartition) -> None:
    other = TopicPartition(filled.topic, 1)
    with Producer(bootstrap_servers=engine_of(consumer).cluster.config[BOOTSTRAP_SERVERS]) as producer:
        producer.send(filled.topic, b"other", partition=1)
    seen = []
    for record in consumer:
        seen.append((record.partition, record.offset))
        if len(seen) == 2:
            consumer.pause(filled)
            consumer.commit()
            consumer.assign([filled, other])
        if record.partition == 1:
            break
    assert seen == [(0, 0), (0, 1), (1, 0)]
    assert consumer.position(filled) == committed(consumer, filled) == 2
    consumer.resume(filled)
    assert rest(consumer) == list(range(2, COUNT))


def test_what_is_given_up_within_a_loop_is_not_read_to_its_end(consumer: Consumer, filled: TopicPartition) -> None:
    for record in consumer:
        assert record.offset == 0
        consumer.assign([])
        consumer.assign([filled])
        consumer.seek(filled, 9)
        break
    assert rest(consumer) == [9]


def test_chunks_and_rows_begin_with_what_a_loop_left(consumer: Consumer, filled: TopicPartition) -> None:
    by_break(consumer)
    chunk = consumer.next_chunk(5000)
    assert chunk is not None
    assert (chunk.offset, chunk.end_offset) == (3, COUNT)
    consumer.seek(filled, 0)
    by_break(consumer)
    batch = consumer.next_batch(5000)
    assert batch.column("offset").to_pylist() == list(range(3, COUNT))
    assert consumer.position(filled) == COUNT


def test_interceptors_see_each_record_of_a_loop_once(bootstrap: str, filled: TopicPartition) -> None:
    class Watching:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_consume(self, records: list[Any]) -> list[Any]:
            self.seen += [record.offset for record in records]
            return [record for record in records if record.offset % 2]

    watching = Watching()
    settings: dict[str, Any] = {"interceptor_classes": [watching]}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as client:
        client.assign([filled])
        for record in client:
            if record.offset == 3:
                break
        assert watching.seen == [0, 1, 2, 3]
        assert client.position(filled) == 4
        assert [record.offset for record in client.poll(5000)] == [5, 7, 9]
        assert watching.seen == list(range(COUNT))


def test_what_an_interceptor_is_interrupted_at_is_not_handed_out(bootstrap: str, filled: TopicPartition) -> None:
    class Interrupted:
        times = 0

        def on_consume(self, records: list[Any]) -> list[Any]:
            self.times += 1
            if self.times == 1:
                raise KeyboardInterrupt
            return records

    settings: dict[str, Any] = {"interceptor_classes": [Interrupted()]}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as client:
        client.assign([filled])
        with pytest.raises(KeyboardInterrupt):
            client.poll(5000)
        assert client.position(filled) == 0
        assert rest(client) == list(range(COUNT))


READING: dict[str, Callable[[Consumer], list[int]]] = {
    "poll": lambda client: [record.offset for record in client.poll(5000, max_records=4)],
    "next": lambda client: [next(iter(client)).offset],
    "next_chunk": lambda client: list(range(chunk.offset, chunk.end_offset) if (chunk := client.next_chunk(5000)) else ()),
    "next_batch": lambda client: client.next_batch(5000).column("offset").to_pylist(),
}


@pytest.mark.parametrize("way", READING)
def test_ctrl_c_at_any_line_of_a_call_loses_and_doubles_nothing(consumer: Consumer, filled: TopicPartition, way: str) -> None:
    """A call that is interrupted has handed out nothing, wherever that happens; the next goes on where the last one that returned ended."""
    at = 0
    interrupted = True
    while interrupted:
        at += 1
        consumer.seek(filled, 0)
        seen: list[int] = []
        interrupted = False
        try:
            seen += CtrlC(at).during(lambda: READING[way](consumer))
        except KeyboardInterrupt:
            interrupted = True
            assert consumer.position(filled) == 0
        while not seen or seen[-1] != COUNT - 1:
            seen += READING[way](consumer)
        assert seen == list(range(COUNT)), f"interrupted before line {at}"
    assert at > 5


def test_cancelled_calls_hand_out_nothing(bootstrap: str, filled: TopicPartition) -> None:
    async def story() -> None:
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=3) as client:
            client.assign([filled])
            seen: list[int] = []
            turns = 0
            while not seen or seen[-1] != COUNT - 1:
                polling = asyncio.ensure_future(client.poll(5000))
                for _ in range(turns % 5):
                    await asyncio.sleep(0)
                polling.cancel()
                try:
                    seen += [record.offset for record in await polling]
                except asyncio.CancelledError:
                    assert await client.position(filled) == (seen[-1] + 1 if seen else 0)
                turns += 1
                if turns % 7 == 0:
                    seen += [record.offset for record in await client.poll(5000)]
            assert seen == list(range(COUNT))

    asyncio.run(story())


def test_a_coroutine_loop_that_is_left_and_begun_again(bootstrap: str, filled: TopicPartition) -> None:
    async def story() -> None:
        group = unique_name("group")
        async with AsyncConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as client:
            client.assign([filled])
            async for record in client:
                assert await client.position(filled) == record.offset + 1
                if record.offset == 2:
                    break
            seen = []
            try:
                async for record in client:
                    seen.append(record.offset)
                    if record.offset == 4:
                        raise Left
            except Left:
                pass
            assert seen == [3, 4]
            await client.commit()
            found = (await client.committed([filled]))[filled]
            assert found is not None
            assert found.offset == 5
            async for record in client:
                seen.append(record.offset)
                if record.offset == 5:
                    client.seek(filled, 8)
                if record.offset == 9:
                    break
            assert seen == [3, 4, 5, 8, 9]

    asyncio.run(story())


def test_close_commits_what_a_loop_came_to(bootstrap: str, filled: TopicPartition) -> None:
    group = unique_name("group")
    with Consumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as client:
        client.subscribe([filled.topic])
        by_break(client)
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as client:
        assert committed(client, filled) == 3


def test_the_epoch_that_is_committed_is_that_of_what_was_handed_out() -> None:
    where = TopicPartition("t", 0)
    buffer = b"".join(
        encode_batch([(0, None, b"x", ())], base_offset=offset, partition_leader_epoch=epoch) for offset, epoch in ((0, 3), (1, 4), (2, 6))
    )
    at_hand = hand_out.HandOut()
    at_hand.put(Chunk(where, 0, 3, memoryview(buffer), (), 6, 2))
    assert at_hand.unread(where) == (0, 2)
    assert at_hand.chunk is not None
    at_hand.decoded(decode_chunk(at_hand.chunk, read_committed=False, check_crcs=True))
    assert [at_hand.unread(where) for _ in range(3) if at_hand.take(1)] == [(1, 3), (2, 4), None]
    assert at_hand.is_empty


def test_a_closed_consumer_says_so_to_loops_and_polls(consumer: Consumer) -> None:
    records = iter(consumer)
    next(records)
    consumer.close()
    for read in (lambda: next(records), lambda: next(iter(consumer)), lambda: consumer.poll(0), lambda: consumer.next_chunk(0)):
        with pytest.raises(Exception, match="the consumer is closed") as caught:
            read()
        assert not isinstance(caught.value, KafkaError)


def test_a_poll_decodes_what_an_interrupted_call_left_undecoded(consumer: Consumer) -> None:
    chunk = consumer.next_chunk(5000)
    assert chunk is not None
    at_hand = engine_of(consumer).hand_out
    at_hand.put(chunk)
    assert [record.offset for record in consumer.poll(5000)] == list(range(COUNT))
