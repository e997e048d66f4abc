"""The coordinator runtime on a log in memory: replies on commit, reverts, loading, leadership, timers; and all of it at random."""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.shard import CoordinatorResult
from tests.coordinator.runtime_support import RuntimeWorld, active, error_of
from tests.coordinator.support import PARTITION, MemoryLog


def test_many_operations_one_append() -> None:
    world = active()
    replies = [world.put("a", number) for number in range(5)]
    assert not any(reply.done for reply in replies)
    world.clock.run_due()
    assert [reply.result() for reply in replies] == [None, 0, 1, 2, 3]
    assert len(world.log.batches) == 1


def test_a_reply_waits_for_the_commit_and_so_does_what_saw_its_state() -> None:
    world = active(MemoryLog(auto_commit=False))
    first = world.put("a", 1)
    seen = world.runtime.write(PARTITION, lambda shard: CoordinatorResult([], shard.values.get("a")))
    world.clock.run_due()
    assert not first.done
    assert not seen.done
    assert world.committed("a") is None
    world.log.commit(1)
    assert first.result() is None
    assert seen.result() == 1
    assert world.committed("a") == 1


def test_a_failed_append_takes_back_the_whole_batch_and_nothing_before_it() -> None:
    world = active(MemoryLog(auto_commit=False))
    before = world.put("a", 1)
    world.clock.run_due()
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    replies = [world.put("a", 2), world.put("b", 3)]
    world.clock.run_due()
    assert [error_of(reply) for reply in replies] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert dict(world.shard.values.items()) == {"a": 1}
    assert not before.done
    world.log.fail_with = None
    after = world.put("c", 4)
    world.clock.run_due()
    world.log.commit(2)
    assert before.done
    assert after.error is None
    assert after.done
    assert dict(world.shard.values.committed_items()) == {"a": 1, "c": 4}


def test_what_is_not_committed_fails_when_the_partition_is_lost() -> None:
    world = active(MemoryLog(auto_commit=False))
    written, gathered = world.put("a", 1), None
    world.clock.run_due()
    gathered = world.put("a", 2)
    world.log.lose()
    assert error_of(written) is error_of(gathered) is ErrorCode.NOT_COORDINATOR
    assert error_of(world.put("a", 3)) is ErrorCode.NOT_COORDINATOR
    assert world.shard.unloaded == 1
    with pytest.raises(KafkaError) as caught:
        world.committed("a")
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_what_is_not_committed_fails_when_the_partition_moves() -> None:
    world = active(MemoryLog(auto_commit=False))
    written = world.put("a", 1)
    world.clock.run_due()
    gathered = world.put("a", 2)
    world.runtime.unload(PARTITION, 2)
    assert error_of(written) is error_of(gathered) is ErrorCode.NOT_COORDINATOR
    assert world.shard.unloaded == 1


