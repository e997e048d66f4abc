"""Keys go where every Kafka client sends them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from odradek.client.core.partitioner import PartitionLoad, RoundRobinPartitioner, StickyPartitioner, murmur2, odds, partition_for_key
from tests.client.sender_support import view_of

# The vectors of org.apache.kafka.common.utils.UtilsTest.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


# (key, number of partitions, partition), as BuiltInPartitioner.partitionForKey of Kafka 4.3.1 answers.
JAVAS = [
    (b"", 3, 0),
    (b"ab", 7, 0),
    (b"abc", 2147483647, 479470107),
    (b"\xff\xfe\xfd\xfc\xfb", 50, 35),
    ("ключ".encode(), 12, 8),
    (b"8\xb4\xe6R\xa7\xf2", 1236, 881),
    (b"\x0e'\x13e\xa4\xa3\xa6", 396, 172),
    (b"3/\x8b\x12$\x08?\xd2", 4390, 3349),
    (b"\x11\xe8\x18\x18\xf8\xc9\x9d]]\x981\x95\x0e", 4157, 2188),
    (b"\xccu\xf66\xd8P\x99\tZ\xa3\x00\x16Zg\x03o\x9bT\rk\x11", 1972, 1073),
]


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_murmur2_is_kafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_a_key_always_goes_to_the_same_partition() -> None:
    for count in (1, 3, 7, 50):
        for key in KNOWN:
            assert partition_for_key(key, count) == (murmur2(key) & 0x7FFFFFFF) % count


@pytest.mark.parametrize(("key", "count", "partition"), JAVAS)
def test_partitions_are_those_that_java_chose(key: bytes, count: int, partition: int) -> None:
    assert partition_for_key(key, count) == partition


def sent(sticky: StickyPartitioner, size: int, loads: Sequence[PartitionLoad], *, filling: bool = False) -> int:
    if sticky.is_over(filling=filling):
        sticky.move(loads)
    sticky.took(size)
    assert sticky.current is not None
    return sticky.current


def queues(*lengths: int | None) -> list[PartitionLoad]:
    return [PartitionLoad(number, True, length) for number, length in enumerate(lengths)]


def test_records_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    chosen = [sent(sticky, 100, queues(0, 0, 0)) for _ in range(40)]
    for start in range(0, 40, 10):
        assert len(set(chosen[start : start + 10])) == 1
    assert all(chosen[index] != chosen[index + 10] for index in range(0, 30, 10))


def test_a_batch_that_has_room_is_filled_up_to_twice_the_bytes() -> None:
    sticky = StickyPartitioner(1000, random.Random(1))
    chosen = [sent(sticky, 100, queues(0, 0, 0), filling=True) for _ in range(40)]
    assert len(set(chosen[:20])) == 1
    assert chosen[19] != chosen[20]


def test_batches_of_no_size_change_the_partition_each_time() -> None:
    sticky = StickyPartitioner(0, random.Random(1))
    chosen = [sent(sticky, 1, queues(0, 0)) for _ in range(10)]
    assert all(one != other for one, other in pairwise(chosen))


def test_partitions_without_a_leader_are_left_out_while_there_is_another() -> None:
    sticky = StickyPartitioner(1, random.Random(1))
    loads = [PartitionLoad(0, False, 0), PartitionLoad(1, True, None), PartitionLoad(2, True, None)]
    assert {sticky.move(loads) for _ in range(20)} == {1, 2}
    assert {sticky.move([load._replace(has_leader=False) for load in loads]) for _ in range(20)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("loads", "chances"),
    [
        (queues(0, 3, 1), {0: 4, 1: 1, 2: 3}),
        (queues(2, 2, 2), None),
        (queues(0, 3, None), None),
        (queues(5), None),
        ([*queues(0, 3), PartitionLoad(2, False, 9)], {0: 4, 1: 1}),
        ([*queues(1, 1), PartitionLoad(2, False, 1)], {0: 1, 1: 1}),
        ([*queues(0, 3), PartitionLoad(2, True, 1, is_late=True)], {0: 4, 1: 1}),
        ([*queues(0, 3), PartitionLoad(2, True, 0, is_late=True)], {0: 4, 1: 1, 2: 4}),
        ([PartitionLoad(0, True, 1, is_late=True), PartitionLoad(1, True, 1, is_late=True)], None),
    ],
)
def test_the_odds_of_a_partition(loads: list[PartitionLoad], chances: dict[int, int] | None) -> None:
    assert odds(loads) == chances


def test_short_queues_get_more() -> None:
    loads = queues(0, 9, 0)
    adaptive, plain = (StickyPartitioner(1, random.Random(1), adaptive=each) for each in (True, False))
    chosen = Counter(adaptive.move(loads) for _ in range(2100))
    assert 50 < chosen[1] < 200, "1 in 21"
    assert abs(chosen[0] - chosen[2]) < 200
    assert min(Counter(plain.move(loads) for _ in range(300)).values()) > 70


def test_round_robin_takes_partitions_with_a_leader_in_turn_for_each_topic() -> None:
    view = view_of([1, -1, 1])
    view = view._replace(topics={**view.topics, "u": view_of([-1, -1]).topics["t"]})
    turns = RoundRobinPartitioner()
    assert [turns.partition("t", None, b"same", None, None, view) for _ in range(4)] == [0, 2, 0, 2]
    assert [turns.partition("u", None, None, None, None, view) for _ in range(3)] == [0, 1, 0]
    assert turns.partition("t", None, None, None, None, view) == 0
