"""Conditions that narrow what is read: no row that fulfils them is left out, and those that are taken need no second look."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, NewTopic, Producer
from odradek.spark.batch import RangePartition
from odradek.spark.filtered_batch import NarrowedBatchReader
from odradek.spark.filters import narrowing
from odradek.spark.needed_ranges import Narrowing
from odradek.spark.options import read_options
from odradek.spark.ranges import OffsetRange
from odradek.testing.kit.embedded import EmbeddedBroker

_PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]
_ROWS = 6
Row = tuple[str, int, int, int]
"""Topic, partition, offset, time in milliseconds."""


def time_of(offset: int) -> int:
    """Times that do not grow with offsets."""
    return [5, 1, 4, 4, 2, 9][offset]


def rows() -> Iterator[Row]:
    for topic, partition in _PARTITIONS:
        for offset in range(_ROWS):
            yield topic, partition, offset, time_of(offset)


def fulfils(row: Row, condition: Filter) -> bool:
    topic, partition, offset, time_ms = row
    if isinstance(condition, IsNotNull):
        return True
    columns = {"topic": topic, "partition": partition, "offset": offset, "timestamp": datetime.fromtimestamp(time_ms / 1000, UTC)}
    have: Any = columns[condition.attribute[0]]  # type: ignore[attr-defined]
    want: Any = condition.value  # type: ignore[attr-defined]
    match condition:
        case EqualTo() | EqualNullSafe():
            return bool(have == want)
        case In():
            return have in want
        case GreaterThan():
            return bool(have > want)
        case GreaterThanOrEqual():
            return bool(have >= want)
        case LessThan():
            return bool(have < want)
        case LessThanOrEqual():
            return bool(have <= want)
    raise AssertionError(condition)


def on(column: str, values: st.SearchStrategy[Any], *kinds: Any) -> st.SearchStrategy[Filter]:
    compared: list[st.SearchStrategy[Filter]] = [st.builds(kind, st.just((column,)), values) for kind in kinds]
    return st.one_of(*compared, st.builds(In, st.just((column,)), st.lists(values, max_size=3).map(tuple)), st.just(IsNotNull((column,))))


_ORDERED = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
_TIMES = st.integers(-3, 11).map(lambda half: datetime.fromtimestamp(half / 2000 + 0.002, UTC))
_CONDITIONS = st.one_of(
    on("topic", st.sampled_from(["a", "b", "c"]), EqualTo, EqualNullSafe),
    on("partition", st.integers(-1, 4), *_ORDERED),
    on("offset", st.integers(-2, 8), *_ORDERED),
    on("timestamp", _TIMES, *_ORDERED),
)


def read(narrowed: Narrowing) -> set[Row]:
    """What a reader of that part would read."""
    found = set()
    for partition in narrowed.chosen(_PARTITIONS):
        since = narrowed.since_ms
        first = 0 if since is None else next((offset for offset in range(_ROWS) if time_of(offset) >= since), _ROWS)
        _, start, end = narrowed.needed_part(OffsetRange(partition, 0, _ROWS), first)
        found |= {(*partition, offset, time_of(offset)) for offset in range(start, end)}
    return found


@given(st.lists(_CONDITIONS, max_size=5))
def test_spark_finds_the_same_rows_with_and_without_pushing(conditions: list[Filter]) -> None:
    narrowed, left = narrowing(conditions)
    assert all(each in conditions for each in left)
    pushed = {row for row in read(narrowed) if all(fulfils(row, each) for each in left)}
    assert pushed == {row for row in rows() if all(fulfils(row, each) for each in conditions)}


def test_all_conditions_count() -> None:
    ends = [LessThan(("offset",), 5), LessThan(("offset",), 3), LessThanOrEqual(("offset",), 4), GreaterThan(("offset",), 1)]
    assert narrowing(ends) == (Narrowing(start=2, end=3), [])


@pytest.mark.parametrize(
    "condition",
    [
        IsNull(("offset",)),
        IsNotNull(("key",)),
        IsNotNull(("headers", "key")),
        Not(EqualTo(("offset",), 1)),
        EqualTo(("key",), b"x"),
        EqualTo(("offset",), 1.5),
        EqualTo(("offset",), None),
        EqualTo(("partition",), True),
        EqualTo(("headers", "offset"), 1),
        GreaterThan(("topic",), "a"),
        StringStartsWith(("topic",), "a"),
        LessThan(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
    ids=str,
)
def test_other_conditions_are_left_to_spark(condition: Filter) -> None:
    assert narrowing([condition]) == (Narrowing(), [condition])


def test_what_is_planned_and_read_is_narrow() -> None:
    with EmbeddedBroker(memory=True) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 3, 1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            base = int(time.time() * 1000) - 60_000  # Retention takes old records away.
            for number in range(30):
                producer.send("t", b"%d" % number, partition=number % 3, timestamp=base + number // 3)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "pushFilters": "true"}

        def planned(*conditions: Filter) -> list[OffsetRange]:
            reader = NarrowedBatchReader(read_options(options, streaming=False))
            list(reader.pushFilters(list(conditions)))
            found = [each for each in reader.partitions() if isinstance(each, RangePartition)]
            assert sum(batch.num_rows for each in found for batch in reader.read(each)) == sum(
                each.offset_range.end - each.offset_range.start for each in found
            )
            return [each.offset_range for each in found]

        t1 = TopicPartition("t", 1)
        assert len(planned()) == 3
        assert planned(EqualTo(("partition",), 1)) == [OffsetRange(t1, 0, 10)]
        assert planned(EqualTo(("partition",), 1), GreaterThan(("offset",), 6)) == [OffsetRange(t1, 7, 10)]
        late = GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp((base + 8) / 1000, UTC))
        assert planned(EqualTo(("partition",), 1), late) == [OffsetRange(t1, 8, 10)]
        assert planned(GreaterThan(("timestamp",), datetime.fromtimestamp((base + 99) / 1000, UTC))) == []
        assert planned(EqualTo(("topic",), "other")) == []
        assert planned(EqualTo(("partition",), 1), LessThan(("offset",), 0)) == []


def test_streams_push_nothing() -> None:
    with pytest.raises(ConfigError, match="pushFilters is only for batch queries: Spark does not push"):
        read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "pushFilters": "true"}, streaming=True)
