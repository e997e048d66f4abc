"""Offset ranges: what a query reads, how a limit is shared among partitions, and what counts as lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.spark.options import EARLIEST, LATEST, OffsetSpec

Offsets = dict[TopicPartition, int]

StreamOffset = dict[str, dict[str, int]]
"""As Spark stores it: {"topic": {"0": 23}}, the connector's own form."""


class DataLoss(OdradekError):
    """Records that the query should have read are gone, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Set the option failOnDataLoss to false to read what is left instead of failing")


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int


def to_stream_offset(offsets: Mapping[TopicPartition, int]) -> StreamOffset:
    """Offsets as Spark stores them, in a stable order."""
    output: StreamOffset = {}
    for (topic, partition), offset in sorted(offsets.items()):
        output.setdefault(topic, {})[str(partition)] = offset
    return output


def from_stream_offset(offset: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of `to_stream_offset`."""
    return {
        TopicPartition(topic, int(partition)): int(value) for topic, partitions in offset.items() for partition, value in partitions.items()
    }


def resolve(name: str, spec: OffsetSpec, earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """The offset of every partition; ValueError when `spec` names other partitions than there are.

    Offsets given as numbers are not checked against the log here.
    """
    if not isinstance(spec, dict):
        return dict(earliest if spec == EARLIEST else latest)
    if set(spec) != set(earliest):
        missing, unknown = sorted(set(earliest) - set(spec)), sorted(set(spec) - set(earliest))
        parts = [f"it leaves out {', '.join(map(str, missing))}"] if missing else []
        parts += [f"it names {', '.join(map(str, unknown))}, which are not read"] if unknown else []
        raise ValueError(f"Option {name} must give an offset for exactly the partitions that are read: {' and '.join(parts)}")
    known = {EARLIEST: earliest, LATEST: latest}
    return {partition: known[offset][partition] if offset in known else offset for partition, offset in spec.items()}


def within_log(
    ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """The ranges that are not empty, cut to what the log has; DataLoss instead of cutting when that is asked for."""
    output: list[OffsetRange] = []
    for partition, start, end in ranges:
        first, last = earliest[partition], latest[partition]
        if fail_on_data_loss and start < end:
            if start < first:
                raise DataLoss(f"{partition}: offsets {start} to {min(first, end) - 1} are no longer in the log, which starts at {first}")
            if end > last:
                raise DataLoss(
                    f"{partition}: the log ends at {last}, before the wanted offset {end}; was the topic deleted and created again?"
                )
        cut = OffsetRange(partition, max(start, first), min(end, last))
        if cut.start < cut.end:
            output.append(cut)
    return output


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int) -> Offsets:
    """Ends that let at most `max_rows` offsets through in total, shared in proportion to what each partition has waiting.

    At least one offset of every partition that has any gets through (as in the connector, so that none starves), also when that makes
    more than `max_rows`.
    """
    waiting = {partition: max(0, end[partition] - start.get(partition, end[partition])) for partition in end}
    total = sum(waiting.values())
    if total <= max_rows:
        return dict(end)
    output: Offsets = {}
    for partition, size in waiting.items():
        share = size * max_rows / total
        rows = min(size, max(1 if size else 0, int(share)))
        output[partition] = end[partition] - size + rows
    return output
