"""The hash of a group's topics, which Kafka computes the same (XXH3; the values are those of its hash4j)."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from odradek.coordinator.group.consumer.metadata_hash import TopicHashes, group_hash, topic_hash
from odradek.coordinator.group.consumer.xxh3 import xxh3_64
from odradek.protocol.messages.metadata_records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from tests.coordinator.group.consumer.support import Cluster

VALUES = {
    0: 0x2D06800538D394C2,
    1: 0x13E608BC156DEFED,
    3: 0xA9088DDA485B481C,
    4: 0x6D9253B16C8B1ED3,
    8: 0x60539DB630471163,
    9: 0xFEFF668361D723A8,
    16: 0xB8C859B0F030B585,
    17: 0x714A04408E79B80F,
    128: 0x67425A03650261BF,
    129: 0xC664BF3311C6ABC4,
    240: 0x64556DC6B462A6CF,
    241: 0x8BEADD3A8874FE17,
    1023: 0xD26986A0B85DCC44,
    1024: 0x9B81661C641C72B1,
    1025: 0x806C2072ED713576,
    1088: 0x2F8781E01841F0DA,
    1089: 0x2A90437FE231E7E8,
    5000: 0x799AADDD7339581D,
}


@pytest.mark.parametrize("length", VALUES)
def test_xxh3(length: int) -> None:
    assert xxh3_64(bytes((index * 7 + 3) & 0xFF for index in range(length))) == VALUES[length]


def test_texts_are_followed_by_their_length() -> None:
    data = b"\0" + struct.pack("<Q", 5) + "abc".encode("utf-16-le") + struct.pack("<ii", 3, 7)
    assert xxh3_64(data) == 0xF1DFC55B7EF55C9E


def test_a_topic_changes_its_hash_with_its_partitions() -> None:
    cluster = Cluster()
    cluster.create(t=1, u=1)
    hashes = TopicHashes()
    before = hashes.of_group(["t", "missing"], cluster.image)
    assert before == group_hash({"t": topic_hash(cluster.image.topics.by_name["t"], cluster.image.cluster)})
    assert hashes.of_group(["t", "u"], cluster.image) != before
    cluster.grow("t", 2)
    assert hashes.of_group(["t"], cluster.image) == before, "kept until somebody says that the topic has changed"
    hashes.forget(["t"])
    assert hashes.of_group(["t"], cluster.image) != before
    assert hashes.of_group(["missing"], cluster.image) == 0


def test_a_hash_does_not_depend_on_the_order_of_topics_or_replicas() -> None:
    assert group_hash({"a": 1, "b": 2}) == group_hash({"b": 2, "a": 1}) != group_hash({"a": 2, "b": 1})
    hashes = []
    for replicas in ([1, 2], [2, 1], [1, 1]):
        cluster = Cluster()
        topic_id = UUID(int=9)
        cluster.change(
            *[RegisterBrokerRecord(broker_id=each, broker_epoch=1, incarnation_id=UUID(int=each), rack=f"r{each}") for each in (1, 2)],
            TopicRecord(name="t", topic_id=topic_id),
            PartitionRecord(
                partition_id=0, topic_id=topic_id, replicas=replicas, isr=[1], leader=1, directories=[UUID(int=0)] * 2, leader_epoch=0
            ),
        )
        hashes.append(topic_hash(cluster.image.topics.by_name["t"], cluster.image.cluster))
    assert hashes[0] == hashes[1] != hashes[2]
