"""The cache of fetch sessions is bounded, and who gives way to whom."""

from __future__ import annotations

import random

from odradek.base.errors import ErrorCode
from odradek.replication.fetch_params import FetchPartition
from odradek.replication.fetch_session import EVICTION_S, MAX_INT32, FetchSessionCache, PartitionKey, next_epoch
from odradek.replication.reader import PartitionRead
from odradek.replication.subscriptions import Subscriptions
from tests.clock import ManualClock
from tests.replication.support import TOPIC_ID


def partitions(count: int) -> dict[PartitionKey, FetchPartition]:
    return {("t", index): FetchPartition("t", TOPIC_ID, index, fetch_offset=0, max_bytes=1) for index in range(count)}


class Cache:
    def __init__(self, slots: int) -> None:
        self.clock = ManualClock()
        self.cache = FetchSessionCache(self.clock, random.Random(1), slots, Subscriptions(self.clock, lambda: 0))

    def open(self, size: int = 1, *, follower: bool = False) -> int:
        return self.cache.open(partitions(size), uses_topic_ids=False, privileged=follower)

    def use(self, session_id: int, epoch: int) -> ErrorCode:
        return self.cache.context(session_id, epoch, {}, (), uses_topic_ids=False, privileged=False).error


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (-1, 0, 1, MAX_INT32)] == [-1, 1, 2, 1]


def test_a_full_cache_opens_no_session_for_equals_that_are_young() -> None:
    world = Cache(2)
    first, second = world.open(), world.open()
    assert 0 not in (first, second)
    assert world.open(100) == 0
    assert len(world.cache) == 2


def test_a_session_unused_for_two_minutes_gives_way_to_anybody() -> None:
    world = Cache(2)
    old = world.open(100, follower=True)
    world.clock.advance_s(EVICTION_S / 2)
    young = world.open()
    world.clock.advance_s(EVICTION_S / 2 + 0.001)
    assert world.open() != 0
    assert world.use(old, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world.use(young, 1) is ErrorCode.NONE
    assert world.cache.evictions == 1


def test_a_follower_takes_the_place_of_the_smallest_client() -> None:
    world = Cache(2)
    big, small = world.open(50), world.open(2)
    assert world.open(1, follower=True) != 0
    assert world.use(big, 1) is ErrorCode.NONE
    assert world.use(small, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_client_never_takes_the_place_of_a_follower_in_use() -> None:
    world = Cache(1)
    follower = world.open(follower=True)
    for epoch in range(1, 6):
        world.clock.advance_s(EVICTION_S / 2)
        assert world.use(follower, epoch) is ErrorCode.NONE
        assert world.open(1000) == 0


def test_an_old_session_in_use_gives_way_to_a_larger_one_only() -> None:
    world = Cache(1)
    session = world.open(10)
    for epoch in range(1, 4):
        world.clock.advance_s(EVICTION_S / 2)
        assert world.use(session, epoch) is ErrorCode.NONE
    assert world.open(9) == 0
    assert world.open(11) != 0


def test_no_slots_means_no_sessions() -> None:
    assert Cache(0).open() == 0


def test_a_session_without_partitions_is_closed() -> None:
    world = Cache(1)
    session = world.open(1)
    context = world.cache.context(session, 1, {}, [("t", 0)], uses_topic_ids=False, privileged=False)
    assert context.respond([]) == (ErrorCode.NONE, 0, [])
    assert len(world.cache) == 0


def test_an_error_is_told_each_time_and_its_end_too() -> None:
    world = Cache(1)
    mine = partitions(1)
    [partition] = mine.values()
    answer = PartitionRead()
    answer.high_watermark = answer.log_start_offset = 0
    context = world.cache.context(0, 0, mine, (), uses_topic_ids=False, privileged=False)
    _, session, _ = context.respond([(partition, answer)])

    def next_answer(epoch: int, read: PartitionRead) -> int:
        context = world.cache.context(session, epoch, {}, (), uses_topic_ids=False, privileged=False)
        return len(context.respond([(partition, read)])[2])

    failing = PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [next_answer(1, answer), next_answer(2, failing), next_answer(3, failing), next_answer(4, answer), next_answer(5, answer)] == [
        0,
        1,
        1,
        1,
        0,
    ]


class TestNews:
    def setup_method(self) -> None:
        self.world = Cache(1)
        mine = partitions(1)
        [self.partition] = mine.values()
        self.epoch = 1
        context = self.world.cache.context(0, 0, mine, (), uses_topic_ids=False, privileged=False)
        _, self.session, _ = context.respond([(self.partition, self.read())])

    @staticmethod
    def read(*, high_watermark: int = 0, log_start_offset: int = 0) -> PartitionRead:
        read = PartitionRead()
        read.high_watermark, read.log_start_offset = high_watermark, log_start_offset
        return read

    def told(self, read: PartitionRead) -> bool:
        context = self.world.cache.context(self.session, self.epoch, {}, (), uses_topic_ids=False, privileged=False)
        self.epoch += 1
        return bool(context.respond([(self.partition, read)])[2])

    def test_a_new_high_watermark_or_log_start_is_told_once(self) -> None:
        assert not self.told(self.read())
        assert self.told(self.read(high_watermark=1))
        assert not self.told(self.read(high_watermark=1))
        assert self.told(self.read(high_watermark=1, log_start_offset=1))
        assert not self.told(self.read(high_watermark=1, log_start_offset=1))

    def test_a_diverging_log_is_told_each_time(self) -> None:
        diverging = self.read()
        diverging.diverging_epoch = (0, 0)
        assert self.told(diverging)
        assert self.told(diverging)


def test_a_final_request_gives_the_slot_back() -> None:
    world = Cache(1)
    session = world.open()
    world.cache.context(session, -1, partitions(1), (), uses_topic_ids=False, privileged=False)
    assert len(world.cache) == 0
    assert world.open() != 0


def test_a_session_goes_on_under_the_names_it_began_with() -> None:
    world = Cache(1)
    session = world.open()
    refused = world.cache.context(session, 1, {}, (), uses_topic_ids=True, privileged=False)
    assert refused.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert world.use(session, 1) is ErrorCode.NONE


def test_a_repeated_request_is_noticed() -> None:
    world = Cache(1)
    session = world.open()
    assert [world.use(session, epoch) for epoch in (1, 1, 2)] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.NONE,
    ]


def test_a_session_is_worth_what_it_holds_by_now() -> None:
    world = Cache(2)
    growing, steady = world.open(1), world.open(5)
    more = {("t", index): FetchPartition("t", TOPIC_ID, index, fetch_offset=0, max_bytes=1) for index in range(10)}
    world.cache.context(growing, 1, more, (), uses_topic_ids=False, privileged=False)
    assert world.cache.cached_partitions == 15
    world.open(1, follower=True)
    assert world.use(growing, 2) is ErrorCode.NONE
    assert world.use(steady, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_that_is_used_is_not_the_one_that_is_unused() -> None:
    world = Cache(2)
    used, unused = world.open(), world.open()
    world.clock.advance_s(EVICTION_S / 2)
    assert world.use(used, 1) is ErrorCode.NONE
    world.clock.advance_s(EVICTION_S / 2 + 0.001)
    assert world.open() != 0
    assert world.use(used, 2) is ErrorCode.NONE
    assert world.use(unused, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
