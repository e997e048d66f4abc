"""The log against a model: producers, transactions, codecs, compaction, retention, other configurations, restarts, crashes in any order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import Record, encode_batch
from odradek.records.compaction import OffsetMap
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.run import CleaningRun
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.log import Log
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.log_manager import LogManager
from odradek.storage.txn_index import AbortedTransaction
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.log_model import (
    Producer,
    Producers,
    Written,
    batches_from,
    batches_in,
    committed_from,
    compacted,
    follow,
    replay,
    statuses,
)
from tests.storage.support import (
    PARTITION,
    TOPIC_ID,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    cleanup,
    load_all,
    marker,
    no_broker,
    read_bytes,
    topic_config,
)

BEGINNING: dict[str, object] = {
    "segment_bytes": 1200,
    "index_interval_bytes": 100,
    "cleanup_policy": "delete",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": 2000,
    "retention_ms": -1,
    "file_delete_delay_ms": 0,
}
CHANGES: list[tuple[str, object]] = [
    *[("segment_bytes", value) for value in (800, 1200, 4000)],
    *[("index_interval_bytes", value) for value in (0, 100, 1000)],
    *[("cleanup_policy", value) for value in ("delete", "compact", "compact", "compact,delete")],
    *[("message_timestamp_type", value) for value in ("CreateTime", "LogAppendTime")],
    *[("compression_type", value) for value in ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")],
    *[("delete_retention_ms", value) for value in (0, 2000)],
]
PRODUCERS = 3


class TransactionsWorld:
    """A log, and what it ought to hold."""

    def __init__(self, **values: object) -> None:
        self.clock = ManualClock()
        self.disk = VirtualDisk(time_ms=self.clock.time_ms)
        self.values = {**BEGINNING, **values}
        self.config = topic_config(**self.values)
        self.history: list[Written] = []
        """Everything appended and not truncated, whatever compaction and retention have taken."""
        self.batches: list[Written] = []
        """What the log holds of it."""
        self.known: Producers = {}
        self.bases: list[tuple[int, Producers]] = [(0, {})]
        """The producers known at an offset after a restart that did not read all batches."""
        self.index: list[AbortedTransaction] = []
        self.start = self.end = self.flushed = 0
        self.cleaned_end = 0
        self.highest_start = 0
        self.leader_epoch = 0
        self.counter = 0
        self.open()

    def open(self) -> None:
        self.manager = LogManager(self.disk, self.clock, ["/data"], no_broker(), random=random.Random(3), verify_transactions=False)
        load_all(self.manager, lambda _: self.config)
        self.log: Log = self.manager.create_log(PARTITION, TOPIC_ID, self.config)
        self.cleaner = CleanerManager(self.disk, self.manager)
        self.manager.cleaner = self.cleaner

    # -- appending ---------------------------------------------------------------------------------------------------------------------

    def _records(
        self, rng: random.Random, *, keyed: bool
    ) -> list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
        self.counter += 1
        records: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = []
        for index in range(rng.randint(1, 4)):
            key = None if not keyed and rng.random() < 0.3 else rng.choice([b"a", b"b", b"c", b"d", b""])
            value = None if rng.random() < 0.25 else f"{self.counter}:{index}".encode().ljust(rng.choice([0, 10, 60]), b".")
            headers = tuple((name, rng.choice([b"", b"1", None])) for name in ("h", "i")[: rng.randrange(3)])
            records.append((self.clock.time_ms() - rng.randrange(2000), key, value, headers))
        return records

    def append(self, rng: random.Random) -> None:
        """A data batch from a producer without id, an idempotent or a transactional one."""
        producer_id = rng.choice([-1, *range(PRODUCERS)])
        known = self.known.get(producer_id, Producer())
        epoch, sequence = (-1, -1) if producer_id < 0 else self._next(known, rng)
        transactional = producer_id >= 0 and (known.first_offset >= 0 or rng.random() < 0.6)
        self._put(rng, producer_id, epoch, sequence, transactional=transactional)

    def _next(self, known: Producer, rng: random.Random) -> tuple[int, int]:
        """(epoch, sequence) that a producer goes on with; without a sequence to go on from it needs the next epoch."""
        if known.epoch < 0:
            return 0, rng.choice([0, 7])
        if known.last_offset < 0:
            return (known.epoch, 0) if known.last_sequence < 0 and rng.random() < 0.5 else (known.epoch + 1, 0)
        return known.epoch, known.last_sequence + 1

    def _put(self, rng: random.Random, producer_id: int, epoch: int, sequence: int, *, transactional: bool) -> None:
        compact = self.config.compact
        records = self._records(rng, keyed=compact and rng.random() < 0.9)
        codec = rng.choice(list(Compression))
        data = memoryview(
            encode_batch(
                records,
                compression=codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        if compact and any(record[1] is None for record in records):
            self._refused(data, ErrorCode.INVALID_RECORD)
            return
        if rng.random() < 0.1:
            self.leader_epoch += rng.randint(1, 2)
        info = self.log.append_as_leader(data, self.leader_epoch)
        assert (info.first_offset, info.last_offset, info.duplicate) == (self.end, self.end + len(records) - 1, False)
        target = self.config.compression_type
        if target != "producer":
            codec = Compression.NONE if target == "uncompressed" else Compression[target.upper()]
        now = self.config.message_timestamp_type == "LogAppendTime"
        stored = tuple(
            Record(self.end + index, self.clock.time_ms() if now else timestamp, key, value, headers)
            for index, (timestamp, key, value, headers) in enumerate(records)
        )
        self._wrote(
            Written(
                self.end,
                self.end + len(records) - 1,
                self.leader_epoch,
                codec,
                producer_id,
                epoch,
                sequence,
                transactional,
                False,
                None,
                -1,
                None,
                max(record.timestamp for record in stored),
                stored,
            )
        )

    def _wrote(self, batch: Written) -> None:
        self.history.append(batch)
        self.batches.append(batch)
        aborted = follow(self.known, batch)
        if aborted is not None:
            self.index.append(aborted)
        self.end = batch.last + 1

    def _refused(self, data: memoryview, code: ErrorCode, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(data, self.leader_epoch, origin=origin)
        assert caught.value.code is code

    def end_transaction(self, rng: random.Random) -> None:
        """Commits or aborts, mostly what is open; sometimes under the next epoch, as since KIP-890."""
        ongoing = [producer_id for producer_id, each in sorted(self.known.items()) if each.first_offset >= 0]
        producer_id = rng.choice(ongoing) if ongoing and rng.random() < 0.9 else rng.randrange(PRODUCERS)
        known = self.known.get(producer_id, Producer())
        epoch = max(known.epoch, 0) + rng.choice([0, 0, 1])
        coordinator_epoch = max(known.coordinator_epoch, 0) + rng.choice([0, 0, 1])
        commit = rng.random() < 0.5
        now_ms = self.clock.time_ms()
        data = marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_ms)
        info = self.log.append_as_leader(data, self.leader_epoch, origin=AppendOrigin.COORDINATOR)
        assert info.first_offset == self.end
        written = batches_in(read_bytes(self.log, self.end))[0]
        assert written.records[0].timestamp == now_ms
        assert (written.base, written.last, written.control, written.transactional) == (self.end, self.end, True, True)
        assert (written.producer_id, written.producer_epoch, written.aborts) == (producer_id, epoch, not commit)
        assert (written.leader_epoch, written.coordinator_epoch) == (self.leader_epoch, coordinator_epoch)
        self._wrote(written)
        if epoch > 0:
            self._refused(marker(producer_id, epoch - 1, commit=commit), ErrorCode.INVALID_PRODUCER_EPOCH, AppendOrigin.COORDINATOR)

    def misbehave(self, rng: random.Random) -> None:
        """Sends repeats, gaps, old epochs and records outside the open transaction: each gets its error, and nothing is written."""
        candidates = [producer_id for producer_id, each in sorted(self.known.items()) if each.last_offset >= 0]
        if not candidates:
            return
        producer_id = rng.choice(candidates)
        known = self.known[producer_id]

        def sent(count: int, epoch: int, sequence: int, *, transactional: bool) -> memoryview:
            records = [(self.clock.time_ms(), b"a", b"v", ())] * count
            return memoryview(
                encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
            )

        is_open = known.first_offset >= 0
        self._refused(sent(1, known.epoch, known.last_sequence + 2, transactional=is_open), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self._refused(sent(1, known.epoch + 1, 3, transactional=is_open), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if known.epoch > 0:
            self._refused(sent(1, known.epoch - 1, 0, transactional=is_open), ErrorCode.INVALID_PRODUCER_EPOCH)
        if is_open:
            self._refused(sent(1, known.epoch, known.last_sequence + 1, transactional=False), ErrorCode.INVALID_TXN_STATE)
        repeated = [batch for batch in self.history if not batch.control and batch.producer_id == producer_id]
        repeated = [batch for batch in repeated if batch.producer_epoch == known.epoch and batch.last <= known.last_offset][-5:]
        for batch in repeated:
            data = sent(batch.last - batch.base + 1, batch.producer_epoch, batch.sequence, transactional=batch.transactional)
            if batch.last == known.last_offset or (not self.cleaned_end and repeated[0].base >= self.log.bases[0]):
                info = self.log.append_as_leader(data, self.leader_epoch)
                assert (info.duplicate, info.first_offset, info.last_offset) == (True, batch.base, batch.last)

    def follow_leader(self, rng: random.Random) -> None:
        """Several batches from a leader, whose offsets may have gaps where its log was compacted."""
        data = b""
        offset = self.end
        self.leader_epoch += rng.randrange(2)
        for _ in range(rng.randint(1, 3)):
            records = self._records(rng, keyed=True)
            offset += rng.choice([0, 0, 5]) if self.config.compact else 0
            data += encode_batch(
                records, base_offset=offset, partition_leader_epoch=self.leader_epoch, compression=rng.choice(list(Compression))
            )
            offset += len(records)
        info = self.log.append_as_follower(memoryview(data), self.leader_epoch)
        assert info.last_offset == offset - 1
        for batch in batches_in(data):
            self._wrote(batch)

    # -- changing ----------------------------------------------------------------------------------------------------------------------

    def advance(self, rng: random.Random) -> None:
        """Time passes, the followers catch up."""
        self.clock.advance_ms(rng.choice([0, 100, 1500]))
        share = rng.choice([rng.random(), 1, 1])
        target = max(self.log.high_watermark, int(self.start + share * (self.end - self.start)))
        assert self.log.update_high_watermark(target) == target

    def roll(self, rng: random.Random) -> None:
        self.log.roll()

    def flush(self, rng: random.Random) -> None:
        self.log.flush()
        self.flushed = self.end
        if rng.random() < 0.5:
            checkpoint_recovery_points(self.manager)

    def configure(self, rng: random.Random) -> None:
        name, value = rng.choice(CHANGES)
        self.values[name] = value
        self.config = topic_config(**self.values)
        self.log.update_config(self.config)

    def truncate(self, rng: random.Random) -> None:
        """Anywhere that was not cleaned: inside batches and transactions too."""
        low = max(self.start, self.cleaned_end)
        self._shorten_to(rng.randint(max(low, self.end - 12), self.end))

    def _shorten_to(self, target: int) -> None:
        cut = next((batch.base for batch in self.batches if batch.base < target <= batch.last), target)
        assert self.log.truncate_to(target) == (target < self.end)
        if target < self.end:
            self._ends_at(max(cut, self.start), emptied=cut < self.start)

    def _ends_at(self, end: int, *, emptied: bool = False) -> None:
        """The log has become shorter."""
        assert self.log.log_end_offset == end
        self.history = [batch for batch in self.history if batch.last < end]
        self.batches = [batch for batch in self.batches if batch.last < end and not emptied]
        self.index = [each for each in self.index if each.last_offset < end and not emptied]
        self.bases = [base for base in self.bases if base[0] <= end]
        self.end = end
        self.flushed = min(self.flushed, end)
        self.cleaned_end = min(self.cleaned_end, end)
        self._rescanned()

    def raise_start(self, rng: random.Random) -> None:
        """DeleteRecords."""
        target = rng.randint(self.start, max(self.start, self.log.high_watermark))
        assert self.log.maybe_increment_log_start_offset(target) == (target > self.start)
        if self.log.high_watermark < self.end:
            with pytest.raises(KafkaError):
                self.log.maybe_increment_log_start_offset(self.log.high_watermark + 1)
        self._starts_at(target)

    def _starts_at(self, start: int) -> None:
        assert self.log.log_start_offset == start
        checkpoint_log_start_offsets(self.manager)
        self.start = start
        self.highest_start = max(start, self.highest_start)

    def retain(self, rng: random.Random) -> None:
        """Retention: by log start, then by size or time when the policy says so."""
        name, limit = rng.choice([("retention_bytes", rng.choice([0, 2000, 5000])), ("retention_ms", rng.choice([0, 1000, 4000]))])
        config = topic_config(**{**self.values, name: limit})
        self.log.update_config(config)
        log, gone = self.log, 0
        sizes = [segment.size for segment in log.segments]
        ends = [*log.bases[1:], self.end]
        stamps = [max([batch.max_timestamp for batch in each.scan()], default=each.largest_timestamp()) for each in log.segments]
        below = sum(1 for base in log.bases[1:] if base <= self.start)
        excess = sum(sizes[below:]) - limit
        while gone < len(sizes) and ends[gone] <= log.high_watermark and (gone < len(sizes) - 1 or sizes[gone]):
            if gone >= below:
                if not config.delete:
                    break
                if name == "retention_bytes":
                    excess -= sizes[gone]
                    if excess < 0:
                        break
                elif self.clock.time_ms() - stamps[gone] <= limit:
                    break
            gone += 1
        expected = ends[gone - 1] if gone else log.bases[0]
        cleanup(self.manager)
        self.cleaner.delete_old_segments()
        log.update_config(self.config)
        assert log.bases[0] == expected
        self._starts_at(max(self.start, expected))
        self.index = [each for each in self.index if each.last_offset >= expected]
        self._remove_deleted()

    def _remove_deleted(self) -> None:
        deletion = self.manager.due_deletions()
        if deletion is not None:
            assert deletion.run() == []

    def start_over(self, rng: random.Random) -> None:
        """A follower that its leader has left behind."""
        offset = self.end + rng.choice([0, 1, 50])
        self.log.truncate_fully_and_start_at(offset)
        self.history, self.batches, self.index, self.known, self.bases = [], [], [], {}, [(offset, {})]
        self.end = self.flushed = self.cleaned_end = offset
        self._starts_at(offset)

    # -- compaction --------------------------------------------------------------------------------------------------------------------

    def compact(self, rng: random.Random) -> None:
        """One cleaning, if there is something to clean."""
        plan = self.cleaner.grab_filthiest(self.clock.time_ms())
        if plan is None:
            return
        assert plan.first_uncleanable <= min(self.log.last_stable_offset, self.log.active.base_offset)
        now_ms, status = self.clock.time_ms(), statuses(self.history)
        before = [batch for batch in self.batches if batch.last >= self.start]
        expected = compacted(before, status, plan.first_dirty, plan.first_uncleanable, now_ms)
        offset_map = OffsetMap(1 << 16, seed=bytes(16))
        throttle = Throttle(self.clock, 1e18)
        buffer_bytes = rng.choice([100, 4096])
        run = CleaningRun(
            self.cleaner, self.manager, plan, offset_map, disk=self.disk, clock=self.clock, throttle=throttle, buffer_bytes=buffer_bytes
        )
        while True:
            run.step()
            if run.settle() is None:
                break
        write_checkpoints(self.cleaner.take_checkpoint_writes())
        assert self.cleaner.checkpoint_of(self.log) == plan.first_uncleanable
        assert not self.cleaner.is_uncleanable(self.log)
        self._adopt_cleaned(before, expected.records, plan.first_uncleanable, now_ms)
        self.cleaned_end = max(self.cleaned_end, plan.first_uncleanable)
        self._remove_deleted()

    def _adopt_cleaned(self, before: list[Written], expected: list[Record], end: int, now_ms: int) -> None:
        after = batches_from(self.log, self.start)
        assert [batch for batch in after if batch.last >= end] == [batch for batch in before if batch.last >= end]
        cleaned = [batch for batch in after if batch.last < end]
        old = {batch.base: batch for batch in before}
        found = [record for batch in cleaned if not batch.control for record in batch.records if record.offset >= self.start]
        assert found == [record for record in expected if record.offset >= self.start]
        for batch in cleaned:
            was = old[batch.base]
            assert batch.identity == was.identity
            assert batch.codec == (was.codec if batch.records else Compression.NONE)
            assert set(batch.records) <= set(was.records)
            if batch.records:
                horizons = (None, now_ms + self.config.delete_retention_ms) if was.horizon is None else (was.horizon,)
                assert batch.horizon in horizons
            else:
                last = self.known.get(batch.producer_id, Producer())
                is_last = last.last_offset == batch.last or (batch.control and last.last_offset < 0)
                assert is_last or batch.last + 1 == end, "an empty batch that nobody needs"
        present = {batch.base: batch for batch in cleaned}
        for batch in before:
            if batch.control and batch.records and batch.last < end and not (batch.base in present and present[batch.base].records):
                assert batch.horizon is not None
                assert batch.horizon <= now_ms, "a marker went before its time"
        self.batches = after
        index = self._log_index()
        assert set(index) <= set(self.index)
        kept = {batch.base for batch in after}
        needed = [each for each in self.index if each.last_offset >= end or self._has_data(each, kept)]
        assert set(needed) <= set(index)
        self.index = index

    def _has_data(self, each: AbortedTransaction, kept: set[int]) -> bool:
        """Whether a batch of an aborted transaction is still readable."""
        return any(
            batch.base in kept and batch.transactional and not batch.control and each.first_offset <= batch.base < each.last_offset
            for batch in self.batches
            if batch.producer_id == each.producer_id
        )

    # -- restarting --------------------------------------------------------------------------------------------------------------------

    def restart(self, rng: random.Random) -> None:
        end = self._recoverable_end()
        self.manager.shutdown()
        self.open()
        self._reopened(end)
        assert self.log.recovery_point == self.end
        self.flushed = self.end

    def kill(self, rng: random.Random) -> None:
        end = self._recoverable_end()
        self.disk = self.disk.kill()
        self.open()
        self._reopened(end)

    def _recoverable_end(self) -> int:
        """Where the last batch ends: a truncation may have left the end of the log behind it, where offsets are missing."""
        return max([self.log.active.base_offset, self.start, *[batch.last + 1 for batch in self.batches]])

    def cut_power(self, rng: random.Random) -> None:
        """What was flushed is there, what was not, up to somewhere."""
        if self.config.compact:
            # Whoever rolls flushes in the background; in a compacted log a lost end of an older segment looks like cleaned.
            self.log.flush(self.log.active.base_offset)
            self.flushed = max(self.flushed, self.log.active.base_offset)
        flushed = min(self.flushed, self._recoverable_end())
        self.disk = self.disk.crash(rng)
        self.open()
        end = self.log.log_end_offset
        assert flushed <= end <= self.end
        # A log of which nothing at its start is left begins anew there.
        assert not any(batch.base < end <= batch.last for batch in self.batches) or end == self.start
        self._reopened(end)

    def _reopened(self, end: int) -> None:
        self._ends_at(end)
        assert self.log.log_start_offset == self.start

    def _rescanned(self) -> None:
        """The producers may be those of all batches there ever were, of those that are left, or of some and then the others."""
        state = self._log_producers()
        left = [batch for batch in self.batches if batch.last >= self.start]
        # Recovery reads whole segments, from below the log start too, but none that lies below it wholly.
        scans = [left, *([batch for batch in self.batches if batch.base >= base] for base in self.log.bases if base <= self.start)]
        cuts = [0, *[batch.base for batch in self.history], self.end]
        for producer_id in {*state, *self.known, *[batch.producer_id for batch in left if batch.producer_id >= 0]}:
            # Compaction, and a log start within a transaction, leave a scan less to go by.
            assert any(
                self._without_start(replay(self._mixed(base, cut, scan), known).get(producer_id))
                == self._without_start(state.get(producer_id))
                for base, known in reversed(self.bases)
                for cut in reversed(cuts)
                for scan in scans
            ), (producer_id, state.get(producer_id), replay(self.history).get(producer_id))
        if state != replay([batch for batch in self.history if batch.base >= self.bases[-1][0]], self.bases[-1][1]):
            self.bases.append((self.end, dict(state)))
        self.known = state
        index = self._log_index()
        if not self.cleaned_end and not self.start:
            assert index == self.index
        kept = {batch.base for batch in left}
        found = {(each.producer_id, each.last_offset) for each in index}
        assert found <= {(batch.producer_id, batch.base) for batch in self.history if batch.aborts}
        assert {(each.producer_id, each.last_offset) for each in self.index if self._has_data(each, kept)} <= found
        self.index = index

    def _mixed(self, base: int, cut: int, left: list[Written]) -> list[Written]:
        return [batch for batch in self.history if base <= batch.base < cut] + [batch for batch in left if batch.base >= max(base, cut)]

    def _without_start(self, producer: Producer | None) -> Producer | None:
        """A transaction that began before the log start begins there for all that can be seen."""
        if producer is not None and 0 <= producer.first_offset < self.start:
            return producer._replace(first_offset=self.start)
        return producer

    # -- what must hold ----------------------------------------------------------------------------------------------------------------

    def _log_producers(self) -> Producers:
        return {
            producer_id: Producer(
                entry.epoch,
                entry.coordinator_epoch,
                entry.last_sequence,
                entry.last_data_offset,
                entry.txn_first_offset,
            )
            for producer_id, entry in self.log.producer_state.producers.items()
        }

    def _log_index(self) -> list[AbortedTransaction]:
        return [each for segment in self.log.segments for each in segment.txn_index.entries()]

    def check(self, rng: random.Random) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert self.start <= log.last_stable_offset <= log.high_watermark <= self.end
        assert log.bases == sorted(segment.base_offset for segment in log.segments)
        self.batches = [batch for batch in self.batches if batch.last >= log.bases[0]]
        assert batches_from(log, self.start) == [batch for batch in self.batches if batch.last >= self.start]
        assert self._log_producers() == self.known
        assert self._log_index() == self.index
        self._check_stable()
        self._check_reads(rng)
        self._check_times(rng)
        for batch in self.batches:
            if batch.base >= self.highest_start:
                assert log.leader_epochs.epoch_for_offset(batch.base) == batch.leader_epoch

    def _check_stable(self) -> None:
        log = self.log
        undecided = [each.first_offset for each in self.known.values() if each.first_offset >= 0]
        limit = max(min([*undecided, self.end]), self.start)
        assert log.last_stable_offset <= max(limit, self.start)
        if log.high_watermark == self.end:
            assert log.last_stable_offset == limit

    def _check_reads(self, rng: random.Random) -> None:
        log = self.log
        for start in {self.start, *[rng.randint(self.start, self.end) for _ in range(3)]}:
            wanted = [batch for batch in self.batches if batch.last >= start]
            assert batches_from(log, start, max_bytes=rng.choice([1, 500])) == wanted
            bound = rng.randint(start, self.end)
            found = batches_in(read_bytes(log, start, max_offset=bound)) if bound > start else []
            assert found == [batch for batch in wanted if batch.last < bound][: len(found)]
            status = statuses(self.history)
            visible = [batch for batch in wanted if not batch.control and batch.last < log.last_stable_offset]
            assert all(status.get(batch.base, False) is not None for batch in visible if batch.base >= self.start)
            assert committed_from(log, start) == [
                record for batch in visible if not status.get(batch.base) for record in batch.records if record.offset >= start
            ]

    def _check_times(self, rng: random.Random) -> None:
        stamped = [record for batch in self.batches for record in batch.records if record.offset >= self.start]
        if stamped:
            timestamp = rng.choice(stamped).timestamp + rng.randrange(2)
            found = self.log.offset_for_timestamp(timestamp)
            expected = next(((record.timestamp, record.offset) for record in stamped if record.timestamp >= timestamp), None)
            assert (None if found is None else (found.timestamp, found.offset)) == expected


RULES: dict[str, int] = {
    "append": 8,
    "end_transaction": 4,
    "misbehave": 1,
    "follow_leader": 1,
    "advance": 3,
    "roll": 3,
    "flush": 2,
    "configure": 2,
    "truncate": 1,
    "raise_start": 1,
    "retain": 1,
    "start_over": 1,
    "compact": 4,
    "restart": 1,
    "kill": 1,
    "cut_power": 1,
}
NAMES = [name for name, weight in RULES.items() for _ in range(weight)]
steps = st.tuples(st.sampled_from(NAMES), st.integers(0, 1 << 30))


def run(script: list[tuple[str, int]], **values: object) -> None:
    world = TransactionsWorld(**values)
    for name, seed in script:
        rng = random.Random(seed)
        rule: Callable[[random.Random], None] = getattr(world, name)
        rule(rng)
        world.check(rng)


@given(st.lists(steps, min_size=5, max_size=60))
@settings(max_examples=200, derandomize=True, deadline=None, report_multiple_bugs=False)
def test_the_log_does_what_its_model_does(script: list[tuple[str, int]]) -> None:
    run(script)


def story(rng: random.Random, names: list[str]) -> list[tuple[str, int]]:
    return [(rng.choice(names), rng.randrange(1 << 30)) for _ in range(100)]


@pytest.mark.parametrize("seed", range(8))
def test_long_stories(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        run(story(rng, NAMES))


@pytest.mark.parametrize("seed", range(8))
def test_long_stories_of_a_compacted_log(seed: int) -> None:
    """Nothing that makes it short or keeps it from being cleaned, so that it is cleaned many times."""
    rng = random.Random(seed)
    names = [name for name in NAMES if name not in ("start_over", "configure", "retain", "raise_start")]
    for _ in range(5):
        run(story(rng, names), cleanup_policy="compact")
