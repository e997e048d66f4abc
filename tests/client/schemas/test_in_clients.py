"""Serializers and deserializers in producers and consumers of both kinds: never in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client import AsyncConsumer, AsyncProducer, Consumer, Producer, RecordDeserializationError, SerializationError, TopicPartition
from odradek.client.consumer.deserializers import Deserializers
from odradek.client.schemas import AvroDeserializer, AvroSerializer, JsonSerializer, SchemaDeserializer, SchemaRegistry
from odradek.client.types import ConsumerRecord
from odradek.testing import SchemaRegistryServer

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}


class Watched(SchemaRegistry):
    """Says in which threads it asked."""

    def __init__(self, url: str) -> None:
        super().__init__(url, retries_wait_ms=0, max_retries=0)
        self.threads: list[threading.Thread] = []
        ask = self._rest.ask

        def watched(*args: Any, **more: Any) -> Any:
            self.threads.append(threading.current_thread())
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            return ask(*args, **more)

        self._rest.ask = watched  # type: ignore[method-assign]


def test_blocking_clients(bootstrap: str, topic: str, server: SchemaRegistryServer) -> None:
    with Watched(server.url) as registry:
        with Producer(
            bootstrap_servers=bootstrap, key_serializer=JsonSerializer(registry, {}), value_serializer=AvroSerializer(registry, USER)
        ) as producer:
            for number in range(3):
                producer.send(topic, {"name": f"n{number}"}, key=number, partition=0, headers={"h": "1"})
            producer.send(topic, None, key=None, partition=0)
            with pytest.raises(SerializationError, match=f"value of a record for topic {topic} cannot be serialized by AvroSerializer"):
                producer.send(topic, {"name": 5})
        assert set(registry.threads) == {threading.current_thread()}, "in the thread of the caller"
    with Watched(server.url) as registry:
        both = SchemaDeserializer(registry)
        with Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", key_deserializer=both, value_deserializer=both
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = read(consumer, 4)
        assert [(record.key, record.value) for record in records] == [*((n, {"name": f"n{n}"}) for n in range(3)), (None, None)]
        assert records[0].headers == (("h", b"1"),)
        assert len(registry.threads) == 2, "once for each schema"


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += consumer.poll(10_000)
    return records


async def _asyncio_clients(bootstrap: str, topic: str, server: SchemaRegistryServer) -> None:
    registry = Watched(server.url)
    async with AsyncProducer(
        bootstrap_servers=bootstrap, value_serializer=AvroSerializer(registry, USER, schema_id_location="header")
    ) as producer:
        futures = [await producer.send(topic, {"name": str(number)}, partition=0) for number in range(20)]
        for future in futures:
            await future
    assert len(registry.threads) == 1
    async with AsyncConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=AvroDeserializer(registry)
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        records: list[ConsumerRecord] = []
        while len(records) < 20:
            records += await consumer.poll(10_000)
    assert [record.value["name"] for record in records] == [str(number) for number in range(20)]
    assert registry.threads[-1] is not threading.current_thread()
    registry.close()


def test_asyncio_clients(bootstrap: str, topic: str, server: SchemaRegistryServer) -> None:
    asyncio.run(_asyncio_clients(bootstrap, topic, server))


def test_a_registry_that_is_away_stops_the_reader_there_until_it_is_back(bootstrap: str, topic: str, server: SchemaRegistryServer) -> None:
    with SchemaRegistry(server.url) as registry:
        framed = JsonSerializer(registry, {}).serialize("j", "value", 1, [])
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [framed, framed, b"\x00\x00\x00\x00\x63x", framed, b"bad", framed], partition=0)
    with (
        Watched(server.url) as registry,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=SchemaDeserializer(registry)) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        for _ in range(2):
            server.fail(500)
            with pytest.raises(RecordDeserializationError, match="failure 500"):
                consumer.poll(10_000)
        assert consumer.position(TopicPartition(topic, 0)) == 0
        seen: list[Any] = []
        failed: list[int] = []
        while consumer.position(TopicPartition(topic, 0)) < 6:
            try:
                seen += [record.offset for record in consumer.poll(10_000)]
            except RecordDeserializationError as error:
                failed.append(error.offset)
                consumer.seek(TopicPartition(topic, 0), error.offset + 1)
        assert (seen, failed) == ([0, 1, 3, 5], [2, 4])


class Slow:
    """A deserializer that is ready only when it is told to."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.asked: list[bytes] = []

    def deserialize(self, topic: str, part: str, data: bytes, headers: Any) -> Any:
        return data.decode()

    def is_ready(self, part: str, data: bytes, headers: Any) -> bool:
        return data in self.known

    def prepare(self, part: str, data: bytes, headers: Any) -> bool:
        self.asked.append(data)
        self.known.add(data)
        return data != b"bad"


def record(value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, 0, None, value, ())


def test_what_is_prepared_is_each_once_up_to_the_first_failure() -> None:
    slow = Slow()
    both = Deserializers(None, slow)
    prepare = both.preparation([record(value) for value in (None, b"a", b"a", b"bad", b"c")])
    assert isinstance(prepare, Callable)  # type: ignore[arg-type]
    prepare()
    assert slow.asked == [b"a", b"bad"]
    assert both.preparation([record(b"a"), record(None)]) is None
    assert Deserializers(None, bytes.decode).preparation([record(b"x")]) is None
