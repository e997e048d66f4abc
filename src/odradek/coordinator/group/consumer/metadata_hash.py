"""Hash of a group's subscribed topics: a changed hash requires a new target assignment (Utils.computeGroupHash).

The hash is written into the group's record, so it has to equal Kafka's: XXH3 over the topics by name, each hashed over its id, name,
partitions and racks.
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
    """Cache of topic hashes, which are computed on demand and kept until the topic changes."""

    __slots__ = ("_hashes",)

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}

    def forget(self, topics: Iterable[str]) -> None:
        """Remove the hashes of changed or deleted topics."""
        for topic in topics:
            self._hashes.pop(topic, None)

    def clear(self) -> None:
        self._hashes.clear()

    def of_group(self, topics: Iterable[str], image: MetadataImage) -> int:
        """Return the hash of a group that subscribes to the topics. Unknown topics are ignored; without known topics the hash is 0."""
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
    """Return the signed 64-bit hash of topic hashes by name."""
    if not topics:
        return 0
    # Java sorts by UTF-16 units; Python's order is the same for topic names, which are ASCII.
    return _signed(xxh3_64(b"".join([_LONG.pack(topics[name] & 0xFFFF_FFFF_FFFF_FFFF) for name in sorted(topics)])))


def topic_hash(topic: TopicImage, cluster: ClusterImage) -> int:
    """Return the signed 64-bit hash of a topic."""
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
    """Return the text in UTF-16, followed by the number of its UTF-16 units."""
    encoded = text.encode("utf-16-le")
    return encoded + _INT.pack(len(encoded) // 2)


def _signed(value: int) -> int:
    return (value ^ _SIGN) - _SIGN
