"""What Spark's Kafka connector takes to write, in batch queries: columns, types, topics, partitions, save modes, options.

`{topic}` is a topic of two partitions that only this case and this side write to.
"""

from __future__ import annotations

from typing import NamedTuple


class SinkCase(NamedTuple):
    """Rows of a query in SQL, written with the option topic unless the options say otherwise."""

    name: str
    sql: str
    options: dict[str, str | None] = {}  # noqa: RUF012 - never changed
    """None: this option is not there, which the others have."""
    mode: str | None = "append"


_ONE = "select 'k' key, 'v' value"
_NO_TOPIC: dict[str, str | None] = {"topic": None}


def _columns(text: str, name: str = "") -> SinkCase:
    return SinkCase(f"columns: {name or text}", f"select {text}")


def _topic(text: str, **options: str | None) -> SinkCase:
    return SinkCase(f"topic: {text} {options or ''}".strip(), f"select 'k' key, 'v' value, {text}", {**_NO_TOPIC, **options})


def _option(name: str, value: str | None, sql: str = _ONE) -> SinkCase:
    return SinkCase(f"option: {name}={value}", sql, {name: value})


_HEADER = "named_struct('key', '{}', 'value', {})"


def _headers(*pairs: tuple[str, str]) -> str:
    return f"'k' key, 'v' value, array({', '.join(_HEADER.format(*pair) for pair in pairs)}) headers"


WRITES: list[SinkCase] = [
    SinkCase("columns: key and value", "select concat('k', id) key, concat('v', id) value from range(20)"),
    _columns("cast('k' as binary) key, cast('v' as binary) value"),
    _columns("cast(null as string) key, 'v' value, 0 partition"),
    _columns("'k' key, cast(null as string) value"),
    _columns("'k' key, cast(null as binary) value"),
    _columns("'k' key, null value"),
    _columns("null key, 'v' value, 1 partition"),
    _columns("'' key, '' value"),
    _columns("'v' value, 0 partition"),
    _columns("'k' key"),
    _columns("'k' key, 7 value"),
    _columns("7 key, 'v' value"),
    _columns("'k' key, array('v') value"),
    _columns("'k' key, struct('v') value"),
    _columns("'k' key, 'v' VALUE"),
    _columns("'k' key, 'v' value, 7 other, array(1) more"),
    _columns("'k' key, 'v' value, timestamp'2020-01-01' timestamp"),
    _columns("'k' key, 'v' value, 7L offset"),
    _columns(_headers(("h", "cast('1' as binary)"), ("h", "cast(null as binary)"), ("", "cast('' as binary)")), "headers"),
    _columns("'k' key, 'v' value, cast(null as array<struct<key:string,value:binary>>) headers", "no headers"),
    _columns("'k' key, 'v' value, cast(array() as array<struct<key:string,value:binary>>) headers", "empty headers"),
    _columns(
        "'k' key, 'v' value, array(named_struct('key', cast(null as string), 'value', cast('1' as binary))) headers",
        "a header without a key",
    ),
    _columns("'k' key, 'v' value, array(cast(null as struct<key:string,value:binary>)) headers", "a null header"),
    _columns(_headers(("h", "'1'")), "headers of strings"),
    _columns("'k' key, 'v' value, array(named_struct('value', cast('1' as binary), 'key', 'h')) headers", "headers the other way round"),
    _columns("'k' key, 'v' value, array(named_struct('name', 'h', 'value', cast('1' as binary))) headers", "headers with other fields"),
    _columns("'k' key, 'v' value, map('h', cast('1' as binary)) headers", "headers in a map"),
    _columns("'k' key, 'v' value, 1 partition"),
    _columns("'k' key, 'v' value, cast(null as int) partition"),
    SinkCase("columns: a partition that is not there", "select 'k' key, 'v' value, 2 partition", {"kafka.max.block.ms": "1500"}),
    _columns("'k' key, 'v' value, -1 partition"),
    _columns("'k' key, 'v' value, 1L partition"),
    _columns("'k' key, 'v' value, '1' partition"),
    SinkCase("columns: no rows", "select 'k' key, 'v' value where false"),
    _topic("'{topic}' topic"),
    _topic("'missing' other"),
    _topic("cast(null as string) topic"),
    _topic("7 topic"),
    _topic("cast('{topic}' as binary) topic"),
    _topic("' {topic} ' topic"),
    _topic("'not a topic' topic"),
    _topic("'' topic"),
    _topic("'elsewhere' topic", topic="{topic}"),
    _topic("cast(null as string) topic", topic="{topic}"),
    _topic("7 topic", topic="{topic}"),
    _topic("1 other", topic=" {topic} "),
    _topic("1 other", topic=""),
    _topic("1 other", topic="not a topic"),
    SinkCase(
        "topic: null in one row", "select concat('k', id) key, 'v' value, if(id = 3, null, '{topic}') topic from range(2, 4)", _NO_TOPIC
    ),
    *(SinkCase(f"mode: {mode}", _ONE, {}, mode) for mode in ("append", "overwrite", "ignore", "errorifexists", None)),
    _option("includeHeaders", "true"),
    _option("includeHeaders", "false", "select " + _headers(("h", "cast('1' as binary)"))),
    _option("includeHeaders", "yes"),
    _option("kafka.acks", "1"),
    _option("kafka.acks", "2"),
    _option("kafka.compression.type", "zstd"),
    _option("kafka.compression.type", "bogus"),
    _option("kafka.key.serializer", "x"),
    _option("kafka.value.serializer", "x"),
    _option("kafka.partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
    _option("kafka.partitioner.class", "x"),
    _option("kafka.interceptor.classes", "x"),
    _option("kafka.enable.idempotence", "false"),
    _option("kafka.linger.ms", "x"),
    _option("kafka.max.request.size", "100", "select 'k' key, repeat('v', 500) value"),
    _option("kafka.transactional.id", "t"),
    _option("kafka.no.such.key", "1"),
    _option("kafka.bootstrap.servers", None),
    _option("kafka.bootstrap.servers", ""),
    _option("KAFKA.ACKS", "all"),
    _option("tpic", "x"),
    _option("startingOffsets", "earliest"),
    _option("subscribe", "x"),
]
