"""Model of the records written to a log: which of them must, may and must not exist after a crash. See `crash_states`."""

from __future__ import annotations

from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.batch import decode_batch, iter_headers
from odradek.storage.log import Log
from odradek.testing.simulation.disk import VirtualDisk

Producers = dict[int, tuple[int, int, int, int]]
"""Producer id -> epoch, last sequence, last data offset, first offset of the open transaction."""
_Record = tuple[int, bytes | None, bytes | None, int]
"""Offset, key, value, timestamp: no two appends have the same record."""


class Violation(Exception):
    """Broken rule; the text begins with the rule's name."""


class Batch:
    """Batch that was written or was about to be written, and the batch that it was written after."""

    __slots__ = (
        "aborted",
        "base",
        "control",
        "data",
        "decided_by",
        "depth",
        "epoch",
        "last",
        "previous",
        "producer_epoch",
        "producer_id",
        "producers",
        "records",
    )

    def __init__(self, data: bytes, previous: Batch | None) -> None:
        (position, header) = next(iter(iter_headers(memoryview(data))))
        self.data = data
        self.base, self.last = header.base_offset, header.last_offset
        self.epoch = header.partition_leader_epoch
        self.producer_id = header.producer_id
        self.producer_epoch = header.producer_epoch
        self.control = header.is_control
        self.records: list[_Record] = [(each.offset, each.key, each.value, each.timestamp) for each in decode_batch(data, position, header)]
        self.previous = previous
        self.depth: int = 0 if previous is None else previous.depth + 1
        self.producers: Producers | None = None
        """Producer state after the batch; None while it is being written."""
        self.aborted = False
        self.decided_by: Batch | None = None
        """Marker that ended the batch's transaction."""

    def chain(self) -> list[Batch]:
        """Return this batch and all batches before it, oldest first."""
        found: list[Batch] = []
        batch: Batch | None = self
        while batch is not None:
            found.append(batch)
            batch = batch.previous
        found.reverse()
        return found

    def follows(self, other: Batch) -> bool:
        """Return whether the batch was written to a log that contained `other`."""
        batch: Batch | None = self
        while batch is not None and batch.depth > other.depth:
            batch = batch.previous
        return batch is other


class History:
    """History of one incarnation of a topic's partition. Each change is noted before it happens."""

    def __init__(self, topic_partition: TopicPartition, topic_id: UUID, config: TopicConfig) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.tail: Batch | None = None
        self.by_bytes: dict[bytes, Batch] = {}
        self.by_record: dict[_Record, Batch] = {}
        self.flushed: list[Batch] = []
        """Durable batches, which must exist byte for byte from `start_limit` on (compacted: the last values)."""
        self.flushed_end = 0
        self.start_limit = 0
        """Highest log start that a crash may leave."""
        self.start_durable = 0
        self.cleaned_end = 0
        """Offset up to which compaction may have gone."""
        self.open: dict[int, list[Batch]] = {}

    @property
    def compacted(self) -> bool:
        return self.config.compact

    def begin(self, data: bytes) -> Batch:
        """Note that these bytes are about to be appended."""
        batch = Batch(data, self.tail)
        self.by_bytes[data] = batch
        for record in batch.records:
            self.by_record[record] = batch
        return batch

    def appended(self, batch: Batch, log: Log) -> None:
        self.tail = batch
        batch.producers = producers_of(log)

    def begin_abort(self, producer_id: int) -> None:
        """Note that an abort marker is about to be appended, which aborts the open batches."""
        for batch in self.open[producer_id]:
            batch.aborted = True

    def decided(self, marker: Batch) -> None:
        """Note that the marker was appended."""
        for batch in self.open.pop(marker.producer_id):
            batch.decided_by = marker

    def cut(self, end: int) -> None:
        """Note that the log is about to be, or was, truncated: batches from `end` on need not exist any longer."""
        gone = [batch.base for batch in self.flushed if batch.last >= end]
        self.flushed = [batch for batch in self.flushed if batch.last < end]
        self.flushed_end = min(self.flushed_end, end, *gone)

    def now_ends_at(self, end: int) -> None:
        """Note that the log now ends at `end`: its tail is the last batch below `end` in the chain of the current tail."""
        while self.tail is not None and self.tail.last >= end:
            self.tail = self.tail.previous
        line = set() if self.tail is None else set(self.tail.chain())
        self.open = {pid: kept for pid, batches in self.open.items() if (kept := [batch for batch in batches if batch in line])}
        for batch in line:
            if batch.decided_by is not None and batch.decided_by not in line:
                batch.decided_by, batch.aborted = None, False
                self.open.setdefault(batch.producer_id, []).append(batch)


