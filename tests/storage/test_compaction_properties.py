"""Random keyed, transactional and tombstoned logs: after any cleaning, crash and reopening exactly what must be there is."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records.batch import Record
from odradek.records.compression import Compression
from odradek.testing.simulation.disk import PowerCut, VirtualDisk
from tests.storage.compaction_support import Cleanery, batches_of, compact_config
from tests.storage.support import checkpoint_recovery_points

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


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.sampled_from([24 * 4, 24 * 12, 1 << 16]), st.sampled_from([100, 700, 1 << 16]))
def test_exactly_the_last_committed_value_of_each_key_stays(seed: int, memory: int, buffer: int) -> None:
    made = Cleanery(config=compact_config(segment_bytes=600, delete_retention_ms=3_000))
    made.map_memory, made.buffer_bytes = memory, buffer
    story = Story(seed, made)
    for _ in range(4):
        story.write(30)
        story.check()
        if story.rng.random() < 0.3:
            made.reopen()
            story.check()
        while made.clean() is not None:
            story.check()
        story.check_reads()
    end = made.log.log_end_offset
    producers = {each.producer_id: each.last_sequence for each in made.log.producer_state.producers.values()}
    for snapshot in made.names(".snapshot"):
        made.disk.remove(f"{made.log.directory}/{snapshot}")
    made.reopen()
    story.check()
    story.check_reads()
    assert made.log.log_end_offset == end
    assert {each.producer_id: each.last_sequence for each in made.log.producer_state.producers.values()} == producers


def _durable(made: Cleanery) -> None:
    made.log.flush()
    checkpoint_recovery_points(made.logs)


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_disk_operation_leaves_old_or_new(seed: int) -> None:
    def prepared() -> Story:
        made = Cleanery(config=compact_config(segment_bytes=600, delete_retention_ms=3_000))
        story = Story(seed, made)
        story.write(20)
        made.clean_all()
        story.write(20)
        made.roll()
        made.log.producer_state.take_snapshot()
        _durable(made)
        return story

    states = 0
    end = prepared().made.log.log_end_offset
    step = 0
    while True:
        step += 1
        story = prepared()
        made = story.made
        last = made.disk.steps + step

        def cut(operation: str, path: str, disk: VirtualDisk = made.disk, last: int = last) -> None:
            if operation != "read" and disk.steps >= last:
                raise PowerCut

        made.disk.fault = cut
        try:
            made.clean()
        except PowerCut:
            pass
        else:
            break
        made.disk.fault = None
        rng = random.Random(step)
        for survivor in (made.disk.kill(), *[made.disk.crash(rng) for _ in range(2)]):
            made.reopen(survivor)
            story.check_after_crash()
            assert made.log.log_end_offset == end
            assert not [name for name in made.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
            made.clean_all()
            story.check()
            states += 1
    assert step > 30
    assert states > 90
