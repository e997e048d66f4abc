"""Records that are decoded already are handed out by the thread that polls: each once, in order, and no longer than the group allows."""

from __future__ import annotations

import threading

import pytest

from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.consumer import engine as engines
from tests.client.internals import engine_of


def _filled(bootstrap: str, topic: str, count: int) -> TopicPartition:
    with Producer(bootstrap_servers=bootstrap, batch_size=1_000_000, linger_ms=50) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(count)], partition=0)
    return TopicPartition(topic, 0)


class _Hops:
    """Counts the polls that went to the loop."""

    def __init__(self, consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        engine = engine_of(consumer)
        ready = engine.ready

        async def counted(timeout_s: float) -> object:
            self.count += 1
            return await ready(timeout_s)

        monkeypatch.setattr(engine, "ready", counted)


def test_a_thousand_polls_of_one_answer_go_to_the_loop_once(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_UNDISTURBED_S", 1000.0)
    where = _filled(bootstrap, topic, 1000)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        hops = _Hops(consumer, monkeypatch)
        seen = []
        while len(seen) < 1000:
            seen += [int(record.value or b"") for record in consumer.poll(5000, 1)]
            assert consumer.position(where) == len(seen)
        assert seen == list(range(1000))
        assert hops.count < 10


def test_the_group_is_asked_again_after_a_moment(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = _filled(bootstrap, topic, 10)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        consumer.poll(5000, 1)
        hops = _Hops(consumer, monkeypatch)
        engine = engine_of(consumer)
        assert consumer.poll(5000, 1)
        assert hops.count == 0
        engine._undisturbed_until = engine._loop.time()
        assert consumer.poll(5000, 1)
        assert hops.count == 1


def test_an_iteration_counts_as_handed_out_what_it_came_to(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_UNDISTURBED_S", 1000.0)
    where = _filled(bootstrap, topic, 10)
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "max.poll.records": 4}
    with Consumer(settings) as consumer:
        consumer.assign([where])
        for record in consumer:
            if record.offset == 5:
                break
        consumer.commit()
        found = consumer.committed([where])[where]
        assert found is not None
        assert found.offset == 6
        assert [record.offset for record in consumer.poll(5000)] == [6, 7, 8, 9], "a poll goes on behind what the iteration came to"
        consumer.commit()
        found = consumer.committed([where])[where]
        assert found is not None
        assert found.offset == 10


def test_a_closed_consumer_hands_out_nothing(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_UNDISTURBED_S", 1000.0)
    where = _filled(bootstrap, topic, 10)
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([where])
    consumer.poll(5000, 1)
    consumer.close()
    with pytest.raises(Exception, match="closed"):
        consumer.poll(5000, 1)


def test_what_is_taken_back_meanwhile_is_not_handed_out_twice(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of leader takes back what is decoded while the application takes records."""
    monkeypatch.setattr(engines, "_UNDISTURBED_S", 1000.0)
    where = _filled(bootstrap, topic, 3_000)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        engine = engine_of(consumer)
        stopping = threading.Event()
        seen: list[int] = []
        before = -1

        def take_back() -> None:
            nonlocal before
            if not stopping.is_set():
                if len(seen) != before:  # Decoding takes its time, too.
                    before = len(seen)
                    engine._put_back(where)
                    engine.wake()
                engine._loop.call_later(0.005, take_back)

        engine._loop.call_soon_threadsafe(take_back)
        try:
            while len(seen) < 3_000:
                seen += [record.offset for record in consumer.poll(10_000, 7)]
        finally:
            stopping.set()
        assert seen == list(range(3_000))
