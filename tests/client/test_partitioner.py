"""Keys go where every Kafka client sends them."""

from __future__ import annotations

import random

import pytest

from odradek.client.core.partitioner import StickyPartitioner, murmur2, partition_for_key

# The vectors of org.apache.kafka.common.utils.UtilsTest.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_a_key_always_goes_to_the_same_partition() -> None:
    for count in (1, 3, 7, 50):
        for key in KNOWN:
            assert partition_for_key(key, count) == (murmur2(key) & 0x7FFFFFFF) % count


def test_records_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    chosen = [sticky.choose([0, 1, 2], 100) for _ in range(40)]
    for start in range(0, 40, 10):
        assert len(set(chosen[start : start + 10])) == 1
    assert all(chosen[index] != chosen[index + 10] for index in range(0, 30, 10))


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    first = sticky.choose([0, 1], 1)
    assert sticky.choose([1 - first], 1) == 1 - first
