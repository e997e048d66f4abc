"""Check of a read-process-write pipeline with exactly-once: each value of a source topic is in the sink topic once, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.events import Value
from odradek.testing.history.orders import READ_OK, Orders


class Copy(NamedTuple):
    """Pipeline from `source` to `sink`. `transform` returns the sink value of a source value, or None for a dropped value.

    Without `transform` sink values equal source values.
    """

    source: str
    sink: str
    transform: Callable[[Value], Value | None] | None = None


def check_copy(orders: Orders, copy: Copy, findings: Findings) -> None:
    """Add not-copied, copied-twice, copied-from-nothing and copy-order: compare the committed values of the sink with those of the source.

    Values of one source partition that are in one sink partition must keep their order. Call this check at the end, when the pipeline has
    caught up and a client has read the sink to its end. Only the orders show which values are committed, so record a final read of both
    topics.
    """
    table = orders.table
    expected: dict[Value, tuple[int, int]] = {}
    for partition, index, value in _committed(orders, copy.source):
        wanted = copy.transform(value) if copy.transform is not None else value
        if wanted is not None:
            expected[wanted] = (partition, index)
    counts: dict[Value, int] = {}
    last: dict[tuple[int, int], tuple[int, Value]] = {}
    for partition, index, value in _committed(orders, copy.sink):
        place = f"{table.partition_name(partition)} offset {orders.by_partition[partition].offsets[index]}"
        counts[value] = counts.get(value, 0) + 1
        if value not in expected:
            findings.add("copied-from-nothing", f"{place}: {value!r} has no input")
            continue
        if counts[value] > 1:
            findings.add("copied-twice", f"{place}: {value!r} is the {counts[value]}. copy")
            continue
        source, source_index = expected[value]
        before = last.get((source, partition))
        if before is not None and source_index < before[0]:
            name = table.partition_name(source)
            findings.add("copy-order", f"{place}: {value!r} comes after {before[1]!r}, in {name} before it")
        last[(source, partition)] = (source_index, value)
    for value, (source, index) in expected.items():
        if value not in counts:
            offset = orders.by_partition[source].offsets[index]
            findings.add("not-copied", f"{table.partition_name(source)} offset {offset}: {value!r} is not in {copy.sink}")


def _committed(orders: Orders, topic: str) -> list[tuple[int, int, Value]]:
    """Return partition, index and value of each committed value of a topic."""
    table = orders.table
    found: list[tuple[int, int, Value]] = []
    for partition, order in enumerate(orders.by_partition):
        if table.partitions[partition][0] == topic:
            for index, first in enumerate(order.values):
                for value in order.conflicts.get(index, (first,)):
                    if orders.visible(value) or (table.writer[value] < 0 and orders.reads[value] & READ_OK):
                        found.append((partition, index, table.values[value]))
    return found