def test_not_replicated_in_time() -> None:
    world = active(MemoryLog(auto_commit=False), write_timeout_ms=5_000)
    first = world.put("a", 1)
    world.clock.advance_s(4.9)
    assert not first.done
    world.clock.advance_s(0.2)
    assert error_of(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.shard.values.get("a") == 1, "the record is in the log and may yet be committed"
    world.log.commit(1)
    assert world.committed("a") == 1


def test_loading_replays_and_answers_that_it_does() -> None:
    log = MemoryLog()
    filled = active(log)
    for number in range(10):
        filled.put(f"k{number % 3}", number)
        filled.clock.run_due()
    filled.put("k0", None)
    filled.clock.run_due()
    world = RuntimeWorld(log, load_slice_records=2)
    world.runtime.load(PARTITION, 2)
    assert error_of(world.put("x", 1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.clock.run_due()
    assert dict(world.shard.values.items()) == {"k1": 7, "k2": 8}
    assert len(world.shard.replayed) == 11
    assert world.shard.loaded == 1
    assert world.shard.values.uncommitted == 0, "what is committed leaves nothing to take back"


def test_a_leader_that_goes_on_in_a_later_epoch_keeps_what_it_knows() -> None:
    world = active(MemoryLog(auto_commit=False))
    shard = world.shard
    appended = world.put("a", 1)
    world.clock.run_due()
    gathered = world.put("b", 2)
    shard.timers.schedule("t", 100, lambda: CoordinatorResult(shard.put("c", 3).records, None))
    world.runtime.load(PARTITION, 4)
    assert world.runtime.leader_epoch(PARTITION) == 4
    assert not appended.done
    assert not gathered.done
    world.clock.advance_s(0.2)
    world.log.commit(world.log.log_end_offset)
    assert error_of(appended) is error_of(gathered) is None
    assert dict(shard.values.committed_items()) == {"a": 1, "b": 2, "c": 3}
    assert world.log.leader_epochs == [1, 4, 4]
    assert (len(world.shards), shard.unloaded, shard.new_epochs) == (1, 0, 1)
    assert world.log.listeners == 1


def test_a_load_goes_on_in_a_later_epoch() -> None:
    log = MemoryLog()
    log.log_end_offset = log.high_watermark = 5
    log.reads = []
    world = RuntimeWorld(log)
    world.runtime.load(PARTITION, 2)
    world.runtime.load(PARTITION, 3)
    assert len(log.reads) == 1
    log.reads[0].complete([])
    world.clock.run_due()
    assert world.runtime.leader_epoch(PARTITION) == 3
    assert world.shard.new_epochs == 0


def test_old_and_known_news_change_nothing() -> None:
    world = active()
    for epoch in (1, 0):
        world.runtime.load(PARTITION, epoch)
        world.runtime.unload(PARTITION, epoch)
    world.clock.run_due()
    assert (len(world.shards), world.shard.unloaded, world.shard.new_epochs) == (1, 0, 0)
    assert world.runtime.leader_epoch(PARTITION) == 1


def test_after_a_term_of_somebody_else_all_is_loaded_again() -> None:
    world = active()
    world.put("a", 1)
    world.clock.run_due()
    world.shard.timers.schedule("t", 100, lambda: CoordinatorResult(world.shards[0].put("a", 3).records, None))
    world.runtime.unload(PARTITION, 2)
    assert error_of(world.put("a", 2)) is ErrorCode.NOT_COORDINATOR
    world.runtime.load(PARTITION, 3)
    world.clock.advance_s(1)
    assert len(world.shards) == 2
    assert world.shards[0].unloaded == 1
    assert dict(world.shard.values.items()) == {"a": 1}, "no timer of the former term fires into the new one"


def test_a_log_that_is_not_what_it_was_is_loaded_again() -> None:
    """As when the partition was given a new log directory in between."""
    world = active()
    world.log.leads_on = False
    world.runtime.load(PARTITION, 2)
    world.clock.run_due()
    assert len(world.shards) == 2
    assert world.shards[0].unloaded == 1
    assert world.runtime.leader_epoch(PARTITION) == 2


def test_a_load_that_is_overtaken_does_nothing_more() -> None:
    log = MemoryLog()
    log.log_end_offset = log.high_watermark = 5
    log.reads = []
    world = RuntimeWorld(log)
    world.runtime.load(PARTITION, 1)
    world.runtime.unload(PARTITION, 2)
    log.reads[0].complete([])
    world.clock.run_due()
    assert world.shard.loaded == 0
    assert error_of(world.put("a", 1)) is ErrorCode.NOT_COORDINATOR


def test_transactional_writes_wait_for_their_marker() -> None:
    world = active()
    plain = world.put("a", 1)
    reply = world.runtime.write_transactional(PARTITION, 7, 0, None, lambda shard: shard.put("a", 2))
    assert plain.done
    assert reply.done
    assert len(world.log.batches) == 2
    assert world.shard.values.get("a") == 1
    world.runtime.end_transaction(PARTITION, 7, 0, 3, committed=True, version=2)
    assert world.log.versions == [0, 0, 2]
    assert world.shard.values.get("a") == 2
    reloaded = active(world.log)
    assert dict(reloaded.shard.values.items()) == {"a": 2}
    assert not len(reloaded.shard.pending)


def test_a_marker_that_cannot_be_written_ends_nothing() -> None:
    world = active()
    world.runtime.write_transactional(PARTITION, 7, 0, None, lambda shard: shard.put("a", 2))
    world.log.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ended = world.runtime.end_transaction(PARTITION, 7, 0, 3, committed=True, version=1)
    assert error_of(ended) is ErrorCode.NOT_COORDINATOR
    assert world.shard.values.get("a") is None
    assert world.shard.pending.get(7) == (("a", 2),)


def test_a_batch_too_large_is_refused_and_changes_nothing() -> None:
    log = MemoryLog()
    log.max_batch_bytes = 200
    world = active(log)
    reply = world.put("k" * 300, 1)
    assert error_of(reply) is ErrorCode.UNKNOWN_SERVER_ERROR
    fitting = [world.put(f"k{number}", number) for number in range(20)]
    world.clock.run_due()
    assert all(error_of(each) is None for each in fitting)
    assert len(log.batches) > 3
    assert len(world.shard.values) == 20


def test_soft_state_is_told_of_its_append() -> None:
    world = active()
    told: list[KafkaError | None] = []
    result = CoordinatorResult(world.shard.put("a", 1).records, "done", replay=False, on_committed=told.append)
    world.log.fail_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    failed = world.runtime.write(PARTITION, lambda _: result)
    world.clock.run_due()
    world.log.fail_with = None
    kept = world.runtime.write(PARTITION, lambda _: result)
    world.clock.run_due()
    assert error_of(failed) is ErrorCode.NOT_COORDINATOR
    assert kept.result() == "done"
    assert [None if error is None else error.code for error in told] == [ErrorCode.NOT_COORDINATOR, None]
    assert not len(world.shard.values)


def test_timers_write_and_try_again() -> None:
    world = active()
    shard = world.shard
    shard.timers.schedule("t", 100, lambda: CoordinatorResult(shard.put("a", 1).records, None))
    world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.advance_s(0.2)
    assert not len(shard.values)
    world.log.fail_with = None
    world.clock.advance_s(1)
    assert shard.values.get("a") == 1
    assert not len(shard.timers)
    shard.timers.schedule("u", 100, lambda: CoordinatorResult(shard.put("a", 2).records, None))
    shard.timers.cancel("u")
    shard.timers.schedule("v", 100, lambda: CoordinatorResult(shard.put("a", 3).records, None))
    world.runtime.unload(PARTITION, None)
    world.clock.advance_s(1)
    assert shard.values.get("a") == 1


@pytest.mark.parametrize("seed", range(30))
def test_state_is_always_the_log_replayed(seed: int) -> None:
    """Random operations, failures, commits and moves: the latest state is the replay of what was appended or gathered, the committed
    state is the replay of the log below the high watermark, and no reply comes before its commit or is lost.
    """
    rng = random.Random(seed)
    log = MemoryLog(auto_commit=False)
    world = RuntimeWorld(log)
    epoch = 1
    world.runtime.load(PARTITION, epoch)
    world.clock.run_due()
    replies: list[Deferred[Any]] = []
    for _ in range(200):
        action = rng.random()
        if action < 0.5:
            replies.append(world.put(f"k{rng.randrange(4)}", rng.choice([None, *range(100)])))
        elif action < 0.6:
            producer = rng.randrange(3)
            replies.append(
                world.runtime.write_transactional(
                    PARTITION, producer, 0, None, lambda shard: shard.put(f"k{rng.randrange(4)}", rng.randrange(100))
                )
            )
        elif action < 0.65:
            replies.append(world.runtime.end_transaction(PARTITION, rng.randrange(3), 0, 1, committed=rng.random() < 0.5, version=1))
        elif action < 0.8:
            world.clock.run_due()
        elif action < 0.9:
            log.commit(rng.choice(log.boundaries()))
        elif action < 0.95:
            log.fail_with = None if log.fail_with else ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            epoch += 1
            if rng.random() < 0.6:
                log.lose()
                log.truncate(rng.choice(log.boundaries()))
                log.high_watermark = min(log.high_watermark, log.log_end_offset)
            world.runtime.load(PARTITION, epoch)
            world.clock.run_due()
        if world.runtime.leader_epoch(PARTITION) is not None:
            log_only = active(_copy(log, log.high_watermark))
            assert dict(world.shard.values.committed_items()) == dict(log_only.shard.values.items())
    log.fail_with = None
    world.clock.run_due()
    log.commit(log.log_end_offset)
    everything = active(_copy(log, log.log_end_offset))
    assert dict(world.shard.values.items()) == dict(everything.shard.values.items())
    assert all(reply.done for reply in replies)


def _copy(log: MemoryLog, end: int) -> MemoryLog:
    copy = MemoryLog()
    copy.batches = list(log.batches)
    copy.log_end_offset = log.log_end_offset
    copy.truncate(end)
    copy.high_watermark = copy.log_end_offset
    return copy


class LosingLog(MemoryLog):
    """A log whose partition belongs to another broker when `lost`; every call then fails with that."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = False

    def __getattribute__(self, name: str) -> Any:
        if name in ("max_batch_bytes", "log_end_offset", "high_watermark"):
            if object.__getattribute__(self, "__dict__").get("lost"):
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "another leads")
            if name == "max_batch_bytes":
                return 1_000_000
        return object.__getattribute__(self, name)


def test_a_partition_that_is_lost_unheard_of_refuses_in_the_words_of_a_coordinator() -> None:
    log = LosingLog()
    world = active(log)
    world.put("a", 1)
    world.clock.run_due()
    log.lost = True
    assert error_of(world.put("a", 2)) is ErrorCode.NOT_COORDINATOR
    assert world.committed("a") == 1
    log.lost = False
    world.put("b", 1)
    world.clock.run_due()
    assert world.committed("b") == 1


def test_a_partition_that_is_lost_while_it_is_loaded_is_not_coordinated() -> None:
    log = LosingLog()
    before = active(log)
    before.put("a", 1)
    before.clock.run_due()
    log.reads = []
    world = RuntimeWorld(log)
    world.runtime.load(PARTITION, 2)
    log.lost = True
    log.reads[0].complete([])
    world.clock.run_due()
    assert error_of(world.put("a", 2)) is ErrorCode.NOT_COORDINATOR


def test_nothing_is_served_before_all_that_was_loaded_is_committed() -> None:
    """The former leader may have acknowledged what this one's high watermark has not reached yet."""
    log = MemoryLog(auto_commit=False)
    before = active(log)
    before.put("a", 1)
    before.clock.run_due()
    before.put("a", 2)
    before.clock.run_due()
    log.commit(1)
    world = active(log)
    assert error_of(world.put("b", 1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError) as caught:
        world.committed("a")
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError) as caught:
        world.runtime.read_all(lambda shard: shard)
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.runtime.each_active(lambda shard: shard) == []
    assert (world.shard.loaded, world.runtime.leader_epoch(PARTITION)) == (0, None)
    log.commit(2)
    assert world.shard.loaded == 1
    assert world.committed("a") == 2


def test_what_was_loaded_and_is_lost_before_its_commit_is_never_served() -> None:
    log = MemoryLog(auto_commit=False)
    before = active(log)
    before.put("a", 1)
    before.clock.run_due()
    world = active(log)
    world.runtime.load(PARTITION, 2)
    log.lose()
    assert log.listeners == 0
    log.commit(1)
    assert error_of(world.put("b", 1)) is ErrorCode.NOT_COORDINATOR
    assert world.shard.loaded == 0


def test_what_somebody_else_wrote_meanwhile_is_loaded_as_well() -> None:
    log = MemoryLog(auto_commit=False)
    before = active(log)
    before.put("a", 1)
    before.clock.run_due()
    world = active(log)
    before.put("a", 2)
    before.clock.run_due()
    log.commit(2)
    world.clock.run_due()
    assert world.committed("a") == 2
    assert [shard.loaded for shard in world.shards] == [0, 1]


def test_a_reply_waits_for_what_took_too_long() -> None:
    world = active(MemoryLog(auto_commit=False))
    late = world.put("a", 1)
    world.clock.advance_s(6)
    assert error_of(late) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    reply = world.runtime.write(PARTITION, lambda shard: CoordinatorResult([], shard.values.get("a")))
    assert not reply.done
    world.clock.advance_s(6)
    assert error_of(reply) is ErrorCode.COORDINATOR_NOT_AVAILABLE
