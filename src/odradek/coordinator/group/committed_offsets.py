"""Committed offsets of a shard in their encoded form, with a committed view beside the latest one.

An offset keeps the encoded value of its record, which is decoded on demand. The tables are nested (group, topic, partition). So the offsets
of a group or of a deleted topic are found without a scan of all offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NewType

from odradek.base.undo import JournaledDict, UndoJournal, VersionedDict
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.records import native

_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">q")
_VALUE: Final = _LONG.size
"""Position of the record's value in a stored offset."""

StoredOffset = NewType("StoredOffset", bytes)
"""Offset of the record in `__consumer_offsets` (8 bytes), followed by the record's value with its version: 1 object for each offset."""


def stored_offset(record_offset: int, value: bytes) -> StoredOffset:
    """Return the stored form of a record's value; `record_offset` is the record's offset in the log."""
    return StoredOffset(_LONG.pack(record_offset) + value)


def stored_offsets(record_offset: int, records: Sequence[tuple[bytes, bytes]]) -> dict[int, StoredOffset]:
    """Return partition -> stored offset of a topic's commits; the last commit of a partition counts.

    The records are keys and values with consecutive offsets, the first at `record_offset`.
    """
    return native.codec.numbered(records, record_offset)  # type: ignore[return-value]  # A StoredOffset is made of bytes.


def record_offset_of(stored: StoredOffset) -> int:
    """Return the offset of the record in the log."""
    return int(_LONG.unpack_from(stored)[0])


def decoded(stored: StoredOffset) -> OffsetCommitValue:
    """Return the decoded value of the record."""
    (version,) = _SHORT.unpack_from(stored, _VALUE)
    return OffsetCommitValue.decode(memoryview(stored)[_VALUE + 2 :], version)


def is_expired(stored: StoredOffset, now_ms: int, base_timestamp: int | None, retention_ms: int) -> bool:
    """Return whether the offset has expired at `now_ms`.

    The record's expire timestamp decides, if there is one. Otherwise `retention_ms` counts from `base_timestamp`, or from the commit with
    None.
    """
    if stored[_VALUE + 1] == 1:
        expire_timestamp = decoded(stored).expire_timestamp
        if expire_timestamp != -1:
            return now_ms >= expire_timestamp
    base = base_timestamp if base_timestamp is not None else _commit_timestamp(stored)
    return now_ms - base >= retention_ms


def _commit_timestamp(stored: StoredOffset) -> int:
    version = stored[_VALUE + 1]
    # Layout: version, offset, leader epoch (versions 3 and 4 only), metadata with its length in front, timestamp.
    if version == 4:
        length = stored[_VALUE + 14]
        if length >= 0x80:
            return decoded(stored).commit_timestamp
        return int(_LONG.unpack_from(stored, _VALUE + 14 + length)[0])
    position = _VALUE + (14 if version == 3 else 10)
    return int(_LONG.unpack_from(stored, position + 2 + _SHORT.unpack_from(stored, position)[0])[0])


PartitionOffsets = VersionedDict[int, StoredOffset]
TopicOffsets = VersionedDict[str, PartitionOffsets]


class OffsetTable:
    """Table group -> topic -> partition -> offset; empty inner tables are removed."""

    __slots__ = ("_journal", "groups")

    def __init__(self, journal: UndoJournal) -> None:
        self._journal = journal
        self.groups: VersionedDict[str, TopicOffsets] = VersionedDict(journal)

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self.groups.values() for partitions in topics.values())

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        topics = self.groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, offset: StoredOffset) -> None:
        self._table(group_id, topic)[partition] = offset

    def put_all(self, group_id: str, topic: str, offsets: Mapping[int, StoredOffset]) -> None:
        """Store the offsets by partition as one change."""
        self._table(group_id, topic).put_all(offsets)

    def _table(self, group_id: str, topic: str) -> PartitionOffsets:
        topics = self.groups.get(group_id)
        if topics is None:
            topics = self.groups[group_id] = VersionedDict(self._journal)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = VersionedDict(self._journal)
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        topics = self.groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return None
        removed = partitions.pop(partition)
        if not partitions:
            topics.pop(topic)
        if not topics:
            self.groups.pop(group_id)
        return removed

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, StoredOffset]]:
        """Yield (topic, partition, offset) of a group's latest offsets. The table must not change during the iteration."""
        topics = self.groups.get(group_id)
        if topics is not None:
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield topic, partition, offset

    def topic(self, group_id: str, topic: str, *, committed: bool) -> PartitionOffsets | None:
        """Return the table of a topic in a group, from the committed or from the latest state; None without offsets."""
        topics = self.groups.committed(group_id) if committed else self.groups.get(group_id)
        if topics is None:
            return None
        return topics.committed(topic) if committed else topics.get(topic)

    def topics(self, group_id: str, *, committed: bool) -> list[tuple[str, PartitionOffsets]]:
        """Return all topics of a group with their tables, from the committed or from the latest state."""
        topics = self.groups.committed(group_id) if committed else self.groups.get(group_id)
        if topics is None:
            return []
        return list(topics.committed_items() if committed else topics.items())