def producers_of(log: Log) -> Producers:
    return {
        pid: (entry.epoch, entry.last_sequence, entry.last_data_offset, entry.txn_first_offset)
        for pid, entry in log.producer_state.producers.items()
    }


class Found:
    """Contents of a log as it was opened."""

    def __init__(self, disk: VirtualDisk, log: Log) -> None:
        self.start, self.end = log.log_start_offset, log.log_end_offset
        self.batches: list[tuple[int, int, int, bytes]] = []
        """Base offset, last offset, leader epoch, bytes."""
        for segment in log.segments:
            data = memoryview(disk.read_bytes(segment.log_path))[: segment.size]
            for position, header in iter_headers(data):
                piece = bytes(data[position : position + header.size])
                self.batches.append((header.base_offset, header.last_offset, header.partition_leader_epoch, piece))
        entries = [each._replace(start_offset=max(each.start_offset, self.start)) for each in log.leader_epochs.entries]
        # Of the epochs that begin at or below the log start only the last counts. An epoch that begins at the end is dropped by the next
        # start.
        self.epochs = [
            each
            for each, following in zip(entries, [*entries[1:], None], strict=False)
            if each.start_offset < self.end and (following is None or following.start_offset > each.start_offset)
        ]
        self.producers = producers_of(log)
        self.aborted = {(each.producer_id, each.first_offset, each.last_offset) for each in log.aborted_transactions(self.start, self.end)}

    @property
    def readable_producers(self) -> Producers:
        return {pid: state for pid, state in self.producers.items() if state[2] >= self.start}

    def same(self, other: Found) -> str:
        """Return the first difference, or "". As in Kafka, a recovery may forget producers whose last batch is below the log start."""
        for name in ("start", "end", "batches", "epochs", "readable_producers", "aborted"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                return f"{name}: {mine} became {its}"
        return ""


def check(history: History, log: Log, found: Found) -> None:
    """Raise Violation when a crash of this history cannot leave this log."""
    _require(found.start <= log.high_watermark <= found.end, f"offsets-in-order: {found.start}, {log.high_watermark}, {found.end}")
    _require(log.recovery_point <= found.end, f"offsets-in-order: recovery point {log.recovery_point} behind the end {found.end}")
    # Before anything was flushed, the topic may be created again from the metadata.
    anew = found.end == 0 and history.flushed_end == 0
    _require(
        (anew or history.start_durable <= found.start) and found.start <= max(history.start_limit, history.start_durable),
        f"log-start: {found.start} is not within {history.start_durable}..{history.start_limit}",
    )
    _require(found.end >= history.flushed_end, f"flushed-prefix: the log ends at {found.end}, {history.flushed_end} was flushed")
    owners = owners_of(history, found)
    if history.compacted:
        _check_values(history, found, owners)
    else:
        _check_bytes(history, found)
    _check_epochs(history, found)
    _check_aborted(found, owners)
    if owners and found.batches and owners[-1] is not None:
        _check_producers(history, found, owners[-1])


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise Violation(text)


def owners_of(history: History, found: Found) -> list[Batch | None]:
    """Return the written batch of each batch found. They must be one chain, in order, and without gaps unless the topic is compacted."""
    owners: list[Batch | None] = []
    before: Batch | None = None
    next_offset = found.batches[0][0] if found.batches else 0
    for base, last, _, data in found.batches:
        _require(base >= next_offset, f"order: a batch at {base} where {next_offset} comes next")
        next_offset = last + 1
        owner = history.by_bytes.get(data)
        if owner is None:
            _require(history.compacted, f"valid-prefix: the batch at {base} was never written")
            owner = _owner_of_cleaned(history, data)
        if owner is not None:
            if before is not None:
                if history.compacted:
                    _require(
                        owner.follows(before), f"valid-prefix: the batch at {base} was not written to a log with that at {before.base}"
                    )
                else:
                    _require(owner.previous is before, f"valid-prefix: the batch at {base} was not written behind that at {before.base}")
            before = owner
        owners.append(owner)
    if not history.compacted and found.end > found.start:
        _require(bool(found.batches) and found.batches[0][0] <= found.start, f"no-gap: nothing at the log start {found.start}")
        _require(next_offset == found.end, f"no-gap: the batches end at {next_offset}, the log at {found.end}")
    return owners


def _owner_of_cleaned(history: History, data: bytes) -> Batch | None:
    owner: Batch | None = None
    for position, header in iter_headers(memoryview(data)):
        for record in decode_batch(data, position, header):
            known = history.by_record.get((record.offset, record.key, record.value, record.timestamp))
            _require(known is not None, f"valid-prefix: the record at {record.offset} was never written")
            _require(owner is None or owner is known, f"valid-prefix: the record at {record.offset} is in a strange batch")
            owner = known
    return owner


def _check_bytes(history: History, found: Found) -> None:
    there = {data for _, _, _, data in found.batches}
    for batch in history.flushed:
        if batch.last >= history.start_limit:
            _require(batch.data in there, f"flushed-prefix: the batch at {batch.base} is lost, {history.flushed_end} was flushed")


def _check_values(history: History, found: Found, owners: list[Batch | None]) -> None:
    """Check that each key has its last flushed value or a later value that is not aborted. A dropped tombstone leaves no record."""
    latest: dict[bytes | None, tuple[int, bytes | None]] = {}
    for _, _, _, data in found.batches:
        for position, header in iter_headers(memoryview(data)):
            if header.is_control:
                continue
            for record in decode_batch(data, position, header):
                owner = history.by_record[(record.offset, record.key, record.value, record.timestamp)]
                if not owner.aborted:
                    latest[record.key] = (record.offset, record.value)
    wanted: dict[bytes | None, tuple[int, bytes | None]] = {}
    for batch in history.flushed:
        if not batch.aborted and not batch.control:
            wanted.update({key: (offset, value) for offset, key, value, _ in batch.records})
    dropped = _tombstones(history, owners)
    for key, (offset, value) in wanted.items():
        if offset < history.start_limit:
            continue
        present = latest.get(key)
        if present is None:
            _require(value is None or key in dropped, f"last-values: the flushed value of {key!r} at {offset} is lost")
        else:
            _require(present[0] >= offset, f"last-values: {key!r} is back at {present[0]}, {offset} was flushed")


def _tombstones(history: History, owners: list[Batch | None]) -> set[bytes | None]:
    """Return the keys whose last record in the chain, below the range that compaction may have reached, is a tombstone and may be
    dropped.
    """
    last = next((owner for owner in reversed(owners) if owner is not None), None)
    values: dict[bytes | None, bytes | None] = {}
    for batch in [] if last is None else last.chain():
        if not batch.aborted and not batch.control and batch.last < history.cleaned_end:
            values.update({key: value for _, key, value, _ in batch.records})
    return {key for key, value in values.items() if value is None}


def _check_epochs(history: History, found: Found) -> None:
    entries = found.epochs
    _require(entries == sorted(entries), f"epochs: {entries}")
    for base, last, epoch, _ in found.batches:
        if last < found.start or (entries and base < entries[0].start_offset <= history.start_limit):
            # As in Kafka, epochs below a raised log start are removed before the checkpoint of log starts is written.
            continue
        known = [each.epoch for each in entries if each.start_offset <= max(base, found.start)]
        _require(bool(known) and known[-1] == epoch, f"epochs: the batch at {base} has {epoch}, the cache says {entries}")
    if entries:
        _require(entries[-1].start_offset <= found.end, f"epochs: {entries[-1]} lies behind the end {found.end}")


def _check_aborted(found: Found, owners: list[Batch | None]) -> None:
    line = {owner for owner in owners if owner is not None}
    for owner in line:
        if owner.aborted and owner.decided_by in line and owner.base >= found.start:
            covered = any(pid == owner.producer_id and first <= owner.base <= last for pid, first, last in found.aborted)
            _require(covered, f"aborted: the batch at {owner.base} of producer {owner.producer_id} is not among {sorted(found.aborted)}")
    for pid, first, last in found.aborted:
        wrong = [each for each in line if each.producer_id == pid and first <= each.base <= last and not each.control and not each.aborted]
        _require(not wrong, f"aborted: ({pid}, {first}, {last}) hides a batch that was not aborted")


def _check_producers(history: History, found: Found, last: Batch) -> None:
    expected = last.producers
    if expected is None:
        return
    for pid, (epoch, sequence, offset, transaction) in expected.items():
        entry = found.producers.get(pid)
        if history.compacted and offset >= history.flushed_end:
            # The unflushed end of a segment may be lost although the next segment exists. In a compacted log such a gap looks like a result
            # of the cleaner.
            continue
        if history.compacted and offset < history.cleaned_end and _went_on(history, last, pid):
            # The cleaner keeps the last batch of each producer that it knows at the time. That was a later batch, which is lost.
            continue
        if offset >= found.start:
            _require(entry is not None, f"producers: {pid} is forgotten, its last batch ends at {offset}")
        if entry is not None and offset >= found.start:
            # Recovery reads whole segments and finds the beginning of the transaction. The running broker had read the log from its start
            # on, and took the first batch from there for the beginning. As in Kafka.
            began_before = entry[3] < found.start and entry[3] in _undecided(last, pid)[:1]
            wanted = (epoch, sequence, offset, entry[3] if transaction < found.start or began_before else transaction)
            _require(entry == wanted, f"producers: {pid} is at {entry}, {wanted} was expected")
    unknown = [pid for pid in found.producers.keys() - expected.keys() if not _lies_before(history, found, last, pid)]
    _require(not unknown, f"producers: {sorted(unknown)} were never there")


def _went_on(history: History, last: Batch, pid: int) -> bool:
    """Return whether the producer wrote a batch after the chain that ends with `last`."""
    return any(batch.producer_id == pid and batch.base > last.base for batch in history.by_bytes.values())


def _lies_before(history: History, found: Found, last: Batch, pid: int) -> bool:
    """Return whether all batches of the producer in the chain are below the log start, or were when the log was last opened.

    Recovery reads whole segments and finds such batches again. The running broker did not know them, as it had read from the log start on.
    As in Kafka.
    """
    own = [batch for batch in last.chain() if batch.producer_id == pid]
    if not own or own[-1].last >= max(found.start, history.start_limit):
        return False
    data = [batch for batch in own if not batch.control]
    state = found.producers[pid]
    right = state[2] < 0 or any(state[2] == batch.last and state[0] == batch.producer_epoch for batch in data[-1:])
    # A transaction without an end is open from its beginning.
    return right and state[3] in (-1, *_undecided(last, pid)[:1])


def _undecided(last: Batch, pid: int) -> list[int]:
    """Return the base offsets of the producer's batches that no marker in the chain has ended, ascending."""
    own = [batch for batch in last.chain() if batch.producer_id == pid]
    markers = [batch.base for batch in own if batch.control]
    return [batch.base for batch in own if not batch.control and batch.base > max(markers, default=-1)]
