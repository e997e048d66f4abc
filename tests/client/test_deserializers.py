"""Deserializers of keys and values: by name and as functions; and records that they cannot read."""

from __future__ import annotations

import struct

import pytest

from odradek.base.errors import ConfigError
from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.consumer.deserializers import RecordDeserializationError, take_deserializers


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("string", "ä".encode(), "ä"),
        ("json", b'{"a": [1]}', {"a": [1]}),
        ("short", struct.pack(">h", -2), -2),
        ("integer", struct.pack(">i", 7), 7),
        ("long", struct.pack(">q", 1 << 40), 1 << 40),
        ("float", struct.pack(">f", 0.5), 0.5),
        ("double", struct.pack(">d", 0.1), 0.1),
        ("org.apache.kafka.common.serialization.StringDeserializer", b"x", "x"),
        ("org.apache.kafka.common.serialization.LongDeserializer", struct.pack(">q", 5), 5),
        (bytes.upper, b"x", b"X"),
    ],
)
def test_what_they_make_of_bytes(name: object, data: bytes, value: object) -> None:
    found = take_deserializers({"value.deserializer": name})
    assert found is not None
    assert found.key is None
    assert found.value is not None
    assert found.value(data) == value


@pytest.mark.parametrize("name", ["bytes", None, "org.apache.kafka.common.serialization.ByteArrayDeserializer"])
def test_bytes_stay_bytes(name: object) -> None:
    assert take_deserializers({"key_deserializer": name}) is None


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"key\.deserializer.*string, json"):
        take_deserializers({"key_deserializer": "avro"})
    with pytest.raises(ConfigError, match="twice"):
        take_deserializers({"key_deserializer": "json", "key.deserializer": "json"})


def test_a_record_that_cannot_be_read_stops_the_reader_there_and_can_be_passed_over(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        producer.send_many(topic, [b"1", b"2", b"{", b"4", None], partition=0)
    zero = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        consumer.assign([zero])
        assert [record.value for record in consumer.poll(10_000)] == [1, 2]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match=f"value of {topic}-0 at offset 2") as caught:
                consumer.poll(10_000)
        assert consumer.position(zero) == 2
        consumer.seek(zero, caught.value.offset + 1)
        assert [record.value for record in consumer.poll(10_000)] == [4, None]
