"""Translation of a batch query's filters into the part of the topics that is read. Pure: no IO."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from odradek.spark.needed_ranges import Narrowing

_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


def narrowing(filters: Sequence[Filter]) -> tuple[Narrowing, list[Filter]]:
    """Return the part to read for filters that are joined by AND, and the filters that Spark has to apply itself."""
    narrowed = Narrowing()
    left: list[Filter] = []
    for each in filters:
        found = _narrowed(narrowed, each)
        if found is None:
            left.append(each)
            continue
        narrowed = found
        if isinstance(each, (GreaterThan, GreaterThanOrEqual, EqualTo, EqualNullSafe)) and each.attribute == ("timestamp",):
            left.append(each)  # Timestamps may decrease with growing offsets: records after the first match may be older.
    return narrowed, left


def _narrowed(narrowed: Narrowing, condition: Filter) -> Narrowing | None:
    """Return the narrowing with one more filter, or None for a filter that does not restrict the read."""
    if isinstance(condition, IsNotNull):
        return narrowed if len(condition.attribute) == 1 and condition.attribute[0] in _NEVER_NULL else None
    if not isinstance(condition, (EqualTo, EqualNullSafe, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
        return None
    values: tuple[Any, ...] = tuple(condition.value) if isinstance(condition, In) else (condition.value,)
    match condition.attribute, condition:
        case ("topic",), EqualTo() | EqualNullSafe() | In() if _all(values, str):
            topics = frozenset(values)
            return narrowed._replace(topics=topics if narrowed.topics is None else narrowed.topics & topics)
        case ("partition",), EqualTo() | EqualNullSafe() | In() if _all(values, int):
            partitions = frozenset(values)
            return narrowed._replace(partitions=partitions if narrowed.partitions is None else narrowed.partitions & partitions)
        case ("offset",), EqualTo() | EqualNullSafe() if _all(values, int):
            return _between(narrowed, values[0], values[0] + 1)
        case ("offset",), GreaterThan() if _all(values, int):
            return _between(narrowed, values[0] + 1, None)
        case ("offset",), GreaterThanOrEqual() if _all(values, int):
            return _between(narrowed, values[0], None)
        case ("offset",), LessThan() if _all(values, int):
            return _between(narrowed, 0, values[0])
        case ("offset",), LessThanOrEqual() if _all(values, int):
            return _between(narrowed, 0, values[0] + 1)
        case ("timestamp",), EqualTo() | EqualNullSafe() | GreaterThan() | GreaterThanOrEqual() if _all(values, datetime):
            since_ms = max(0, int(values[0].timestamp() * 1000))
            return narrowed._replace(since_ms=max(since_ms, narrowed.since_ms or 0))
        case _:
            return None


def _all(values: Sequence[object], kind: type) -> bool:
    return all(type(value) is kind for value in values)


def _between(narrowed: Narrowing, start: int, end: int | None) -> Narrowing:
    ends = [each for each in (narrowed.end, end) if each is not None]
    return narrowed._replace(start=max(narrowed.start, start), end=min(ends) if ends else None)
