"""Start and end of reading: seeks a consumer to the start of a range, and detects its end."""

from __future__ import annotations

from odradek.base.ids import TopicPartition
from odradek.cli.records.ranges import Log, Range, end_in, start_in
from odradek.client.consumer.blocking import Consumer
from odradek.client.types import ConsumerRecord

_IDLE_POLLS = 20
"""Polls (10 s) without partitions after which a member stops: the group has more members than partitions.

The coordinator responds every 5 s, so partitions for the member would have come within 10 s.
"""


def seek(consumer: Consumer, reading: list[TopicPartition], wanted: Range) -> tuple[list[str], Ends | None]:
    """Seek the consumer to the start of the range in each partition.

    Returns remarks on partitions that lack the wanted offset, so that reading starts at another, and the ends (None without an end).
    """
    if wanted.end is None and wanted.start.kind in ("beginning", "end"):
        (consumer.seek_to_beginning if wanted.start.kind == "beginning" else consumer.seek_to_end)()
        return [], None
    remarks: list[str] = []
    ends: dict[TopicPartition, int] = {}
    for partition, log in _logs(consumer, reading, wanted).items():
        start = start_in(wanted.start, log)
        asked = wanted.start.number
        if wanted.start.kind == "offset" and start != asked:
            has = f"has offsets {log.first} to {log.last - 1}" if log.first < log.last else "is empty"
            remarks.append(f"{partition.topic}-{partition.partition} {has}: reading from {start} instead of {asked}")
        consumer.seek(partition, start)
        if wanted.end is not None:
            ends[partition] = end_in(wanted.end, start, log)
    return remarks, Ends(consumer, ends) if wanted.end is not None else None


def _logs(consumer: Consumer, reading: list[TopicPartition], wanted: Range) -> dict[TopicPartition, Log]:
    last = consumer.end_offsets(reading)
    first = consumer.beginning_offsets(reading)
    times: list[dict[TopicPartition, int]] = []
    for position in (wanted.start, wanted.end):
        of_time = position is not None and position.kind == "time"
        found = consumer.offsets_for_times(dict.fromkeys(reading, position.number)) if position is not None and of_time else {}
        times.append({partition: each.offset for partition, each in found.items() if each is not None})
    return {each: Log(first[each], last[each], times[0].get(each), times[1].get(each)) for each in reading}


class Ends:
    """End offsets of reading (exclusive) by partition.

    A partition is read when the consumer's position has reached its end. The last offset may have no visible record: control records,
    records of aborted transactions and compacted records have offsets, too.
    """

    def __init__(self, consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
        self._consumer = consumer
        self._ends = ends
        self._open = set(ends)

    def before(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records before the ends."""
        return [record for record in records if record.offset < self._ends[TopicPartition(record.topic, record.partition)]]

    def reached(self) -> bool:
        """Return whether all partitions are read to their ends. Pause each partition that is."""
        done = [partition for partition in self._open if self._consumer.position(partition) >= self._ends[partition]]
        if done:
            self._consumer.pause(*done)
            self._open.difference_update(done)
        return not self._open


class EndsOfMember:
    """End offsets of the partitions of a group's member, as of the time when the member got each partition."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._idle = 0

    def before(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return all records: the consumer commits all of them, so all are printed."""
        return records

    def reached(self) -> bool:
        """Return whether the member has read its partitions to their ends, or gets no partitions."""
        consumer = self._consumer
        assigned = sorted(consumer.assignment())
        self._ends |= consumer.end_offsets([partition for partition in assigned if partition not in self._ends])
        self._idle = 0 if assigned or consumer.health().state != "stable" else self._idle + 1
        if self._idle == _IDLE_POLLS:
            return True
        return bool(assigned) and all(consumer.position(partition) >= self._ends[partition] for partition in assigned)