class PendingOffsets:
    """Offsets written by open transactions, by producer; and the producers with pending offsets, by group and partition."""

    __slots__ = ("_by_producer", "_journal", "_open")

    def __init__(self, journal: UndoJournal) -> None:
        self._journal = journal
        self._by_producer: JournaledDict[int, JournaledDict[tuple[str, str, int], StoredOffset]] = JournaledDict(journal)
        self._open: JournaledDict[str, JournaledDict[tuple[str, int], frozenset[int]]] = JournaledDict(journal)

    def put(self, producer_id: int, group_id: str, topic: str, partition: int, offset: StoredOffset) -> None:
        pending = self._by_producer.get(producer_id)
        if pending is None:
            pending = self._by_producer[producer_id] = JournaledDict(self._journal)
        pending[(group_id, topic, partition)] = offset
        opened = self._open.get(group_id)
        if opened is None:
            opened = self._open[group_id] = JournaledDict(self._journal)
        producers = opened.get((topic, partition)) or frozenset[int]()
        if producer_id not in producers:
            opened[(topic, partition)] = producers | {producer_id}

    def by_producer(self) -> dict[int, dict[tuple[str, str, int], StoredOffset]]:
        """Return the pending offsets by producer and by (group, topic, partition)."""
        return {producer_id: dict(offsets.items()) for producer_id, offsets in self._by_producer.items()}

    def has_group(self, group_id: str) -> bool:
        """Return whether an open transaction has offsets of the group."""
        return group_id in self._open

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        opened = self._open.get(group_id)
        return opened is not None and (topic, partition) in opened

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """Return (topic, partition) of all pending offsets of a group."""
        opened = self._open.get(group_id)
        return [] if opened is None else list(opened.keys())

    def of_topics(self, topics: frozenset[str]) -> list[tuple[str, str, int]]:
        """Return (group, topic, partition) of all pending offsets of the topics."""
        return [(group_id, topic, partition) for group_id, opened in self._open.items() for topic, partition in opened if topic in topics]

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove all producers' pending offsets of a partition (for a tombstone)."""
        opened = self._open.get(group_id)
        producers = None if opened is None else opened.get((topic, partition))
        for producer_id in sorted(producers or ()):
            pending = self._by_producer.get(producer_id)
            if pending is not None:
                pending.pop((group_id, topic, partition))
            self._close(producer_id, group_id, topic, partition)

    def take(self, producer_id: int) -> list[tuple[str, str, int, StoredOffset]]:
        """End a producer's transaction, and return its pending offsets as (group, topic, partition, offset)."""
        pending = self._by_producer.pop(producer_id)
        if pending is None:
            return []
        taken = [(*key, offset) for key, offset in pending.items()]
        for group_id, topic, partition, _ in taken:
            self._close(producer_id, group_id, topic, partition)
        return taken

    def _close(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        opened = self._open.get(group_id)
        producers = None if opened is None else opened.get((topic, partition))
        if opened is None or producers is None:
            return
        remaining = producers - {producer_id}
        if remaining:
            opened[(topic, partition)] = remaining
            return
        opened.pop((topic, partition))
        if not opened:
            self._open.pop(group_id)
