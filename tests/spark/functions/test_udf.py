"""What a worker process does with a column, without Spark: what it builds and asks, and how often."""

from __future__ import annotations

import pickle

import pytest

from odradek.client.schemas import AvroSerializer, RegistryError, Schema, SchemaRegistry
from odradek.spark.functions import udf
from odradek.spark.functions.schema_location import place_of
from odradek.spark.functions.subjects import avro_reading, subject_reading
from odradek.spark.functions.udf import Reading, outcome_of
from odradek.testing import SchemaRegistryServer


def written(server: SchemaRegistryServer, schema: str, *values: object) -> list[bytes]:
    with SchemaRegistry(server.url) as registry:
        serializer = AvroSerializer(registry, schema)
        return [serializer.serialize("t", "value", value, []) for value in values]


def test_a_process_asks_once_for_all_batches_and_for_other_columns_too() -> None:
    with SchemaRegistryServer() as server:
        data = written(server, '"int"', 1, 2)
        reading = subject_reading(place_of(server.url, {}), "t-value", "latest", None, None, None)
        wider = subject_reading(place_of(server.url, {}), None, "latest", '"long"', None, None)
        asked = len(server.requests)
        for each in (reading, wider):
            assert isinstance(each, Reading)
            for _ in range(5):
                # As each task has it: unpickled.
                assert outcome_of(pickle.loads(pickle.dumps(each)), [*data, None]).values.to_pylist() == [1, 2, None]
        assert [request.path for request in server.requests[asked:]] == ["/schemas/ids/1"]


def test_a_reader_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Reading] = []
    rows = udf._rows
    monkeypatch.setattr(udf, "_rows", lambda reading: built.append(reading) or rows(reading))
    for _ in range(3):
        assert outcome_of(avro_reading(Schema('["null", "boolean"]'), None), [b"\x02\x01"]).values.to_pylist() == [True]
    assert len(built) == 1


def test_the_latest_schema_is_that_of_now() -> None:
    with SchemaRegistryServer() as server:
        place = place_of(server.url, {})
        record = '{"type": "record", "name": "R", "fields": [%s]}'
        found: list[str] = []
        for fields in ('{"name": "a", "type": "int"}', '{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 1}'):
            with SchemaRegistry(server.url) as registry:
                registry.register("t-value", Schema(record % fields))
            reading = subject_reading(place, "t-value", "latest", None, None, None)
            assert isinstance(reading, Reading)
            found.append(reading.type.simpleString())
        assert found == ["struct<a:int>", "struct<a:int,b:int>"]
        first = subject_reading(place, "t-value", 1, None, None, None)
        assert isinstance(first, Reading)
        assert first.type.simpleString() == "struct<a:int>"


def test_a_registry_that_cannot_be_asked_is_no_fault_of_the_records() -> None:
    server = SchemaRegistryServer()
    reading = subject_reading(place_of(server.url, {"max_retries": 0}), None, "latest", '"string"', None, None)
    assert isinstance(reading, Reading)
    server.close()
    with pytest.raises(RegistryError):
        outcome_of(reading, [b"\x00\x00\x00\x00\x05\x02a"])


def test_records_may_be_bytearrays() -> None:
    reading = avro_reading(Schema('"string"'), None)
    assert outcome_of(reading, [bytearray(b"\x02a")]).values.to_pylist() == ["a"]
