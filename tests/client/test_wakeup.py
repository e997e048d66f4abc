"""`wakeup` ends a poll that waits, or else the next one, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.client import AsyncConsumer, Consumer, Producer, TopicPartition, WakeupError
from odradek.testing.kit.embedded import unique_name
from tests.client.internals import engine_of

_LONG_MS = 100_000

POLLS: dict[str, Callable[[Consumer], object]] = {
    "poll": lambda consumer: consumer.poll(_LONG_MS),
    "next_chunk": lambda consumer: consumer.next_chunk(_LONG_MS),
    "iterating": lambda consumer: next(iter(consumer)),
}


def _waits(consumer: Consumer) -> None:
    """Returns when a thread waits for records in the consumer."""
    news = engine_of(consumer)._news
    while not news._waiters:  # type: ignore[attr-defined]
        threading.Event().wait(0.005)


@pytest.mark.parametrize("how", POLLS)
def test_a_poll_that_waits_is_ended_from_another_thread(bootstrap: str, topic: str, how: str) -> None:
    patient = {"fetch.max.wait.ms": 50_000, "request.timeout.ms": 60_000}  # No answer of the broker comes in between.
    with Consumer(patient, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer, ThreadPoolExecutor(1) as pool:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(1000)  # Connected, and a Fetch is under way that the broker answers in 50 s.
        polling = pool.submit(POLLS[how], consumer)
        _waits(consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            polling.result(20)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"after", partition=0)
        assert [record.value for record in consumer.poll(_LONG_MS)] == [b"after"]


def test_the_next_poll_is_ended_when_none_waits_and_records_stay(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=4) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = consumer.poll(_LONG_MS)
        consumer.wakeup()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(_LONG_MS)
        while len(found) < 10:
            found += consumer.poll(_LONG_MS)
        assert [record.value for record in found] == [b"%d" % number for number in range(10)]


def test_a_member_that_waits_for_its_group_is_ended(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, group_id=unique_name("group"), auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        with ThreadPoolExecutor(1) as pool:
            polling = pool.submit(consumer.poll, _LONG_MS)
            _waits(consumer)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                polling.result(30)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"after", partition=0)
        found = []
        while not found:
            found = consumer.poll(_LONG_MS)
        assert [record.value for record in found] == [b"after"]


def test_coroutines_are_ended_too_and_a_closed_consumer_is_not_woken(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            polling = asyncio.ensure_future(consumer.poll(_LONG_MS))
            await asyncio.sleep(0)
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await asyncio.wait_for(polling, 30)
        consumer.wakeup()

    asyncio.run(story())
