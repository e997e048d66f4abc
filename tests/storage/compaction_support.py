"""A log manager with one compacted log, and a cleaner that is driven by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from odradek.base.disk import Disk
from odradek.config.topic import TopicConfig
from odradek.records.batch import Record, decode_batch, encode_batch, iter_headers
from odradek.records.compaction import OffsetMap
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.plan import CleaningPlan
from odradek.storage.compaction.run import CleaningRun
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.log import Log
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.log_manager import LogManager
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    load_all,
    marker,
    no_broker,
    read_bytes,
    topic_config,
)

COMPACT = {"cleanup_policy": "compact", "segment_bytes": 1000, "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": 60_000}
UNBOUNDED = 1e18


def compact_config(**overrides: object) -> TopicConfig:
    return topic_config(**{**COMPACT, **overrides})


class Cleanery:
    """`run(step by step)`, `clean` (one cleaning) and `clean_all` (until nothing is dirty)."""

    def __init__(self, disk: Disk | None = None, *, config: TopicConfig | None = None, directories: Sequence[str] = ("/data",)) -> None:
        self.clock = ManualClock()
        self._disk = disk or VirtualDisk(time_ms=self.clock.time_ms)
        self.config = config or compact_config()
        self.directories = directories
        self.buffer_bytes = 4096
        self.map_memory = 1 << 16
        self.throttle = Throttle(self.clock, UNBOUNDED)
        self.open()

    @property
    def disk(self) -> VirtualDisk:
        """The virtual disk, for tests that have one."""
        assert isinstance(self._disk, VirtualDisk)
        return self._disk

    def open(self) -> None:
        """Loads everything from the disk, as after a start."""
        self.logs = LogManager(self._disk, self.clock, self.directories, no_broker(), random=random.Random(3), verify_transactions=False)
        load_all(self.logs, lambda _: self.config)
        self.log = self.logs.create_log(PARTITION, TOPIC_ID, self.config)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.manager = CleanerManager(self._disk, self.logs)
        self.logs.cleaner = self.manager

    def reopen(self, disk: VirtualDisk | None = None) -> None:
        """As `open` after the process was killed, or on another disk."""
        self._disk = disk or self.disk.kill()
        self.open()

    def start(self, plan: CleaningPlan | None = None) -> CleaningRun | None:
        plan = plan or self.manager.grab_filthiest(self.clock.time_ms())
        if plan is None:
            return None
        return CleaningRun(
            self.manager,
            self.logs,
            plan,
            OffsetMap(self.map_memory, seed=bytes(16)),
            disk=self._disk,
            clock=self.clock,
            throttle=self.throttle,
            buffer_bytes=self.buffer_bytes,
        )

    def finish(self, run: CleaningRun, between: Callable[[], object] = lambda: None) -> CleaningRun:
        while True:
            run.step()
            between()
            if run.settle() is None:
                write_checkpoints(self.manager.take_checkpoint_writes())
                return run

    def clean(self, between: Callable[[], object] = lambda: None) -> CleaningRun | None:
        run = self.start()
        return None if run is None else self.finish(run, between)

    def clean_all(self) -> int:
        for count in range(100):
            if self.clean() is None:
                return count
        raise AssertionError("cleaning never ends")

    # -- writing -----------------------------------------------------------------------------------------------------------------------

    def put(
        self,
        *records: tuple[str, str | None],
        compression: Compression = Compression.NONE,
        producer: tuple[int, int, int] | None = None,
        transactional: bool = False,
        timestamp: int | None = None,
    ) -> int:
        """One batch of (key, value); `producer` is (id, epoch, base sequence). The base offset."""
        now_ms = self.clock.time_ms() if timestamp is None else timestamp
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        data = encode_batch(
            [
                (now_ms, key.encode(), None if value is None else value.encode(), (("h", value.encode()),) if value else ())
                for key, value in records
            ],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        offset = self.log.append_as_leader(memoryview(data), 0).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def end(self, producer_id: int, epoch: int, *, commit: bool) -> int:
        offset = self.log.append_as_leader(
            marker(producer_id, epoch, commit=commit, timestamp=self.clock.time_ms()), 0, origin=AppendOrigin.COORDINATOR
        ).first_offset
        self.log.update_high_watermark(self.log.log_end_offset)
        return offset

    def roll(self) -> None:
        self.log.roll()

    # -- reading -----------------------------------------------------------------------------------------------------------------------

    def records(self, start_offset: int | None = None) -> list[Record]:
        """Data records as a read_uncommitted consumer sees them."""
        return [record for batch in batches_of(self.log, start_offset) for record in batch if batch.is_data]

    def committed(self, start_offset: int | None = None) -> list[Record]:
        """As a read_committed consumer sees them, with nothing but what the broker tells it."""
        return committed_records(self.log, start_offset)

    def names(self, suffix: str = "") -> list[str]:
        return [name for name in self._disk.listdir(self.log.directory) if name.endswith(suffix)]


class _Batch(list[Record]):
    is_data = True
    producer_id = -1
    is_transactional = False
    base_offset = 0
    last_offset = 0


def batches_of(log: Log, start_offset: int | None = None) -> list[_Batch]:
    """Every batch from an offset on, through `Log.read`."""
    offset = log.log_start_offset if start_offset is None else start_offset
    found: list[_Batch] = []
    while offset < log.log_end_offset:
        data = read_bytes(log, offset, 700)
        end = offset
        for position, header in iter_headers(data):
            assert header.last_offset >= offset, "a read begins with the batch that holds the offset, or the next one"
            batch = _Batch(record for record in decode_batch(data, position, header) if record.offset >= offset)
            batch.is_data = not header.is_control
            batch.producer_id = header.producer_id
            batch.is_transactional = header.is_transactional
            batch.base_offset, batch.last_offset = header.base_offset, header.last_offset
            found.append(batch)
            end = header.next_offset
        if end == offset:
            break
        offset = end
    return found


def committed_records(log: Log, start_offset: int | None = None) -> list[Record]:
    """What a consumer with isolation.level=read_committed gets, by the list of aborted transactions (its abort markers end them)."""
    start = log.log_start_offset if start_offset is None else start_offset
    stable = log.last_stable_offset
    pending = sorted(log.aborted_transactions(start, stable), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    found: list[Record] = []
    for batch in batches_of(log, start_offset):
        if batch.base_offset >= stable:
            break
        while pending and pending[0].first_offset <= batch.last_offset:
            aborted.add(pending.pop(0).producer_id)
        if not batch.is_data:
            if batch and batch[0].key == b"\0\0\0\0":
                aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            found += batch
    return found


def latest(records: Sequence[Record]) -> dict[bytes, tuple[int, bytes | None]]:
    """Key -> (offset, value) of its last record."""
    return {record.key or b"": (record.offset, record.value) for record in records}


__all__ = ["NOW_MS", "UNBOUNDED", "Cleanery", "batches_of", "committed_records", "compact_config", "latest"]


KEYS = "abcdef"


PRODUCERS = 3


class Written:
    """What was ever written, and what became of the transactions."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.transaction_of: dict[int, int] = {}
        self.aborted: set[int] = set()
        self.open: dict[int, int] = {}
        self.transactions = 0

    def visible(self, record: Record) -> bool:
        return self.transaction_of.get(record.offset) not in self.aborted


