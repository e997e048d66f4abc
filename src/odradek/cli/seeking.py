"""Moves a consumer to where reading starts, and tells when it has come to where reading ends."""

from __future__ import annotations

from odradek.base.ids import TopicPartition
from odradek.client.consumer.blocking import Consumer
from odradek.client.types import ConsumerRecord

_IDLE_POLLS = 20
"""A member that is given no partition in as many polls (10 s; a coordinator answers every 5 s) is one of more members than partitions."""


def seek(consumer: Consumer, reading: list[TopicPartition], start: tuple[str, int]) -> list[str]:
    """Remarks on the partitions that begin elsewhere, because they do not have the offset that was asked for."""
    kind, number = start
    remarks: list[str] = []
    if kind == "beginning":
        consumer.seek_to_beginning()
    elif kind == "end":
        consumer.seek_to_end()
    elif kind == "offset":
        first, last = consumer.beginning_offsets(reading), consumer.end_offsets(reading)
        for partition in reading:
            nearest = min(max(number, first[partition]), last[partition])
            if nearest != number:
                has = f"has offsets {first[partition]} to {last[partition] - 1}" if first[partition] < last[partition] else "is empty"
                remarks.append(f"{partition.topic}-{partition.partition} {has}: reading from {nearest} instead of {number}")
            consumer.seek(partition, nearest)
    elif kind == "tail":
        first, last = consumer.beginning_offsets(reading), consumer.end_offsets(reading)
        for partition in reading:
            consumer.seek(partition, max(first[partition], last[partition] - number))
    else:
        ends = consumer.end_offsets(reading)
        for partition, found in consumer.offsets_for_times(dict.fromkeys(reading, number)).items():
            consumer.seek(partition, ends[partition] if found is None else found.offset)
    return remarks


class Ends:
    """The ends of partitions as they were at the beginning: what comes later is not read."""

    def __init__(self, consumer: Consumer, reading: list[TopicPartition]) -> None:
        self._consumer = consumer
        self._ends = consumer.end_offsets(reading)

    def before(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records that were there."""
        return [record for record in records if record.offset < self._ends[TopicPartition(record.topic, record.partition)]]

    def reached(self) -> bool:
        """Whether all of it is read."""
        return all(self._consumer.position(partition) >= end for partition, end in self._ends.items())


class EndsOfMember:
    """The ends of the partitions that a member has, as they were when it got them."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}
        self._idle = 0

    def before(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """All of them: they are committed."""
        return records

    def reached(self) -> bool:
        """Whether it has read what there was, or gets nothing to read."""
        consumer = self._consumer
        assigned = sorted(consumer.assignment())
        self._ends |= consumer.end_offsets([partition for partition in assigned if partition not in self._ends])
        self._idle = 0 if assigned or consumer.health().state != "stable" else self._idle + 1
        if self._idle == _IDLE_POLLS:
            return True
        return bool(assigned) and all(consumer.position(partition) >= self._ends[partition] for partition in assigned)
