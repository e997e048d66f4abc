"""Delayed operations complete once, and leave nothing behind."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.delayed_produce import PartitionAppend
from odradek.replication.purgatory import DelayedOperation, Purgatory
from tests.clock import ManualClock


class Waiting(DelayedOperation[str]):
    def __init__(self, needs: int = 1) -> None:
        super().__init__()
        self.needs = needs
        self.looked: list[str] = []
        self.ended = 0

    def try_complete(self, key: str) -> bool:
        self.looked.append(key)
        self.needs -= 1
        return self.needs <= 0 and self.force_complete()

    def on_complete(self) -> None:
        self.ended += 1


def test_completes_by_a_check_and_is_gone() -> None:
    clock = ManualClock()
    purgatory: Purgatory[str] = Purgatory("test", clock)
    operation = Waiting(needs=2)
    purgatory.watch(operation, ("a", "b"), 1000)
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 0
    assert purgatory.check_and_complete("b") == 1
    assert operation.looked == ["a", "b"]
    assert operation.ended == 1
    assert (len(purgatory), purgatory.watched("a"), purgatory.watched("b")) == (0, 0, 0)
    assert not operation.force_complete()
    clock.advance_ms(1000)
    assert (operation.ended, clock.pending) == (1, [])


def test_nothing_holds_one_that_has_completed_before_its_time() -> None:
    purgatory: Purgatory[str] = Purgatory("test", ManualClock())
    operation = Waiting()
    left = weakref.ref(operation)
    purgatory.watch(operation, ("a",), 1_000_000)
    purgatory.check_and_complete("a")
    del operation
    gc.collect()
    assert left() is None


def test_completes_by_its_timer_and_is_gone() -> None:
    clock = ManualClock()
    purgatory: Purgatory[str] = Purgatory("test", clock)
    operation = Waiting()
    purgatory.watch(operation, ("a",), 1000)
    clock.advance_ms(1000)
    assert operation.ended == 1
    assert (len(purgatory), purgatory.watched("a")) == (0, 0)


def test_a_full_purgatory_ends_the_newcomer_at_once() -> None:
    clock = ManualClock()
    purgatory: Purgatory[str] = Purgatory("test", clock, max_operations=2)
    operations = [Waiting() for _ in range(3)]
    for operation in operations:
        purgatory.watch(operation, ("a",), 1000)
    assert [operation.ended for operation in operations] == [0, 0, 1]
    assert len(purgatory) == 2


def test_one_that_fails_does_not_keep_the_others_waiting() -> None:
    class Failing(Waiting):
        def on_complete(self) -> None:
            raise ValueError("cannot be answered")

    purgatory: Purgatory[str] = Purgatory("test", ManualClock())
    second = Waiting()
    for operation in (Failing(), second):
        purgatory.watch(operation, ("a",), 1000)
    purgatory.check_and_complete("a")
    assert second.ended == 1
    assert len(purgatory) == 0


def test_close_answers_everything() -> None:
    purgatory: Purgatory[str] = Purgatory("test", ManualClock())
    operations = [Waiting() for _ in range(3)]
    for operation in operations:
        purgatory.watch(operation, ("a",), 1000)
    purgatory.close()
    assert [operation.ended for operation in operations] == [1, 1, 1]


class Chain(DelayedOperation[TopicPartition]):
    """Causes the next change when it completes, as a coordinator that appends does."""

    def __init__(self, delayed: DelayedOperations, depth: list[int], left: int) -> None:
        super().__init__()
        self.delayed = delayed
        self.depth = depth
        self.left = left

    def try_complete(self, key: TopicPartition) -> bool:
        return self.force_complete()

    def on_complete(self) -> None:
        self.depth[0] += 1
        self.depth[1] = max(self.depth)
        if self.left:
            key = TopicPartition("t", self.left)
            self.delayed.produce.watch(Chain(self.delayed, self.depth, self.left - 1), (key,), 1000)
            self.delayed.partition_changed(key)
            self.delayed.drain()
        self.depth[0] -= 1


def test_wake_ups_caused_by_wake_ups_do_not_nest() -> None:
    delayed = DelayedOperations(ManualClock())
    depth = [0, 0]
    first = TopicPartition("t", 0)
    delayed.produce.watch(Chain(delayed, depth, 5000), (first,), 1000)
    delayed.partition_changed(first)
    delayed.drain()
    assert depth == [0, 1]
    assert len(delayed.produce) == 0


def test_followers_alone_are_woken_while_the_high_watermark_stands_still() -> None:
    delayed = DelayedOperations(ManualClock())
    key = TopicPartition("t", 0)
    done: list[str] = []

    class Told(DelayedOperation[TopicPartition]):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def try_complete(self, key: TopicPartition) -> bool:
            done.append(self.name)
            return False

        def on_complete(self) -> None: ...

    delayed.produce.watch(Told("produce"), (key,), 1000)
    delayed.fetch.watch(Told("fetch"), (key,), 1000)
    delayed.log_end_moved(key)
    delayed.drain()
    assert done == ["fetch"]
    delayed.partition_changed(key)
    delayed.log_end_moved(key)
    delayed.drain()
    assert done == ["fetch", "produce", "fetch"]


def test_nothing_is_kept_of_a_key_that_nobody_waits_for_any_more() -> None:
    class Key:
        pass

    clock = ManualClock()
    purgatory: Purgatory[Key] = Purgatory("test", clock)
    left = []
    for number in range(10):
        key = Key()
        left.append(weakref.ref(key))
        operation: DelayedOperation[Key] = Waiting()  # type: ignore[assignment]
        purgatory.watch(operation, (key,), 1000)
        if number % 2:
            purgatory.check_and_complete(key)
    clock.advance_ms(1000)
    del key, operation
    gc.collect()
    assert [reference() for reference in left] == [None] * 10


class TestDraining:
    def test_a_listener_alone_is_told_too(self) -> None:
        delayed = DelayedOperations(ManualClock())
        key = TopicPartition("t", 0)
        told: list[str] = []
        stop = delayed.listen(key, lambda: told.append("told"))
        delayed.log_end_moved(key)
        delayed.drain()
        assert told == []
        delayed.partition_changed(key)
        delayed.drain()
        assert told == ["told"]
        stop()
        stop()
        delayed.partition_changed(key)
        delayed.drain()
        assert told == ["told"]

    def test_a_listener_that_fails_keeps_nobody_else_from_being_told(self, caplog: pytest.LogCaptureFixture) -> None:
        delayed = DelayedOperations(ManualClock())
        key, other = TopicPartition("t", 0), TopicPartition("t", 1)
        told: list[str] = []

        def broken() -> None:
            told.append("broken")
            raise ValueError("broken on purpose")

        delayed.listen(key, broken)
        delayed.listen(key, lambda: told.append("same"))
        delayed.listen(other, lambda: told.append("other"))
        for _ in range(2):
            delayed.partition_changed(key)
            delayed.partition_changed(other)
            delayed.drain()
        assert told == ["broken", "same", "other"] * 2
        assert caplog.text.count("ValueError: broken on purpose") == 2

    def test_soon_is_on_the_next_turn_and_once(self) -> None:
        clock = ManualClock()
        delayed = DelayedOperations(clock)
        key = TopicPartition("t", 0)
        told: list[str] = []
        delayed.listen(key, lambda: told.append("told"))
        for number in (1, 2):
            for _ in range(3):
                delayed.partition_changed(key)
                delayed.drain_soon()
            assert len(clock.pending) == 1
            assert len(told) == number - 1
            clock.advance_ms(0)
            assert len(told) == number

    def test_close_ends_every_kind_of_wait(self) -> None:
        delayed = DelayedOperations(ManualClock())
        operations = [Waiting() for _ in range(3)]
        for purgatory, operation in zip((delayed.produce, delayed.fetch, delayed.delete_records), operations, strict=True):
            purgatory.watch(operation, (TopicPartition("t", 0),), 1000)  # type: ignore[arg-type]
        delayed.close()
        assert [operation.ended for operation in operations] == [1, 1, 1]

    def test_close_ends_the_wait_for_replicas(self) -> None:
        delayed = DelayedOperations(ManualClock())
        append = PartitionAppend(TopicPartition("t", 0), required_offset=1)
        partition = SimpleNamespace(topic_partition=append.topic_partition)
        answer = delayed.acks.wait(partition, append, [append], 1000)  # type: ignore[arg-type]
        delayed.close()
        assert answer.result()[0].error is ErrorCode.REQUEST_TIMED_OUT
