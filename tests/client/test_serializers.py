"""Serializers of keys and values: by name and as functions; and what they cannot write."""

from __future__ import annotations

import json
import math
import struct
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ConfigError
from odradek.client import Consumer, Producer, ProducerRecord, RecordDeserializationError, SerializationError, TopicPartition
from odradek.client.core.serialization import CODECS, named_codec
from odradek.client.producer.serializers import take_serializers

JAVA = "org.apache.kafka.common.serialization."

# (class, value, bytes), as Kafka 4.3.1 writes them.
JAVAS: list[tuple[str, Any, str]] = [
    ("String", "añ€😀", "61c3b1e282acf09f9880"),
    ("String", "", ""),
    ("Bytes", b"\0\xff", "00ff"),
    ("ByteArray", b"\0\xff", "00ff"),
    ("ByteBuffer", b"\0\xff", "00ff"),
    ("Short", -2, "fffe"),
    ("Integer", 1 << 30, "40000000"),
    ("Integer", -1, "ffffffff"),
    ("Long", -(1 << 63), "8000000000000000"),
    ("Float", 0.1, "3dcccccd"),
    ("Float", -math.inf, "ff800000"),
    ("Double", 0.1, "3fb999999999999a"),
    ("Double", math.nan, "7ff8000000000000"),
    ("Boolean", True, "01"),
    ("Boolean", False, "00"),
    ("UUID", UUID(int=0xABCDEF), "30303030303030302d303030302d303030302d303030302d303030303030616263646566"),
]


@pytest.mark.parametrize(("name", "value", "data"), JAVAS)
def test_they_write_what_java_writes_and_read_it_again(name: str, value: Any, data: str) -> None:
    assert named_codec("key.serializer", f"{JAVA}{name}Serializer").write(value).hex() == data
    read = named_codec("key.deserializer", f"{JAVA}{name}Deserializer").read or bytes
    back = read(bytes.fromhex(data))
    assert back == pytest.approx(value, rel=1e-6, nan_ok=True) if isinstance(value, float) else back == value


def test_there_is_one_nan() -> None:
    (other,) = struct.unpack(">d", bytes.fromhex("fff8000000000123"))
    assert CODECS["double"].write(other).hex() == "7ff8000000000000"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", b"x"),
        ("string", "\ud800"),
        ("bytes", "x"),
        ("short", 1 << 15),
        ("integer", "1"),
        ("integer", True),
        ("integer", 1 << 31),
        ("long", 1 << 63),
        ("long", 1.0),
        ("float", 1e39),
        ("double", "1"),
        ("boolean", 1),
        ("uuid", str(UUID(int=1))),
        ("json", {1, 2}),
        ("void", 0),
    ],
)
def test_what_they_do_not_take_is_an_error_that_says_what_to_do(name: str, value: Any) -> None:
    found = take_serializers({"value_serializer": name})
    assert found is not None
    with pytest.raises(
        SerializationError, match=f"value of a record for topic t cannot be serialized by {name}: .*value.serializer"
    ) as caught:
        found.apply(ProducerRecord("t", value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "data"), [("boolean", b"\x02"), ("boolean", b""), ("void", b""), ("uuid", b"1"), ("integer", b"123")])
def test_what_they_do_not_read(name: str, data: bytes) -> None:
    read = CODECS[name].read
    assert read is not None
    with pytest.raises((ValueError, struct.error)):
        read(data)


def test_null_stays_null_and_functions_may_give_text() -> None:
    found = take_serializers({"value_serializer": json.dumps, "key.serializer": "void"})
    assert found is not None
    assert found.apply(ProducerRecord("t")) == ProducerRecord("t")
    assert found.apply(ProducerRecord("t", [1])).value == b"[1]"


def test_without_one_bytes_and_text_are_taken() -> None:
    found = take_serializers({"value_serializer": "integer"})
    assert found is not None
    assert found.apply(ProducerRecord("t", 1, "ä")).key == "ä".encode()
    with pytest.raises(TypeError, match="must be bytes, str or None"):
        found.apply(ProducerRecord("t", 1, 1))
    assert take_serializers({"value_serializer": None}) is None


@pytest.mark.parametrize("name", ["avro", f"{JAVA}LongDeserializer", f"{JAVA}ListSerializer", f"{JAVA}JsonSerializer", 7])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    with pytest.raises(
        ConfigError, match=r"configuration key.serializer: it must be a function of the key or value, or one of bytes, string"
    ):
        Producer(key_serializer=name)
    with pytest.raises(ConfigError, match="given twice"):
        Producer({"key.serializer": "json"}, key_serializer="json")


def test_what_is_sent_is_read_again(bootstrap: str, topic: str) -> None:
    sent = [(1, {"a": [1, None]}), (-(1 << 40), "x"), (None, 5), (2, None)]
    with Producer(bootstrap_servers=bootstrap, key_serializer=f"{JAVA}LongSerializer", value_serializer="json") as producer:
        for key, value in sent:
            producer.send(topic, value, key=key, partition=0)
        with pytest.raises(SerializationError, match="key of a record"):
            producer.send(topic, 1, key="x")
        (last,) = producer.send_many(topic, [["many"]], partition=0)  # type: ignore[list-item]
        assert last.result(30).offset == 4
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", key_deserializer=f"{JAVA}LongDeserializer", value_deserializer="json"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[tuple[Any, Any]] = []
        while len(found) < 5:
            found += [(record.key, record.value) for record in consumer.poll(10_000)]
    assert found == [*sent, (None, ["many"])]


def test_the_error_of_a_reader_has_the_record(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, "{", key="k", partition=0, timestamp=5).result(30)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(SerializationError) as caught:
            consumer.poll(10_000)
    assert isinstance(caught.value, RecordDeserializationError)
    assert (caught.value.part, caught.value.offset, caught.value.topic_partition) == ("value", 0, (topic, 0))
    assert (caught.value.record.key, caught.value.record.value, caught.value.record.timestamp) == (b"k", b"{", 5)
