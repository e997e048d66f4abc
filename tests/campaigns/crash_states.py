"""Crashes of the log layer at every change that it makes to the disk, followed by a start on a disk that a power cut may leave.

    python -m tests.campaigns.crash_states --states 50000 --seed 1

A world is a log manager on a virtual disk. It appends (plain, idempotent, transactional), rolls, flushes, writes checkpoints, truncates,
deletes records, applies retention, compacts and swaps segments, creates and deletes topics, shuts down, is killed and loses power. Before
each write, fsync, rename, truncation and removal several disks are made of the durable changes and of subsets of the others
(`VirtualDisk.crash`). Checks of each disk:
  opens             every log directory and every topic opens;
  flushed-prefix    flushed batches exist byte for byte (last-values: of a compacted topic the last value of each key);
  valid-prefix      readable batches were written, as one chain and without gaps (order, no-gap);
  log-start, offsets-in-order, epochs, producers, aborted   fit the existing batches;
  reopens           after a kill, a second power cut, an append, a write over lost batches or a clean shutdown all checks hold again.
A failure prints the world, step and state; `--world W --step N --state K` with the same seed repeats it.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.batch import encode_batch
from odradek.records.compaction import OffsetMap
from odradek.records.compression import Compression
from odradek.records.patch import patched_chunks
from odradek.storage.append import AppendOrigin
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.run import CleaningRun
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.flushing import Flush
from odradek.storage.log import Log
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import ALL, DIRECTORIES, NONE, PREFIX, SUBSET, VirtualDisk
from tests.campaigns.crash_model import Batch, Found, History, Violation, check, owners_of
from tests.clock import ManualClock
from tests.storage.support import (
    NOW_MS,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    cleanup,
    load_all,
    marker,
    no_broker,
    topic_config,
)

DATA = "/data"
PLAIN = {"segment_bytes": 700, "index_interval_bytes": 100, "retention_bytes": 1000, "file_delete_delay_ms": 0}
SHORT_LIVED = {"segment_bytes": 600, "index_interval_bytes": 100, "retention_ms": 60, "file_delete_delay_ms": 0}
COMPACTED = {
    "segment_bytes": 900,
    "index_interval_bytes": 100,
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": 50,
    "file_delete_delay_ms": 0,
}
COMPACTED_AND_SHORTENED = {**COMPACTED, "cleanup_policy": "compact,delete", "retention_bytes": 1200}
MODES = ((NONE, NONE), (ALL, ALL), (PREFIX, SUBSET), (PREFIX, SUBSET), (DIRECTORIES, SUBSET), (ALL, NONE), (ALL, SUBSET), (PREFIX, ALL))
STEPS = 120


class Opened:
    """Log manager with its cleaner on a disk, opened as a broker opens it."""

    def __init__(self, disk: VirtualDisk, clock: ManualClock, histories: dict[UUID, History], rng: random.Random) -> None:
        self.disk = disk
        configs = {history.topic_partition: history.config for history in histories.values()}
        plain = topic_config(**PLAIN)
        self.manager = LogManager(disk, clock, [DATA], no_broker(), random=rng, verify_transactions=False)
        load_all(self.manager, lambda partition: configs.get(partition, plain), is_stray=lambda _, topic_id: topic_id not in histories)
        failed = [directory.failure for directory in self.manager.directories if directory.failure is not None]
        if failed:
            raise Violation(f"opens: the log directory is offline: {failed[0]!r}")
        self.cleaner = CleanerManager(disk, self.manager)
        self.manager.cleaner = self.cleaner
        self.logs: dict[UUID, Log] = {}
        for topic_id, history in histories.items():
            self.logs[topic_id] = self.manager.create_log(history.topic_partition, topic_id, history.config)

    def names(self) -> None:
        self.manager.finish_checkpoints(write_checkpoints(self.manager.names.begin()))


class CrashWorld:
    """One run of the log layer. `boundary` is called before every change of the disk."""

    def __init__(self, seed: str, boundary: Callable[[CrashWorld], None]) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.boundary = boundary
        self.counter = 0
        self.epoch = 0
        self.histories: dict[UUID, History] = {}
        """Histories of the topics in the metadata."""
        self.sequences: dict[tuple[UUID, int], int] = {}
        self.doing = "start"
        self.flushes: list[tuple[History, Log, Flush, list[Batch], int]] = []
        self.use(VirtualDisk(time_ms=self.clock.time_ms))
        for name, settings in (("plain", PLAIN), ("compacted", COMPACTED)):
            self.create(name, topic_config(**settings))

    def use(self, disk: VirtualDisk) -> None:
        """Open the logs on this disk."""
        self.flushes.clear()
        self.disk = disk
        disk.fault = self._before
        self.opened = Opened(disk, self.clock, self.histories, random.Random(self.rng.random()))

    def _before(self, operation: str, path: str) -> None:
        if operation != "read":
            self.boundary(self)

    def create(self, name: str, config: TopicConfig) -> None:
        topic_id = UUID(int=self.rng.getrandbits(128))
        history = self.histories[topic_id] = History(TopicPartition(name, 0), topic_id, config)
        self.opened.logs[topic_id] = self.opened.manager.create_log(history.topic_partition, topic_id, config)

    # -- operations of a broker --------------------------------------------------------------------------------------------------------

    def pick(self) -> tuple[History, Log]:
        history = self.rng.choice(list(self.histories.values()))
        return history, self.opened.logs[history.topic_id]

    def append(self, history: History, log: Log, data: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT) -> Batch:
        batch = history.begin(b"".join(patched_chunks(data, log.log_end_offset, self.epoch)))
        log.append_as_leader(data, self.epoch, origin=origin)
        history.appended(batch, log)
        log.update_high_watermark(log.log_end_offset)
        return batch

    def do_append(self) -> None:
        history, log = self.pick()
        rng = self.rng
        self.counter += 1
        self.clock.advance_ms(rng.choice((1, 20)))
        records = [
            (
                self.clock.time_ms(),
                b"k%d" % rng.randrange(6),
                None if history.compacted and rng.random() < 0.15 else b"%d:%d" % (self.counter, index) + b"." * rng.choice((0, 10, 90)),
                (),
            )
            for index in range(rng.randint(1, 5))
        ]
        producer_id = rng.choice((-1, -1, 7, 8, 9))
        transactional = producer_id >= 8
        sequence = -1
        if producer_id >= 0:
            key = (history.topic_id, producer_id)
            entry = log.producer_state.producers.get(producer_id)
            # A producer known only by a marker begins with sequence 0; an unknown producer continues its sequences.
            sequence = self.sequences.get(key, 0) if entry is None else entry.last_sequence + 1
            self.sequences[key] = sequence + len(records)
        data = encode_batch(
            records,
            compression=rng.choice((Compression.NONE, Compression.NONE, Compression.GZIP)),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        batch = self.append(history, log, memoryview(data))
        if transactional:
            history.open.setdefault(producer_id, []).append(batch)

    def do_end_transaction(self) -> None:
        history, log = self.pick()
        if history.open:
            producer_id = self.rng.choice(sorted(history.open))
            commit = self.rng.random() < 0.5
            data = marker(producer_id, 0, commit=commit, timestamp=self.clock.time_ms())
            if not commit:
                history.begin_abort(producer_id)
            history.decided(self.append(history, log, data, AppendOrigin.COORDINATOR))

    def do_new_epoch(self) -> None:
        self.epoch += 1
        _, log = self.pick()
        log.assign_epoch_start(self.epoch, log.log_end_offset)

    def do_roll(self) -> None:
        self.pick()[1].roll()

    def do_begin_flush(self) -> None:
        history, log = self.pick()
        flush = log.begin_flush()
        if flush is not None:
            image = [] if history.tail is None else history.tail.chain()
            self.flushes.append((history, log, flush, image, log.generation))

    def do_finish_flush(self) -> None:
        """Run a flush that was begun earlier. The log may have changed since."""
        if self.flushes:
            history, log, flush, image, generation = self.flushes.pop(0)
            flush.run(self.disk)
            if log.generation == generation:
                history.flushed, history.flushed_end = image, max(history.flushed_end, flush.up_to)
            log.finish_flush(flush)

    def do_flush(self) -> None:
        while self.flushes:
            self.do_finish_flush()
        self.do_begin_flush()
        self.do_finish_flush()

    def do_checkpoint(self) -> None:
        if self.rng.random() < 0.5:
            self.do_flush()
        checkpoint_recovery_points(self.opened.manager)

    def do_checkpoint_starts(self) -> None:
        starts = {topic_id: log.log_start_offset for topic_id, log in self.opened.logs.items()}
        checkpoint_log_start_offsets(self.opened.manager)
        for topic_id, start in starts.items():
            self.histories[topic_id].start_durable = start

    def do_truncate(self) -> None:
        history, log = self.pick()
        low = max(log.log_start_offset, history.cleaned_end)
        target = self.rng.randint(min(low, log.log_end_offset), log.log_end_offset)
        if len(log.bases) > 1 and self.rng.random() < 0.5:
            # Truncate across segments, where the recovery point is in the last segment.
            target = max(min(low, log.log_end_offset), log.bases[-1] - self.rng.randint(0, 2))
        # A batch that contains the target is removed as a whole.
        line = [] if history.tail is None else history.tail.chain()
        history.cut(min([target, *[batch.base for batch in line if batch.base < target <= batch.last]]))
        if history.flushed_end <= history.start_limit:
            # No readable batch is left: the log starts again.
            history.flushed, history.flushed_end = [], 0
        now = self.rng.random() < 0.5
        log.truncate_to(target, durable=now)
        if not now:
            self.harden(log)
        history.cut(log.log_end_offset)
        history.now_ends_at(log.log_end_offset)
        history.start_durable = min(history.start_durable, log.log_start_offset)
        log.update_high_watermark(log.log_end_offset)

    def do_truncate_fully(self) -> None:
        history, log = self.pick()
        target = log.log_end_offset + self.rng.randint(0, 3)
        history.flushed, history.flushed_end = [], 0
        history.start_limit = max(history.start_limit, target)
        now = self.rng.random() < 0.5
        log.truncate_fully_and_start_at(target, durable=now)
        if not now:
            self.harden(log)
        history.tail = None
        history.open.clear()

    def harden(self, log: Log) -> None:
        """Make a truncation durable as followers do."""
        hardening = self.opened.manager.begin_hardening([log])
        if hardening is not None:
            hardening.run()
            self.opened.manager.finish_hardening(hardening)

    def do_delete_records(self) -> None:
        history, log = self.pick()
        log.update_high_watermark(log.log_end_offset)
        target = self.rng.randint(log.log_start_offset, log.log_end_offset)
        history.start_limit = max(history.start_limit, target)
        log.maybe_increment_log_start_offset(target)

    def do_retention(self) -> None:
        limits = {history.topic_id: history.start_limit for history in self.histories.values()}
        for topic_id, log in self.opened.logs.items():
            self.histories[topic_id].start_limit = max(limits[topic_id], log.log_end_offset)
        cleanup(self.opened.manager)
        self.opened.cleaner.delete_old_segments()
        for topic_id, log in self.opened.logs.items():
            self.histories[topic_id].start_limit = max(limits[topic_id], log.log_start_offset)

    def do_deletions(self) -> None:
        deletion = self.opened.manager.due_deletions()
        if deletion is not None and (errors := deletion.run()):
            raise Violation(f"deletes: {errors}")

    def do_compact(self) -> None:
        self.clock.advance_ms(self.rng.choice((0, 200)))
        cleaner = self.opened.cleaner
        plan = cleaner.grab_filthiest(self.clock.time_ms())
        if plan is None:
            return
        history = self.histories[plan.log.topic_id]  # type: ignore[index]
        active = plan.log.active.base_offset
        line = [] if history.tail is None else history.tail.chain()
        # Aborted records are removed because of the marker. It is below the high watermark, so no replica truncates it afterwards.
        ends = [batch.decided_by.last + 1 for batch in line if batch.base < active and batch.decided_by is not None]
        history.cleaned_end = max(history.cleaned_end, active, *ends)
        run = CleaningRun(
            cleaner,
            self.opened.manager,
            plan,
            OffsetMap(1 << 14, seed=bytes(16)),
            disk=self.disk,
            clock=self.clock,
            throttle=Throttle(self.clock, 1e18),
            buffer_bytes=2048,
        )
        while True:
            run.step()
            if self.rng.random() < 0.1:
                self.do_append()
            if run.settle() is None:
                break
        if cleaner.uncleanable.get(DATA):
            raise Violation(f"cleans: {dict(cleaner.uncleanable[DATA])}")
        write_checkpoints(cleaner.take_checkpoint_writes())

    def do_names(self) -> None:
        self.opened.names()

    def do_topics(self) -> None:
        """Delete the third topic and create it again, or the other way round."""
        for topic_id, history in list(self.histories.items()):
            if history.topic_partition.topic == "third":
                del self.histories[topic_id]
                self.flushes = [each for each in self.flushes if each[0] is not history]
                del self.opened.logs[topic_id]
                self.opened.manager.delete_log(history.topic_partition)
                if self.rng.random() < 0.3:
                    return
        if not any(history.topic_partition.topic == "third" for history in self.histories.values()):
            self.create("third", topic_config(**self.rng.choice((PLAIN, SHORT_LIVED, COMPACTED_AND_SHORTENED))))

    def do_restart(self) -> None:
        ends = {topic_id: log.log_end_offset for topic_id, log in self.opened.logs.items()}
        starts = {topic_id: log.log_start_offset for topic_id, log in self.opened.logs.items()}
        while self.flushes:
            self.do_finish_flush()
        self.opened.manager.shutdown()
        for topic_id, history in self.histories.items():
            history.flushed = [] if history.tail is None else history.tail.chain()
            history.flushed_end, history.start_durable = ends[topic_id], starts[topic_id]
        self.use(self.disk.kill())

    def do_kill(self) -> None:
        self.use(self.disk.kill())
        self.resume()

    def do_cut(self) -> None:
        names, data = self.rng.choice(MODES)
        self.use(self.disk.crash(self.rng, names=names, data=data))
        self.resume()

    def resume(self) -> None:
        """Check the logs found, and set the histories to them."""
        for topic_id, log in self.opened.logs.items():
            history = self.histories[topic_id]
            found = Found(self.disk, log)
            check(history, log, found)
            history.tail = None
            for owner, (base, _, _, _) in zip(owners_of(history, found), found.batches, strict=True):
                # Of a batch without records only the offset is known.
                same = owner or next((each for each in reversed(history.by_bytes.values()) if each.base == base), None)
                history.tail = same or history.tail
            history.open.clear()
            if history.tail is not None:
                for batch in history.tail.chain():
                    batch.decided_by, batch.aborted = self._decision(history, batch)
            log.update_high_watermark(log.log_end_offset)

    def _decision(self, history: History, batch: Batch) -> tuple[Batch | None, bool]:
        """Return the marker in the tail's chain that ended the batch's transaction, and whether the marker aborted it."""
        if batch.producer_id < 8 or batch.control or history.tail is None:
            return None, False
        for later in history.tail.chain():
            if later.control and later.producer_id == batch.producer_id and later.base > batch.base:
                return later, later.records[0][1] == b"\0\0\0\0"
        history.open.setdefault(batch.producer_id, []).append(batch)
        return None, False

    def step(self) -> None:
        actions = (
            (36, self.do_append),
            (8, self.do_end_transaction),
            (2, self.do_new_epoch),
            (4, self.do_roll),
            (4, self.do_begin_flush),
            (4, self.do_finish_flush),
            (8, self.do_flush),
            (5, self.do_checkpoint),
            (3, self.do_checkpoint_starts),
            (3, self.do_truncate),
            (1, self.do_truncate_fully),
            (2, self.do_delete_records),
            (7, self.do_retention),
            (4, self.do_deletions),
            (10, self.do_compact),
            (2, self.do_names),
            (2, self.do_topics),
            (2, self.do_restart),
            (2, self.do_kill),
            (2, self.do_cut),
        )
        action = self.rng.choices([each for _, each in actions], [weight for weight, _ in actions])[0]
        self.doing = action.__name__.removeprefix("do_")
        action()


class Campaign:
    """Run of many worlds, with counts of steps and states."""

    def __init__(self, seed: int, *, per_step: int = 3, only: tuple[int, int] | None = None) -> None:
        self.seed = seed
        self.per_step = per_step
        self.only = only
        self.world_number = 0
        self.steps = self.states = self.all_steps = 0
        self.operations: dict[str, int] = {}
        self.failures: list[str] = []

    def run_world(self, number: int) -> None:
        self.world_number, self.steps = number, 0
        doing = "start"
        try:
            world = CrashWorld(f"{self.seed}/{number}", self.boundary)
            for _ in range(STEPS):
                world.step()
                doing = world.doing
        except _Stop:
            return
        except Exception as error:
            if isinstance(error, Violation) or self.only is None:
                self._fail(f"the world itself, after {doing}", error)
            else:
                raise

    def boundary(self, world: CrashWorld) -> None:
        """Check the possible states before a change of the disk."""
        self.steps += 1
        self.all_steps += 1
        self.operations[world.doing] = self.operations.get(world.doing, 0) + 1
        for state in range(self.per_step):
            if self.only is not None and self.only != (self.steps, state):
                continue
            self.states += 1
            try:
                judge(world, random.Random(f"{self.seed}/{self.world_number}/{self.steps}/{state}"))
            except Exception as error:
                self._fail(f"--step {self.steps} --state {state} (during {world.doing})", error)
                raise _Stop from None

    def _fail(self, place: str, error: Exception) -> None:
        text = f"{error}" if isinstance(error, Violation) else "".join(traceback.format_exception(error)[-4:])
        self.failures.append(f"--seed {self.seed} --world {self.world_number} {place}: {text}")


class _Stop(BaseException):
    """End of a world after a failure."""


def judge(world: CrashWorld, rng: random.Random) -> None:
    """Make one disk that a power cut may leave now, and check it."""
    names, data = rng.choice(MODES)
    opened = Opened(world.disk.crash(rng, names=names, data=data), world.clock, world.histories, rng)
    before = dict(_all_found(opened, world))
    second = rng.randrange(5)
    if second == 0:
        again = Opened(opened.disk.kill(), world.clock, world.histories, rng)
        _compare(before, dict(_all_found(again, world)), "a kill")
    elif second == 1:
        names, data = rng.choice(MODES)
        again = Opened(opened.disk.crash(rng, names=names, data=data), world.clock, world.histories, rng)
        for _ in _all_found(again, world):
            pass
    elif second == 2:
        opened.manager.shutdown()
        names, data = rng.choice(MODES)
        again = Opened(opened.disk.crash(rng, names=names, data=data), world.clock, world.histories, rng)
        _compare(before, dict(_all_found(again, world)), "a clean shutdown")
    elif second == 3 and before:
        _append_and_lose_power(opened, world, before, rng)
    else:
        _write_over_and_lose_power(opened, world, before, rng)


def _all_found(opened: Opened, world: CrashWorld) -> Iterator[tuple[UUID, Found]]:
    for topic_id, log in opened.logs.items():
        found = Found(opened.disk, log)
        try:
            check(world.histories[topic_id], log, found)
        except Violation as violation:
            raise Violation(f"{log.topic_partition}: {violation}") from None
        yield topic_id, found


def _compare(before: dict[UUID, Found], after: dict[UUID, Found], what: str) -> None:
    for topic_id, found in before.items():
        difference = found.same(after[topic_id])
        if difference:
            raise Violation(f"reopens: after {what} {difference}")


def _append_and_lose_power(opened: Opened, world: CrashWorld, before: dict[UUID, Found], rng: random.Random) -> None:
    """Check that a flushed batch and all batches before it survive any power cut."""
    topic_id = rng.choice(list(opened.logs))
    log = opened.logs[topic_id]
    epoch = max(world.epoch, log.latest_epoch)
    data = memoryview(encode_batch([(NOW_MS, b"new", b"new", ())]))
    stored = b"".join(patched_chunks(data, log.log_end_offset, epoch))
    log.append_as_leader(data, epoch)
    log.flush()
    names, what = rng.choice(MODES)
    again = Opened(opened.disk.crash(rng, names=names, data=what), world.clock, world.histories, rng)
    found = Found(again.disk, again.logs[topic_id])
    wanted = [each[3] for each in before[topic_id].batches] + [stored]
    if [each[3] for each in found.batches] != wanted:
        raise Violation(f"reopens: after an append, a flush and a power cut {log.topic_partition} holds other batches")


def _write_over_and_lose_power(opened: Opened, world: CrashWorld, before: dict[UUID, Found], rng: random.Random) -> None:
    """Write batches of the same size over lost batches, and check the state after a power cut.

    The batch after a lost batch must not come back. Later batches must not count as flushed because lost batches had been flushed.
    """
    written: list[tuple[History, Batch]] = []
    for topic_id, log in opened.logs.items():
        history = world.histories[topic_id]
        line = [] if history.tail is None else history.tail.chain()
        lost = next((each for each in line if each.base == log.log_end_offset), None)
        if lost is None or lost.control or before[topic_id].start < history.start_durable:
            continue
        records = [(NOW_MS, key, None if value is None else value.swapcase()[::-1], ()) for _, key, value, _ in lost.records]
        data = memoryview(encode_batch(records))
        if len(data) != len(lost.data):
            continue
        batches = before[topic_id].batches
        previous = history.by_bytes.get(batches[-1][3], lost.previous) if batches else None
        if batches and (previous is None or previous.base != batches[-1][0]):
            # The batches before have been compacted, so their writer is unknown.
            continue
        batch = Batch(b"".join(patched_chunks(data, log.log_end_offset, lost.epoch)), previous)
        if any(record in history.by_record for record in batch.records):
            continue
        _write(history, log, data, batch, written)
        for number in range(rng.randrange(4)):
            # Write beyond a recovery point that lost batches may have left behind.
            if rng.random() < 0.5:
                log.roll()
            data = memoryview(encode_batch([(NOW_MS, b"more", b"%d:%d" % (number, rng.getrandbits(64)), ())]))
            batch = Batch(b"".join(patched_chunks(data, log.log_end_offset, lost.epoch)), batch)
            _write(history, log, data, batch, written)
    names, what = rng.choice(MODES)
    again = Opened(opened.disk.crash(rng, names=names, data=what), world.clock, world.histories, rng)
    try:
        for _ in _all_found(again, world):
            pass
    finally:
        for history, batch in written:
            del history.by_bytes[batch.data]
            for record in batch.records:
                del history.by_record[record]


def _write(history: History, log: Log, data: memoryview, batch: Batch, written: list[tuple[History, Batch]]) -> None:
    history.by_bytes[batch.data] = batch
    history.by_record.update(dict.fromkeys(batch.records, batch))
    written.append((history, batch))
    log.append_as_leader(data, batch.epoch)


def campaign(states: int, seed: int, *, per_step: int = 3, progress: bool = False) -> Campaign:
    """Run worlds until `states` states have been checked, or until 10 failures."""
    run = Campaign(seed, per_step=per_step)
    number = 0
    started = time.monotonic()
    while run.states < states and len(run.failures) < 10:
        run.run_world(number)
        number += 1
        if progress and number % 5 == 0:
            speed = run.states / (time.monotonic() - started)
            print(f"{number} worlds, {run.states} states, {speed:.0f}/s, {len(run.failures)} failures", flush=True)
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-step", type=int, default=3, help="states for each change of the disk")
    parser.add_argument("--world", type=int, help="only this one")
    parser.add_argument("--step", type=int, help="only this step of it")
    parser.add_argument("--state", type=int, default=0, help="and this state")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    started = time.monotonic()
    if options.world is None:
        run = campaign(options.states, options.seed, per_step=options.per_step, progress=True)
    else:
        only = None if options.step is None else (options.step, options.state)
        run = Campaign(options.seed, per_step=options.per_step, only=only)
        run.run_world(options.world)
    seconds = time.monotonic() - started
    during = ", ".join(f"{name} {count}" for name, count in sorted(run.operations.items(), key=lambda item: -item[1]))
    print(f"{run.states} states at {run.all_steps} boundaries in {seconds:.0f} s ({run.states / seconds:.0f}/s), seed {options.seed}")
    print(f"boundaries: {during}")
    for failure in run.failures:
        print(failure)
    print(f"{len(run.failures)} failures")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
