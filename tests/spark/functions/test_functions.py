"""The functions in Spark: one session and one registry for all of it; the examples of docs/spark-functions.md run here, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ConfigError
from odradek.client.schemas import (
    AvroSerializer,
    JsonSerializer,
    ProtobufSerializer,
    RegistryError,
    Schema,
    SchemaReference,
    SchemaRegistry,
    UnknownSchema,
)
from odradek.client.schemas.types import JSON
from odradek.spark.environment import use_this_python
from odradek.testing import SchemaRegistryServer
from tests.client.schemas.files import shop

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

use_this_python()
pyspark_sql = pytest.importorskip("pyspark.sql")

PAGE = (Path(__file__).parents[3] / "docs" / "spark-functions.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PRINTED = (
    "|     0|Assam|  2.5|",
    "|Assam|unknown|",
    "|this is not JSON ...|",
    "|            {3}|            {3}|",
    "[00 00 00 00 ",
)

TEA = {"type": "record", "name": "Tea", "fields": [{"name": "name", "type": "string"}, {"name": "price", "type": ["null", "double"]}]}
OLD = {
    "type": "record",
    "name": "Tea",
    "fields": [{"name": "name", "type": "string"}, {"name": "gone", "type": {"type": "map", "values": "int"}}],
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    builder = pyspark_sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer(user_info="me:topsecret") as server:
        yield server


def settings(server: SchemaRegistryServer) -> dict[str, Any]:
    return {"url": server.url, "basic.auth.user.info": "me:topsecret", "max.retries": 0, "missing.id.cache.ttl.sec": 3600}


def column(spark: Any, values: list[bytes | None]) -> Any:
    return spark.createDataFrame([(None if each is None else bytearray(each),) for each in values], "value binary")


def avro(server: SchemaRegistryServer, schema: Any, *values: Any) -> list[bytes]:
    with SchemaRegistry(settings(server)) as registry:
        serializer = AvroSerializer(registry, schema)
        return [serializer.serialize("teas", "value", value, []) for value in values]


def test_each_record_is_read_by_the_schema_that_wrote_it_and_the_registry_is_asked_once(spark: Any, server: SchemaRegistryServer) -> None:
    from odradek.spark.functions import from_registry

    old = avro(server, OLD, {"name": "Assam", "gone": {"x": 1}})
    new = avro(server, TEA, {"name": "Darjeeling", "price": 2.5})
    reading = from_registry("value", settings(server), subject="teas-value")
    asked = len(server.requests)
    rows = column(spark, [*old, *new, None]).select(reading)
    assert rows.columns == ["from_registry(value)"]
    assert rows.schema.fields[0].dataType.simpleString() == "struct<name:string,price:double>"
    with pytest.raises(Exception, match="the field price of the reader's schema has no default"):
        rows.collect()

    optional = {**TEA, "fields": [TEA["fields"][0], {**TEA["fields"][1], "default": None}]}  # type: ignore[index, dict-item]
    reader = from_registry("value", settings(server), reader_schema=json.dumps(optional), mode="PERMISSIVE")
    rows = column(spark, [*old, *new, None, b"\x00\x00\x00\x00\x63", b"plain"] * 40).coalesce(1).select(reader.alias("tea"))
    for _ in range(3):
        found = [None if row.tea is None else tuple(row.tea) for row in rows.collect()]
        assert sorted(found, key=str) == sorted([("Assam", None), ("Darjeeling", 2.5), None, None, None] * 40, key=str)
    paths = [each.path for each in server.requests[asked:]]
    # By worker process: the first query, and all of the others together.
    assert len([path for path in paths if path == "/schemas/ids/1"]) <= 2
    assert len([path for path in paths if path == "/schemas/ids/99"]) <= 1


def test_nothing_of_a_password_is_shown(spark: Any, server: SchemaRegistryServer, capsys: pytest.CaptureFixture[str]) -> None:
    from odradek.spark.functions import from_registry

    avro(server, TEA, {"name": "x", "price": None})
    reading = from_registry("value", server.url, subject="teas-value", basic_auth_user_info="me:topsecret")
    rows = column(spark, [b"x"]).select(reading)
    rows.explain(True)
    with pytest.raises(Exception, match="the value does not name a schema") as failed:
        rows.collect()
    with pytest.raises(RegistryError) as refused:
        from_registry("value", server.url, subject="teas-value", basic_auth_user_info="me:topsecret2")
    shown = f"{reading} {rows.columns} {rows.schema} {failed.value} {refused.value} {capsys.readouterr().out}"
    assert "from_registry" in shown
    assert "topsecret" not in shown


def test_failures_are_one_line(spark: Any) -> None:
    from odradek.spark.functions import from_avro, from_json

    for rows, why in (
        (column(spark, [b"\x02"]).select(from_avro("value", TEA)), "the value is truncated: it needs 1 more bytes, there are 0"),
        (column(spark, [b"{x"]).select(from_json("value", "a INT")), "this is not JSON of the column's type: 2 bytes, {x"),
    ):
        with pytest.raises(Exception, match="USER_RAISED_EXCEPTION") as failed:
            rows.collect()
        assert str(failed.value).splitlines()[0].startswith(f"[USER_RAISED_EXCEPTION] {why}")


def test_errors_keep_the_reason(spark: Any) -> None:
    from odradek.spark.functions import from_avro, from_json

    good = b"\x02a\x00"
    rows = column(spark, [good, b"\x02", None]).select(from_avro("value", TEA, errors=True).alias("read"))
    assert rows.schema["read"].dataType.simpleString() == "struct<value:struct<name:string,price:double>,error:string>"
    first, second, third = [row.read for row in rows.collect()]
    assert (first.value.name, first.error) == ("a", None)
    assert (second.value, second.error) == (None, "the value is truncated: it needs 1 more bytes, there are 0")
    assert (third.value, third.error) == (None, None)
    texts = [b'{"a":1}', b'{"a":"x"}', b"", b"null", b"[" * 3000, b'{"a":1}, "b":', b'{"a":\xff}', None]
    read = column(spark, texts).select(
        from_json("value", '{"type":"object","properties":{"a":{"type":"integer"}}}', errors=True).alias("r")
    )
    found = [(row.r.value and row.r.value.a, row.r.error and row.r.error[:50]) for row in read.collect()]
    bad = "this is not JSON of the column's type: "
    assert found[0] == (1, None)
    assert found[1:3] == [(None, f'{bad}9 bytes, {{"'), (None, f"{bad}there are n")]
    assert found[3] == found[7] == (None, None)
    assert all(value is None and error is not None for value, error in found[4:7])
    assert [
        row.n for row in column(spark, [b"[1]", b"{}"]).select(from_json("value", "array<int>", mode="permissive").alias("n")).collect()
    ] == [
        [1],
        None,
    ]


def test_json_and_protobuf_of_a_registry(spark: Any, server: SchemaRegistryServer) -> None:
    from odradek.spark.functions import from_registry

    with SchemaRegistry(settings(server)) as registry:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "other.json"}}}
        registry.register("other", Schema('{"type": "array", "items": {"type": "string"}}', JSON))
        referring = Schema(json.dumps(schema), JSON, (SchemaReference("other.json", "other", 1),))
        text = JsonSerializer(registry, referring).serialize("json", "value", {"a": 5, "b": ["x"]}, [])
        classes = shop()
        message = ProtobufSerializer(registry, classes["Refund"]).serialize("proto", "value", {"reason": "cold"}, [])
    asked = len(server.requests)
    rows = column(spark, [text, b"\x00", b"\x00\x00\x00\x00\x01{", None, b""])
    read = rows.select(from_registry("value", settings(server), subject="json-value", errors=True).alias("r"))
    reads = len(server.requests)
    found = [row.r.asDict(recursive=True) for row in read.collect()]
    assert found[0] == {"value": {"a": 5, "b": ["x"]}, "error": None}
    assert [each["error"] for each in found[1:]] == [
        "the value does not name a schema: 1 byte, 00",
        "this is not JSON of the column's type: 1 byte, {",
        None,
        "the value does not name a schema: 0 bytes, ",
    ]
    assert len(server.requests) == reads > asked
    read = column(spark, [message, text]).select(
        from_registry("value", settings(server), subject="proto-value", message="Refund", errors=True).alias("r")
    )
    first, second = [row.r for row in read.collect()]
    assert first.value.reason == "cold"
    assert second.error is not None


def test_a_folder_of_schemas(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.spark.functions import from_registry

    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "7.teas-value-v1.avsc").write_text('"string"')
    monkeypatch.chdir(tmp_path)
    rows = column(spark, [b"\x00\x00\x00\x00\x07\x06tea"]).select(
        from_registry("value", "schemas", subject="teas-value", version=1).alias("t")
    )
    assert [row.t for row in rows.collect()] == ["tea"]


def test_arguments_that_do_not_fit(spark: Any, server: SchemaRegistryServer) -> None:
    from odradek.spark.functions import from_json, from_protobuf, from_registry

    place = settings(server)
    for arguments, why in (
        ({}, "give subject or reader_schema"),
        ({"subject": "x", "reader_schema": '"int"'}, "give one of them"),
        ({"subject": "x", "version": 0}, "version must be `latest` or a number of at least 1, not 0"),
        ({"subject": "x", "mode": "DROPMALFORMED"}, "mode must be FAILFAST or PERMISSIVE, not DROPMALFORMED"),
        ({"subject": "x", "errors": "yes"}, "errors must be True or False"),
        ({"reader_schema": '"int"', "message": "M"}, "message is only for Protobuf"),
        ({"subject": "x", "no_such_key": "1"}, "no.such.key"),
    ):
        with pytest.raises(ConfigError, match=why):
            from_registry("value", place, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UnknownSchema, match="does not have version latest of subject nowhere"):
        from_registry("value", place, subject="nowhere")
    with pytest.raises(ConfigError, match="descriptors: /nowhere: No such file"):
        from_protobuf("value", "M", "/nowhere")
    with pytest.raises(ConfigError, match="schema must be a Spark type, DDL or a JSON Schema, not int"):
        from_json("value", 5)  # type: ignore[arg-type]


def test_what_is_written_is_read(spark: Any, server: SchemaRegistryServer) -> None:
    from odradek.spark.functions import from_registry, to_registry

    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "table", "type": {"type": "map", "values": ["null", "int"]}},
            {"name": "either", "type": ["null", "int", "string"]},
            {
                "name": "list",
                "type": {"type": "array", "items": {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["int", "string"]}]}},
            },
        ],
    }
    rows = spark.sql(
        "select named_struct('id', id, 'at', timestamp'2024-01-02 03:04:05.000006', 'table', map('a', 1, 'b', cast(null as int)),"
        " 'either', named_struct('member0', cast(null as int), 'member1', 'x'),"
        " 'list', array(named_struct('x', named_struct('member0', 5, 'member1', cast(null as string))))) row from range(3)"
    )
    written = rows.select("row", to_registry("row", settings(server), subject="all-value", schema=schema).alias("value"))
    again = written.select("row", from_registry("value", settings(server), subject="all-value").alias("again"))
    assert all(row.row == row.again for row in again.collect())
    bad = spark.sql("select named_struct('name', cast(null as string), 'price', 1.0D) row")
    with pytest.raises(Exception, match=r"USER_RAISED_EXCEPTION\] the value does not fit its Avro schema"):
        bad.select(to_registry("row", settings(server), subject="teas-value", schema=TEA)).collect()
    with SchemaRegistry(settings(server)) as registry:
        registry.register("json-value", Schema('{"type": "object", "properties": {"a": {"type": "integer"}}}', JSON))
        ProtobufSerializer(registry, shop()["Refund"]).serialize("proto", "value", {"reason": "cold"}, [])
    plain = spark.sql("select named_struct('a', 5, 'b', cast(null as string)) row union all select null")
    texts = [row.v for row in plain.select(to_registry("row", settings(server), subject="json-value").alias("v")).collect()]
    assert texts[0][5:] == b'{"a":5}'
    assert texts[1] is None
    messages = spark.sql("select named_struct('reason', 'cold') row").select(
        to_registry("row", settings(server), subject="proto-value", message="Refund").alias("value")
    )
    read = messages.select(from_registry("value", settings(server), subject="proto-value", message="shop.Refund").alias("r"))
    assert [row.r.reason for row in read.collect()] == ["cold"]


def test_a_stream(spark: Any, server: SchemaRegistryServer, tmp_path: Path) -> None:
    from odradek.spark.functions import from_registry

    records = avro(server, TEA, *({"name": f"t{number}", "price": number / 2} for number in range(20)))
    column(spark, [*records, b"?"]).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("value binary").parquet(str(tmp_path / "in"))
    read = stream.select(from_registry("value", settings(server), subject="teas-value", errors=True).alias("r")).select(
        "r.value.*", "r.error"
    )
    read.writeStream.format("memory").queryName("teas").trigger(availableNow=True).start().awaitTermination()
    found = spark.table("teas").collect()
    assert sorted(row.name for row in found if row.error is None) == sorted(f"t{number}" for number in range(20))
    assert len([row for row in found if row.error is not None]) == 1


@pytest.mark.parametrize(("code", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)), ids=["subject", "reader", "dead", "bare", "write"])
def test_examples_of_the_page(code: str, printed: str, spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with SchemaRegistryServer() as server:
        with SchemaRegistry(server.url) as registry:
            value = AvroSerializer(registry, TEA).serialize("teas", "value", {"name": "Assam", "price": 2.5}, [])
        rows = spark.createDataFrame([(bytearray(value), "teas", 0, 0)], "value binary, topic string, partition int, offset bigint")
        exec(code.replace("http://localhost:8081", server.url), {"spark": spark, "rows": rows})
    assert printed in capsys.readouterr().out
