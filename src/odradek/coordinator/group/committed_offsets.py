"""The offsets of a shard, as compact as they lie in the log, with the committed view beside the latest one.

An offset keeps the encoded value of its record and is decoded when somebody asks. The tables are nested (group, topic, partition), so that
what concerns a group or a deleted topic is found without walking over all offsets.
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
"""Where the value begins in a stored offset."""

StoredOffset = NewType("StoredOffset", bytes)
"""Where the record lies in `__consumer_offsets`, eight bytes, and the record's value with its version in front: one object an offset."""


def stored_offset(record_offset: int, value: bytes) -> StoredOffset:
    """Of the record at `record_offset`."""
    return StoredOffset(_LONG.pack(record_offset) + value)


def stored_offsets(record_offset: int, records: Sequence[tuple[bytes, bytes]]) -> dict[int, StoredOffset]:
    """Of a topic's commits (keys and values that follow one another, the first at `record_offset`) by partition; the last one counts."""
    return native.codec.numbered(records, record_offset)  # type: ignore[return-value]  # A StoredOffset is made of bytes.


def record_offset_of(stored: StoredOffset) -> int:
    """The record's own offset."""
    return int(_LONG.unpack_from(stored)[0])


def decoded(stored: StoredOffset) -> OffsetCommitValue:
    """What was committed."""
    (version,) = _SHORT.unpack_from(stored, _VALUE)
    return OffsetCommitValue.decode(memoryview(stored)[_VALUE + 2 :], version)


def is_expired(stored: StoredOffset, now_ms: int, base_timestamp: int | None, retention_ms: int) -> bool:
    """By its own expire timestamp when it has one, else by the age of `base_timestamp` or of the commit."""
    if stored[_VALUE + 1] == 1:
        expire_timestamp = decoded(stored).expire_timestamp
        if expire_timestamp != -1:
            return now_ms >= expire_timestamp
    base = base_timestamp if base_timestamp is not None else _commit_timestamp(stored)
    return now_ms - base >= retention_ms


def _commit_timestamp(stored: StoredOffset) -> int:
    version = stored[_VALUE + 1]
    # Version and offset, in versions 3 and 4 the leader epoch, the metadata behind its length, the timestamp.
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
    """group -> topic -> partition -> offset; empty inner tables are removed."""

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
        """Partition -> offset, as one change."""
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
        """(topic, partition, offset) of a group's latest offsets, while nothing is changed."""
        topics = self.groups.get(group_id)
        if topics is not None:
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield topic, partition, offset

    def topic(self, group_id: str, topic: str, *, committed: bool) -> PartitionOffsets | None:
        """The table of a topic in a group, by the latest or by the committed state."""
        topics = self.groups.committed(group_id) if committed else self.groups.get(group_id)
        if topics is None:
            return None
        return topics.committed(topic) if committed else topics.get(topic)

    def topics(self, group_id: str, *, committed: bool) -> list[tuple[str, PartitionOffsets]]:
        """All topics of a group with their tables."""
        topics = self.groups.committed(group_id) if committed else self.groups.get(group_id)
        if topics is None:
            return []
        return list(topics.committed_items() if committed else topics.items())


class PendingOffsets:
    """What open transactions wrote, by producer; and which producers hold something back of a group's partition."""

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
        """Return what is pending, by producer and by (group, topic, partition)."""
        return {producer_id: dict(offsets.items()) for producer_id, offsets in self._by_producer.items()}

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction with offsets of the group is open."""
        return group_id in self._open

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        opened = self._open.get(group_id)
        return opened is not None and (topic, partition) in opened

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """(topic, partition) of all that is pending in a group."""
        opened = self._open.get(group_id)
        return [] if opened is None else list(opened.keys())

    def of_topics(self, topics: frozenset[str]) -> list[tuple[str, str, int]]:
        """(group, topic, partition) of all that is pending for the topics."""
        return [(group_id, topic, partition) for group_id, opened in self._open.items() for topic, partition in opened if topic in topics]

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone: nobody's pending offset remains."""
        opened = self._open.get(group_id)
        producers = None if opened is None else opened.get((topic, partition))
        for producer_id in sorted(producers or ()):
            pending = self._by_producer.get(producer_id)
            if pending is not None:
                pending.pop((group_id, topic, partition))
            self._close(producer_id, group_id, topic, partition)

    def take(self, producer_id: int) -> list[tuple[str, str, int, StoredOffset]]:
        """Ends a producer's transaction; what it had written: (group, topic, partition, offset)."""
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
