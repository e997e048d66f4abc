"""Offset ranges: what a query reads, how partitions share a limit, and what counts as data loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.spark.option_keys import EARLIEST, LATEST, OffsetSpec

Offsets = dict[TopicPartition, int]

TopicIds = Mapping[str, str]
"""Topic -> its id in Kafka's text form. Topics of brokers or checkpoints without ids have no entry."""

TOPIC_IDS: Final = "@topicIds"
"""Key of the ids in a stream's offset: a topic cannot have this name."""

StreamOffset = dict[str, dict[str, Any]]
"""Offset as Spark stores it: {"topic": {"0": 23}}, the connector's form, with {"@topicIds": {"topic": "..."}} beside the topics.

The topic's id is part of an offset: a topic that is deleted and created again has other records at the same offsets.
"""


class DataLoss(OdradekError):
    """Error for lost records that the query should have read, with failOnDataLoss=true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Set the option failOnDataLoss to false to read the remaining data")


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int


def to_stream_offset(offsets: Mapping[TopicPartition, int], ids: TopicIds | None = None) -> StreamOffset:
    """Return offsets as Spark stores them, in a stable order, with the topic ids that are known."""
    output: StreamOffset = {}
    for (topic, partition), offset in sorted(offsets.items()):
        output.setdefault(topic, {})[str(partition)] = offset
    known = {topic: ids[topic] for topic in output if topic in ids} if ids else {}
    if known:
        output[TOPIC_IDS] = known
    return output


def from_stream_offset(offset: Mapping[str, Mapping[str, Any]]) -> Offsets:
    """Return the offsets from the form of `to_stream_offset`."""
    return {
        TopicPartition(topic, int(partition)): int(value)
        for topic, partitions in offset.items()
        if topic != TOPIC_IDS
        for partition, value in partitions.items()
    }


def ids_of(offset: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    """Return the topic ids from the form of `to_stream_offset`; empty for an offset of the connector, or of an older release."""
    return {topic: str(topic_id) for topic, topic_id in offset.get(TOPIC_IDS, {}).items()}


def made_again(before: TopicIds, after: TopicIds) -> dict[str, str]:
    """Return an explanation for each topic that was deleted and created again. A topic with an unknown id counts as unchanged."""
    return {
        topic: f"topic {topic} was deleted and created again: its id was {old}, and now is {after[topic]}"
        for topic, old in sorted(before.items())
        if after.get(topic, old) != old
    }


def resolve(name: str, spec: OffsetSpec, earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """Return the offset of every partition. Raises ValueError when `spec` names other partitions than `earliest`.

    Numbers in `spec` are not checked against the log here.
    """
    if not isinstance(spec, dict):
        return dict(earliest if spec == EARLIEST else latest)
    exactly(name, spec, earliest)
    known = {EARLIEST: earliest, LATEST: latest}
    return {partition: known[offset][partition] if offset in known else offset for partition, offset in spec.items()}


def exactly(name: str, given: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int]) -> None:
    """Raise ValueError when the option `name` names other partitions than the query reads."""
    if set(given) != set(read):
        missing, unknown = sorted(set(read) - set(given)), sorted(set(given) - set(read))
        parts = [f"it omits {', '.join(map(str, missing))}"] if missing else []
        parts += [f"it names {', '.join(map(str, unknown))}, which are not read"] if unknown else []
        raise ValueError(f"Option {name} must name exactly the partitions that are read: {' and '.join(parts)}")


def in_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """Raise ValueError when a partition would start after its end: the requested records do not exist."""
    for partition, first in start.items():
        if first > end[partition]:
            raise ValueError(
                f"{partition}: the starting offset {first} is behind the ending offset {end[partition]}; change the options "
                "startingOffsets and endingOffsets, or their timestamps"
            )


def within_log(
    ranges: Iterable[OffsetRange], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """Return the non-empty ranges, limited to the offsets in the log.

    With `fail_on_data_loss` raises DataLoss for a range that exceeds the log.
    """
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
        in_log = OffsetRange(partition, max(start, first), min(end, last))
        if in_log.start < in_log.end:
            output.append(in_log)
    return output


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int) -> Offsets:
    """Return ends with about `max_rows` offsets in total, shared in proportion to the partitions' lags.

    Every partition with a lag gets at least one offset, even if the total then exceeds `max_rows`, so that none starves. The calculation
    uses floating point in the connector's order: a query that moves from the connector then has the same micro-batches. When the total lag
    equals `max_rows`, one offset may be left for the next micro-batch.
    """
    waiting = {partition: size for partition in end if (size := end[partition] - start.get(partition, end[partition])) > 0}
    total = sum(waiting.values())
    output = dict(end)
    for partition, size in waiting.items():
        share = max_rows * (size / total)
        rows = math.ceil(share) if share < 1 else math.floor(share)
        output[partition] -= max(0, size - rows)
    return output


def divided(ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Return the ranges in chunks of at most `max_records` offsets, in at least about `min_partitions` chunks, as the connector divides
    them.

    As in the connector `min_partitions` is only a target: chunks smaller than an even share stay whole, larger ones are divided in
    proportion to their sizes.
    """
    pieces = [piece for each in ranges for piece in _cut(each, 1 if max_records is None else -(-_size(each) // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(map(_size, pieces))
    whole = [each for each in pieces if _share(_size(each), total, min_partitions) == 1]
    # If one chunk of a partition stays whole, its other chunks do too: they are hardly larger.
    kept = {each.topic_partition for each in whole}
    left, weight = max(min_partitions - len(whole), 1), total - sum(map(_size, whole))
    return [piece for each in pieces for piece in _cut(each, 1 if each.topic_partition in kept else _share(_size(each), weight, left))]


def _share(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)


def _size(offset_range: OffsetRange) -> int:
    return offset_range.end - offset_range.start


def _cut(offset_range: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    """Yield chunks as even as possible, the smaller ones first, none of them empty."""
    partition, start, end = offset_range
    for left in range(min(pieces, end - start), 0, -1):
        middle = start + (end - start) // left
        yield OffsetRange(partition, start, middle)
        start = middle
