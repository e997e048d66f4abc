"""Offset ranges: what a query reads, how a limit is shared among partitions, and what counts as lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.spark.options import EARLIEST, LATEST, OffsetSpec

Offsets = dict[TopicPartition, int]

TopicIds = Mapping[str, str]
"""Topic -> its id in Kafka's text form. A topic whose broker tells no ids, and one of a checkpoint without ids, has no entry."""

TOPIC_IDS: Final = "@topicIds"
"""The key of the ids in a stream's offset: no topic can have this name."""

StreamOffset = dict[str, dict[str, Any]]
"""As Spark stores it: {"topic": {"0": 23}}, the connector's own form, and beside the topics {"@topicIds": {"topic": "..."}}.

An offset means nothing without the topic's id: a topic that is deleted and created again has other records at the same offsets."""


class DataLoss(OdradekError):
    """Records that the query should have read are gone, and failOnDataLoss is true."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Set the option failOnDataLoss to false to read what is left instead of failing")


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int


def to_stream_offset(offsets: Mapping[TopicPartition, int], ids: TopicIds | None = None) -> StreamOffset:
    """Offsets as Spark stores them, in a stable order, with the ids of their topics as far as they are known."""
    output: StreamOffset = {}
    for (topic, partition), offset in sorted(offsets.items()):
        output.setdefault(topic, {})[str(partition)] = offset
    known = {topic: ids[topic] for topic in output if topic in ids} if ids else {}
    if known:
        output[TOPIC_IDS] = known
    return output


def from_stream_offset(offset: Mapping[str, Mapping[str, Any]]) -> Offsets:
    """The offsets of `to_stream_offset`."""
    return {
        TopicPartition(topic, int(partition)): int(value)
        for topic, partitions in offset.items()
        if topic != TOPIC_IDS
        for partition, value in partitions.items()
    }


def ids_of(offset: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    """The topic ids of `to_stream_offset`; none of an offset of the connector, or of an older release."""
    return {topic: str(topic_id) for topic, topic_id in offset.get(TOPIC_IDS, {}).items()}


def made_again(before: TopicIds, after: TopicIds) -> dict[str, str]:
    """Return for each topic that was deleted and created again what has happened; topics with an unknown id are taken for the same."""
    return {
        topic: f"topic {topic} was deleted and created again: its id was {old}, and now is {after[topic]}"
        for topic, old in sorted(before.items())
        if after.get(topic, old) != old
    }


def resolve(name: str, spec: OffsetSpec, earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """The offset of every partition; ValueError when `spec` names other partitions than there are.

    Offsets given as numbers are not checked against the log here.
    """
    if not isinstance(spec, dict):
        return dict(earliest if spec == EARLIEST else latest)
    exactly(name, spec, earliest)
    known = {EARLIEST: earliest, LATEST: latest}
    return {partition: known[offset][partition] if offset in known else offset for partition, offset in spec.items()}


def exactly(name: str, given: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int]) -> None:
    """ValueError when the option `name` gives something for other partitions than those that are read."""
    if set(given) != set(read):
        missing, unknown = sorted(set(read) - set(given)), sorted(set(given) - set(read))
        parts = [f"it leaves out {', '.join(map(str, missing))}"] if missing else []
        parts += [f"it names {', '.join(map(str, unknown))}, which are not read"] if unknown else []
        raise ValueError(f"Option {name} must say something of exactly the partitions that are read: {' and '.join(parts)}")


def in_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """ValueError when a batch would begin behind its end: what was asked for is not there to be read."""
    for partition, first in start.items():
        if first > end[partition]:
            raise ValueError(
                f"{partition}: the starting offset {first} is behind the ending offset {end[partition]}; "
                "give others by the options startingOffsets and endingOffsets, or their times"
            )


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
    """Ends that let about `max_rows` offsets through in total, shared in proportion to what each partition has waiting.

    At least one offset of every partition that has any gets through, so that none starves, also when that makes more than `max_rows`.
    Counted in floating point, in the connector's order, so that a query that moves from one to the other has the same micro-batches: when
    just as many wait as are allowed, one may stay for the next.
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
    """The ranges in pieces of at most `max_records` offsets, and in at least about `min_partitions` pieces; the pieces are the connector's.

    As there `min_partitions` is no promise: pieces that are smaller than an even share stay whole, and larger ones are divided in
    proportion to their sizes.
    """
    pieces = [piece for each in ranges for piece in _cut(each, 1 if max_records is None else -(-_size(each) // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(map(_size, pieces))
    whole = [each for each in pieces if _share(_size(each), total, min_partitions) == 1]
    # Once a piece of a partition stays whole, so do the others: they are hardly larger.
    kept = {each.topic_partition for each in whole}
    left, weight = max(min_partitions - len(whole), 1), total - sum(map(_size, whole))
    return [piece for each in pieces for piece in _cut(each, 1 if each.topic_partition in kept else _share(_size(each), weight, left))]


def _share(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)


def _size(offset_range: OffsetRange) -> int:
    return offset_range.end - offset_range.start


def _cut(offset_range: OffsetRange, pieces: int) -> Iterator[OffsetRange]:
    """Pieces as even as offsets allow, the smaller ones first, none of them empty."""
    partition, start, end = offset_range
    for left in range(min(pieces, end - start), 0, -1):
        middle = start + (end - start) // left
        yield OffsetRange(partition, start, middle)
        start = middle
