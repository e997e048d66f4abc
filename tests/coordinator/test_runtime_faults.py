"""The coordinator runtime when something goes wrong: time-outs, refusals, moves, foreign records, logs with holes."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.partitioning import partition_of
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import CoordinatorResult
from odradek.protocol.messages.group_records import LegacyOffsetCommitKey
from odradek.records.batch import encode_batch
from tests.coordinator.runtime_support import RuntimeWorld, active, error_of
from tests.coordinator.support import PARTITION, MemoryLog, Table, commit_record


def written() -> MemoryLog:
    """A log that there is something to load from."""
    log = MemoryLog()
    world = active(log)
    world.put("a", 1)
    world.clock.run_due()
    return log


# -- leadership ----------------------------------------------------------------------------------------------------------------------


def test_old_news_do_not_end_the_present_leadership() -> None:
    world = active()
    world.runtime.unload(PARTITION, 1)
    world.put("a", 1)
    world.clock.run_due()
    assert world.committed("a") == 1


def test_after_close_nothing_is_loaded() -> None:
    world = active()
    world.runtime.close()
    world.runtime.load(PARTITION, 2)
    world.clock.run_due()
    assert len(world.shards) == 1
    assert error_of(world.put("a", 1)) is ErrorCode.NOT_COORDINATOR


def test_a_shard_whose_partition_somebody_else_writes_to_is_loaded_again() -> None:
    world = active()
    stranger = active(world.log)
    stranger.put("a", 1)
    stranger.clock.run_due()
    disturbed = world.put("a", 2)
    world.clock.run_due()
    assert error_of(disturbed) is ErrorCode.NOT_COORDINATOR
    assert world.shards[0].unloaded == 1
    reply = world.put("a", 3)
    world.clock.run_due()
    assert reply.result() == 2, "what was appended counts, wherever it lies"
    assert dict(world.shard.values.items()) == {"a": 3}


@pytest.mark.parametrize("marker", [True, False])
def test_a_transaction_does_not_go_into_a_shard_that_has_to_be_loaded_again(marker: bool) -> None:
    world = active()
    stranger = active(world.log)
    stranger.put("a", 1)
    stranger.clock.run_due()
    world.put("a", 2)
    if marker:
        answer: Any = world.runtime.end_transaction(PARTITION, 7, 0, 3, committed=True, version=2)
    else:
        answer = world.runtime.write_transactional(PARTITION, 7, 0, None, lambda shard: shard.put("a", 4))
    assert error_of(answer) is ErrorCode.NOT_COORDINATOR
    assert len(world.log.batches) == 2
    world.clock.run_due()
    assert dict(world.shard.values.items()) == {"a": 2}


def test_a_load_that_failed_is_tried_again_when_the_leadership_is_told_again() -> None:
    log = written()
    log.reads = []
    world = RuntimeWorld(log)
    world.runtime.load(PARTITION, 1)
    log.reads[0].fail(OSError("as the test wanted"))
    assert error_of(world.put("a", 2)) is ErrorCode.NOT_COORDINATOR
    log.reads = None
    world.runtime.load(PARTITION, 1)
    world.clock.run_due()
    assert world.runtime.leader_epoch(PARTITION) == 1


def test_what_is_still_being_loaded_is_not_left_out_in_silence() -> None:
    log = MemoryLog()
    active(log).put("a", 1)
    log.reads = []
    log.log_end_offset = log.high_watermark = 1
    world = RuntimeWorld(log)
    world.runtime.load(PARTITION, 1)
    with pytest.raises(KafkaError) as caught:
        world.runtime.read_all(lambda shard: shard)
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_partition_that_moved_is_not_listened_to() -> None:
    world = active()
    assert world.log.listeners == 1
    world.runtime.unload(PARTITION, 2)
    assert world.log.listeners == 0


# -- time --------------------------------------------------------------------------------------------------------------------------


def test_each_write_has_its_own_time_limit() -> None:
    world = active(MemoryLog(auto_commit=False), write_timeout_ms=1000)
    first = world.put("a", 1)
    world.clock.advance_s(0.5)
    second = world.put("b", 2)
    world.clock.advance_s(0.6)
    assert error_of(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not second.done
    world.clock.advance_s(1)
    assert error_of(second) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_limit_of_a_write_counts_from_that_write() -> None:
    world = active(MemoryLog(auto_commit=False), write_timeout_ms=1000)
    first = world.put("a", 1)
    world.clock.advance_s(0.5)
    world.log.commit(1)
    assert first.done
    world.clock.advance_s(0.4)
    second = world.put("b", 2)
    world.clock.advance_s(0.95)
    assert not second.done
    world.clock.advance_s(0.06)
    assert second.done


def test_a_timer_whose_operation_breaks_is_tried_again() -> None:
    world = active()
    shard, broken = world.shard, [True]

    def expire() -> CoordinatorResult[None]:
        if broken.pop():
            raise RuntimeError("as the test wanted")
        return CoordinatorResult(shard.put("a", 1).records, None)

    broken.insert(0, False)
    shard.timers.schedule("t", 100, expire)
    world.clock.advance_s(0.2)
    assert world.committed("a") is None
    world.clock.advance_s(1)
    assert world.committed("a") == 1


# -- refusals ------------------------------------------------------------------------------------------------------------------------


def test_what_an_operation_changed_before_it_was_refused_is_taken_back() -> None:
    world = active()

    def refused(shard: Table) -> CoordinatorResult[None]:
        shard.values["soft"] = 1
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    assert error_of(world.runtime.write(PARTITION, refused)) is ErrorCode.INVALID_REQUEST
    assert world.shard.values.get("soft") is None


def test_what_an_operation_changed_itself_goes_with_records_that_do_not_fit() -> None:
    log = MemoryLog()
    log.max_batch_bytes = 200
    world = active(log)

    def too_large(shard: Table) -> CoordinatorResult[int | None]:
        shard.values["soft"] = 1
        return shard.put("k" * 300, 1)

    assert error_of(world.runtime.write(PARTITION, too_large)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.shard.values.get("soft") is None


def test_an_operation_whose_replay_breaks_leaves_nothing_behind() -> None:
    world = active()
    records = [commit_record("a", 1), CoordinatorRecord(LegacyOffsetCommitKey(group="g", topic="t", partition=0))]
    with pytest.raises(AssertionError):
        world.runtime.write(PARTITION, lambda _: CoordinatorResult(records, None))
    assert world.shard.values.get("a") is None
    world.put("b", 2)
    world.clock.run_due()
    assert dict(active(world.log).shard.values.items()) == dict(world.shard.values.items()) == {"b": 2}


def test_an_operation_that_breaks_leaves_nothing_behind() -> None:
    world = active()

    def broken(shard: Table) -> CoordinatorResult[None]:
        shard.values["soft"] = 1
        raise RuntimeError("as the test wanted")

    with pytest.raises(RuntimeError):
        world.runtime.write(PARTITION, broken)
    assert world.shard.values.get("soft") is None


def test_whatever_the_append_raises_all_that_was_gathered_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    world = active()
    kept = world.put("a", 1)
    world.clock.run_due()
    log, append = world.log, world.log.append

    def broken(*_: object) -> int:
        raise RuntimeError("as the test wanted")

    log.append = broken  # type: ignore[method-assign, assignment]
    replies = [world.put("b", 2), world.put("c", 3)]
    world.clock.run_due()
    assert [error_of(reply) for reply in replies] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert any("could not be written" in record.message and record.exc_info for record in caplog.records)
    log.append = append  # type: ignore[method-assign]
    last = world.put("d", 4)
    world.clock.run_due()
    assert (kept.done, error_of(last), dict(world.shard.values.items())) == (True, None, {"a": 1, "d": 4})


def test_each_is_answered_when_one_cannot_be() -> None:
    world = active(MemoryLog(auto_commit=False))
    first, second, third = (world.put(key, 1) for key in "abc")
    first.add_callback(lambda _: 1 / 0)
    second.add_callback(lambda _: 1 / 0)
    world.clock.run_due()
    world.log.commit(world.log.log_end_offset)
    assert first.done
    assert second.done
    assert third.result() is None


def test_what_saw_records_that_could_not_be_written_is_refused_with_them() -> None:
    log = MemoryLog()
    log.max_batch_bytes = 220
    world = active(log)
    before = world.put("a", 1)
    log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    after = world.put("b" * 80, 2)
    log.fail_with = None
    world.clock.run_due()
    assert error_of(before) is error_of(after) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert log.batches == []
    assert len(world.shard.values) == 0


def test_no_batch_is_larger_than_the_topic_allows() -> None:
    log = MemoryLog()
    log.max_batch_bytes = 200
    world = active(log)
    for length in range(1, 200):
        world.put("k" * length, 1)
        world.clock.run_due()
    assert max(map(len, log.batches)) <= 200
    assert len(log.batches) > 20


# -- transactions --------------------------------------------------------------------------------------------------------------------


def test_a_marker_comes_after_all_that_was_decided_before_it() -> None:
    world = active()
    world.runtime.write_transactional(PARTITION, 7, 0, None, lambda shard: shard.put("a", 1))
    plain = world.put("a", 2)
    ended = world.runtime.end_transaction(PARTITION, 7, 0, 3, committed=True, version=2)
    assert ended.error is None
    assert plain.error is None
    assert len(world.log.batches) == 3
    assert dict(active(world.log).shard.values.items()) == dict(world.shard.values.items())


# -- loading -------------------------------------------------------------------------------------------------------------------------


def test_a_log_of_which_nothing_is_left_is_loaded() -> None:
    log = MemoryLog()
    log.log_end_offset = log.high_watermark = 5
    world = active(log)
    world.put("a", 1)
    world.clock.run_due()
    assert world.committed("a") == 1


def test_a_load_lets_the_loop_go_on_after_each_slice() -> None:
    log = MemoryLog()
    before = active(log)
    for number in range(10):
        before.put(f"k{number}", number)
    before.clock.run_due()
    world = RuntimeWorld(log, load_slice_records=2)
    world.runtime.load(PARTITION, 1)
    for loaded in (4, 6, 8, 10):
        world.clock.turn()
        assert len(world.shard.replayed) == loaded
    assert world.shard.loaded == 1


def test_a_few_loads_run_at_a_time_in_the_order_in_which_they_came() -> None:
    log = written()
    log.reads = []
    world = RuntimeWorld(log, loads_at_once=2)
    partitions = [TopicPartition("__consumer_offsets", number) for number in range(5)]
    for partition in partitions:
        world.runtime.load(partition, 1)
    assert len(log.reads) == 2
    world.runtime.unload(partitions[0], None)
    world.runtime.unload(partitions[2], None)
    world.clock.run_due()
    assert len(log.reads) == 2, "a load that was given up keeps its place until its read is over"
    log.reads[0].complete([])
    log.reads[1].complete([])
    world.clock.run_due()
    assert len(log.reads) == 4
    for read in log.reads[2:]:
        read.complete([])
    world.clock.run_due()
    led = [partition for partition in partitions if world.runtime.leader_epoch(partition) is not None]
    assert led == [partitions[1], partitions[3], partitions[4]]
    assert [shard.loaded for shard in world.shards] == [0, 1, 0, 1, 1]


def test_a_partition_that_comes_and_goes_leaves_one_load() -> None:
    """Leader, follower and leader again, before the first load has read anything."""
    log = written()
    log.reads = []
    world = RuntimeWorld(log, loads_at_once=1)
    for epoch in range(1, 40, 2):
        world.runtime.load(PARTITION, epoch)
        world.runtime.unload(PARTITION, epoch + 1)
    world.runtime.load(PARTITION, 41)
    assert len(world.runtime._queue) == 1
    world.clock.run_due()
    assert len(log.reads) == 1
    log.reads[0].complete([])
    world.clock.run_due()
    assert len(log.reads) == 2
    assert world.runtime.leader_epoch(PARTITION) is None
    log.reads[1].complete([])
    world.clock.run_due()
    assert world.runtime.leader_epoch(PARTITION) == 41
    assert sum(shard.loaded for shard in world.shards) == 1


def test_a_load_that_fails_or_stops_lets_the_next_one_begin() -> None:
    log = MemoryLog()
    before = active(log)
    for number in range(10):
        before.put(f"k{number}", number)
    before.clock.run_due()
    world = RuntimeWorld(log, loads_at_once=1, load_slice_records=2)
    partitions = [TopicPartition("__consumer_offsets", number) for number in range(3)]
    for partition in partitions:
        world.runtime.load(partition, 1)
    world.clock.turn()
    world.runtime.unload(partitions[0], None)
    log.reads = []
    world.clock.run_due()
    log.reads[0].fail(OSError("as the test wanted"))
    log.reads = None
    world.clock.run_due()
    assert [world.runtime.leader_epoch(partition) for partition in partitions] == [None, None, 1]


def test_a_record_of_a_later_release_is_left_alone() -> None:
    log = MemoryLog()
    log.append(encode_batch([(0, (99).to_bytes(2, "big") + b"whatever", b"\0\0", ())]), 1)
    world = active(log)
    assert error_of_put(world) is None


def error_of_put(world: RuntimeWorld) -> ErrorCode | None:
    reply = world.put("a", 1)
    world.clock.run_due()
    return error_of(reply)


# -- partitions ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "expected"), [("polygenelubricants", 0), ("", 0), ("a", 97 % 50), ("\U0001f600", 1772899 % 50)])
def test_an_id_belongs_to_the_partition_that_java_brokers_compute(name: str, expected: int) -> None:
    """String.hashCode of the first is Integer.MIN_VALUE, which has no absolute value."""
    assert partition_of(name, 50) == expected
