"""Checks of brokers by acknowledgements and samples: offsets and watermarks rise, and writes do not wait for too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import cast

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.floors import Floor
from odradek.testing.history.table import OK, SEND, Table

WATERMARKS = ("log start", "high watermark", "last stable offset")


def check_acked_offsets(table: Table, findings: Findings) -> None:
    """Add acked-offset-regression. A send's offset must exceed every offset of its partition that was acknowledged before the send began.

    The rule holds for aborted transactions, too, since their records use offsets. The extra key `unclean` (see `check_watermarks`) resets
    the partition's known offsets.
    """
    floors: dict[int, Floor] = {}
    tags, offsets, partitions, starts = table.tag, table.offset, table.partition, table.starts
    for number in range(len(table)):
        if number in table.extra:
            for partition in _unclean(table, number):
                floors.pop(partition, None)
        sends = [index for index in range(starts[number], starts[number + 1]) if tags[index] == SEND and offsets[index] >= 0]
        for index in sends:
            floor = floors.get(partitions[index])
            highest, witness = (-1, -1) if floor is None else floor.before(table.invoked[number])
            if offsets[index] <= highest:
                name, value = table.partition_name(partitions[index]), table.values[table.value[index]]
                text = f"{name}: {value!r} was acknowledged at {offsets[index]}, after {highest} had been"
                findings.add("acked-offset-regression", text, *table.operations([witness, number]))
        if table.completed[number] < inf:
            for index in sends:
                floor = floors.get(partitions[index])
                if floor is None:
                    floor = floors[partitions[index]] = Floor()
                floor.raise_to(table.completed[number], offsets[index], number)


def _unclean(table: Table, number: int) -> Iterator[int]:
    for topic, partition in cast("list[tuple[str, int]]", table.extra[number].get("unclean", ())):
        yield table.partition_number(topic, partition)


def check_watermarks(table: Table, findings: Findings) -> None:
    """Add watermark-regression and watermark-order, from samples in the extra key `watermarks`.

    A sample is [topic, partition, log start, high watermark, last stable offset]; each number may be null. A value must not be below a
    value that any process sampled before the operation with the new sample began. The extra key `unclean`, [[topic, partition], ...],
    reports elections that were allowed to lose records: it resets the known values of these partitions.
    """
    floors: dict[tuple[str, int, int], Floor] = {}
    for number, extra in table.extra.items():
        for topic, partition in cast("list[tuple[str, int]]", extra.get("unclean", ())):
            for which in range(len(WATERMARKS)):
                floors.pop((topic, partition, which), None)
        for topic, partition, *sample in samples(extra):
            start, high, stable = (each if each is None else int(cast(int, each)) for each in sample)
            told = [each for each in (start, stable, high) if each is not None]
            if told != sorted(told):
                text = f"{topic}-{partition}: log start {start}, last stable offset {stable}, high watermark {high}"
                findings.add("watermark-order", text, table.operation(number))
            for which, value in enumerate((start, high, stable)):
                if value is not None:
                    key = (topic, partition, which)
                    floor = floors.get(key)
                    if floor is None:
                        floor = floors[key] = Floor()
                    highest, witness = floor.before(table.invoked[number])
                    if value < highest:
                        text = f"{topic}-{partition}: the {WATERMARKS[which]} went from {highest} to {value}"
                        findings.add("watermark-regression", text, *table.operations([witness, number]))
                    floor.raise_to(table.completed[number], value, number)


def samples(extra: Mapping[str, object]) -> list[tuple[str, int, object, object, object]]:
    """Return the watermark samples of an operation."""
    return cast("list[tuple[str, int, object, object, object]]", extra.get("watermarks", []))


def log_starts(table: Table) -> dict[tuple[str, int], int]:
    """Return the highest sampled log start of each partition."""
    starts: dict[tuple[str, int], int] = {}
    for extra in table.extra.values():
        for topic, partition, start, _, _ in samples(extra):
            if isinstance(start, int):
                starts[(topic, partition)] = max(starts.get((topic, partition), 0), start)
    return starts


def longest_unavailability(table: Table) -> dict[str, tuple[float, float]]:
    """Return partition (`topic-n`) -> (seconds, end) of the longest wait for a successful send.

    A wait begins with the first send that was invoked after the last success or was open at that time. The wait ends with the next success.
    Where no success follows, the wait ends with the last failure. A send that never completed counts as a failure at its invocation.
    Time without a majority does not count: events report that time with the extra key `majority`, false and later true.
    """
    outages = list(_outages(table))
    waiting: dict[int, float] = {}
    succeeded: dict[int, float] = {}
    failed: dict[int, float] = {}
    longest: dict[int, tuple[float, float]] = {}

    def add(partition: int, since: float, now: float) -> None:
        if -inf < since <= now:
            time = now - since - sum(max(0.0, min(now, end) - max(since, start)) for start, end in outages)
            if partition not in longest or time > longest[partition][0]:
                longest[partition] = (time, now)

    tags, partitions, starts = table.tag, table.partition, table.starts
    for number in range(len(table)):
        invoked, now = table.invoked[number], table.completed[number]
        for index in range(starts[number], starts[number + 1]):
            if tags[index] != SEND:
                continue
            partition = partitions[index]
            if table.outcome[number] != OK:
                waiting[partition] = min(waiting.get(partition, inf), invoked)
                failed[partition] = max(failed.get(partition, -inf), now if now < inf else invoked)
                continue
            add(partition, max(min(waiting.pop(partition, inf), invoked), succeeded.get(partition, -inf)), now)
            succeeded[partition] = now
    for partition, since in waiting.items():
        add(partition, max(since, succeeded.get(partition, -inf)), failed[partition])
    return {table.partition_name(partition): wait for partition, wait in longest.items()}


def _outages(table: Table) -> Iterator[tuple[float, float]]:
    since: float | None = None
    for number, extra in table.extra.items():
        majority = extra.get("majority")
        if majority is False and since is None:
            since = table.completed[number]
        elif majority is True and since is not None:
            yield since, table.completed[number]
            since = None
    if since is not None:
        yield since, inf


def check_availability(waits: Mapping[str, tuple[float, float]], findings: Findings, limit: float) -> None:
    """Add unavailable for each partition whose longest wait (see `longest_unavailability`) exceeds `limit` seconds."""
    for name, (time, end) in waits.items():
        if time > limit:
            findings.add("unavailable", f"{name}: for {time:.1f} s up to {end:.3f} no send succeeded")