class Story:
    """Writes a random log and keeps count."""

    def __init__(self, seed: int, made: Cleanery) -> None:
        self.rng = random.Random(seed)
        self.made = made
        self.written = Written()
        self.sequences = dict.fromkeys(range(PRODUCERS), 0)

    def write(self, batches: int) -> None:
        for _ in range(batches):
            choice = self.rng.random()
            if choice < 0.12:
                self._end()
            elif choice < 0.17:
                self.made.roll()
            else:
                self._put(self.rng.choice([None, None, *range(PRODUCERS)]))
            self.made.clock.advance_ms(self.rng.randrange(200))
        for producer in list(self.written.open):
            self._end(producer)

    def _put(self, producer: int | None) -> None:
        rng, written = self.rng, self.written
        records = [
            (rng.choice(KEYS), None if rng.random() < 0.2 else f"{rng.randrange(1000)}" * rng.randint(1, 5))
            for _ in range(rng.randint(1, 4))
        ]
        transactional = producer is not None and (producer in written.open or rng.random() < 0.6)
        identity = None
        if producer is not None:
            identity = (producer, 0, self.sequences[producer])
            self.sequences[producer] += len(records)
        base = self.made.put(
            *records, compression=rng.choice([Compression.NONE, Compression.LZ4]), producer=identity, transactional=transactional
        )
        if transactional and producer is not None and producer not in written.open:
            written.transactions += 1
            written.open[producer] = written.transactions
        for index, (key, value) in enumerate(records):
            headers = (("h", value.encode()),) if value else ()
            timestamp = self.made.clock.time_ms()
            written.records[base + index] = Record(
                base + index, timestamp, key.encode(), None if value is None else value.encode(), headers
            )
            if transactional and producer is not None:
                written.transaction_of[base + index] = written.open[producer]

    def _end(self, producer: int | None = None) -> None:
        if producer is None:
            if not self.written.open:
                return
            producer = self.rng.choice(sorted(self.written.open))
        commit = self.rng.random() < 0.5
        transaction = self.written.open.pop(producer)
        self.made.end(producer, 0, commit=commit)
        if not commit:
            self.written.aborted.add(transaction)

    # -- what must hold ----------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After each cleaning, crash or reopening."""
        written, made = self.written, self.made
        records = made.records()
        assert all(written.records[record.offset] == record for record in records), "offsets, keys, values, headers and timestamps"
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        committed = made.committed()
        assert committed == [record for record in records if written.visible(record)]
        end = made.manager.checkpoint_of(made.log) or 0
        dirty = [record for offset, record in sorted(written.records.items()) if offset >= end and written.visible(record)]
        assert [record for record in committed if record.offset >= end] == dirty, "what is not cleaned yet is all there"
        last = {record.key: record for offset, record in sorted(written.records.items()) if offset < end and written.visible(record)}
        cleaned = {record.offset: record for record in records if record.offset < end}
        assert all(record.value is None or record.offset in cleaned for record in last.values()), "the last value of each key"
        allowed = {record.offset for record in last.values()}
        assert cleaned.keys() <= allowed, "nothing that was replaced or aborted"

    def check_after_crash(self) -> None:
        """Old or new: nothing but what was written, and a reader to the end sees what it would have seen."""
        written, made = self.written, self.made
        records = made.records()
        assert all(written.records[record.offset] == record for record in records)
        assert made.committed() == [record for record in records if written.visible(record)]
        assert _values(made.committed()) == _values([record for _, record in sorted(written.records.items()) if written.visible(record)])

    def check_reads(self) -> None:
        """From any offset the rest; by time the first that is late enough."""
        records = self.made.records()
        for offset in range(0, self.made.log.log_end_offset + 1, 3):
            assert self.made.records(offset) == [record for record in records if record.offset >= offset]
        # Markers carry timestamps, too.
        stamped = [record for batch in batches_of(self.made.log) for record in batch]
        for timestamp in {record.timestamp + more for record in stamped[::4] for more in (0, 1)}:
            found = self.made.log.offset_for_timestamp(timestamp)
            expected = next((record.offset for record in stamped if record.timestamp >= timestamp), None)
            assert (None if found is None else found.offset) == expected


def _values(records: list[Record]) -> dict[bytes | None, bytes]:
    """What a table built from the records holds: deleted keys do not count."""
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}
