"""What a group's subscribed topics look like, as one number: a changed one means a new target assignment (Utils.computeGroupHash).

Written into the group's record, and so the same as Kafka's (XXH3 over the topics by name, each over its id, name, partitions and racks).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.coordinator.group.consumer.xxh3 import xxh3_64

if TYPE_CHECKING:
    from odradek.metadata.image import ClusterImage, MetadataImage, TopicImage

_LONG = struct.Struct("<Q")
_INT = struct.Struct("<i")
_VERSION = b"\0"
_SIGN = 1 << 63


class TopicHashes:
    """The hashes of topics, computed when somebody asks and kept until the topic changes."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}

    def forget(self, topics: Iterable[str]) -> None:
        """They have changed, or are no more."""
        for topic in topics:
            self._hashes.pop(topic, None)

    def clear(self) -> None:
        self._hashes.clear()

    def of_group(self, topics: Iterable[str], image: MetadataImage) -> int:
        """For a group that subscribes to the topics; those that do not exist do not count. 0 when none does."""
        known: dict[str, int] = {}
        for name in topics:
            topic = image.topics.by_name.get(name)
            if topic is not None:
                found = self._hashes.get(name)
                if found is None:
                    found = self._hashes[name] = topic_hash(topic, image.cluster)
                known[name] = found
        return group_hash(known)


def group_hash(topics: Mapping[str, int]) -> int:
    """Signed, of the topics' hashes by name."""
    if not topics:
        return 0
    # Java sorts by UTF-16 units; topic names are ASCII.
    return _signed(xxh3_64(b"".join([_LONG.pack(topics[name] & 0xFFFF_FFFF_FFFF_FFFF) for name in sorted(topics)])))


def topic_hash(topic: TopicImage, cluster: ClusterImage) -> int:
    """Signed."""
    number = topic.topic_id.int
    parts = [
        _VERSION,
        _LONG.pack(number >> 64),
        _LONG.pack(number & 0xFFFF_FFFF_FFFF_FFFF),
        _text(topic.name),
        _INT.pack(len(topic.partitions)),
    ]
    for index in range(len(topic.partitions)):
        parts.append(_INT.pack(index))
        partition = topic.partitions.get(index)
        brokers = [] if partition is None else [cluster.brokers.get(replica) for replica in partition.replicas]
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
            parts.append(_INT.pack(len(rack.encode("utf-16-le")) // 2))
            parts.append(_text(rack))
    return _signed(xxh3_64(b"".join(parts)))


def _text(text: str) -> bytes:
    """UTF-16 units, then how many they are."""
    encoded = text.encode("utf-16-le")
    return encoded + _INT.pack(len(encoded) // 2)


def _signed(value: int) -> int:
    return (value ^ _SIGN) - _SIGN
