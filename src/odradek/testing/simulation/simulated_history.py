"""History of a simulated cluster as its clients saw it, and checkers of that history.

Clients add events as they happen. A checker reads the whole history afterwards and returns one line per violation. Values are numbered per
producer and partition (`value_of`), so that a checker sees order, loss and repetition.

A power cut may lose unsynced records. Each power cut records the logs before and after (`PowerLoss`). Values that a power cut took are
excused from then on, where the flush policy allows the loss. A power cut under a policy that flushes before acknowledging excuses no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.ids import TopicPartition
from odradek.records.batch import decode_records, iter_headers

E = TypeVar("E", bound="Event")


class Acked(NamedTuple):
    """Acknowledgement of a value at the offset (-1: unknown offset)."""

    producer: str
    partition: TopicPartition
    value: bytes
    offset: int


class Refused(NamedTuple):
    """Error of a value that its producer will not send again."""

    producer: str
    partition: TopicPartition
    value: bytes
    error: str


class Read(NamedTuple):
    """Value read by a consumer. `session` counts the reader's starts from scratch."""

    reader: str
    session: int
    partition: TopicPartition
    offset: int
    value: bytes


class HighWatermark(NamedTuple):
    """High watermark that a reader received: the end of readable offsets."""

    reader: str
    partition: TopicPartition
    offset: int


class ProducerIdGiven(NamedTuple):
    """Producer id given to a producer."""

    asker: str
    producer_id: int


class TopicCreated(NamedTuple):
    """Confirmed creation of a topic, or confirmed addition of partitions."""

    name: str
    topic_id: UUID
    partitions: int


class TopicDeletion(NamedTuple):
    """Requested deletion of a topic, or its confirmation (`confirmed`)."""

    name: str
    confirmed: bool


class Listing(NamedTuple):
    """First list of all topics after a start: name -> (id, partitions)."""

    topics: Mapping[str, tuple[UUID, int]]


class LogEntry(NamedTuple):
    """Record in a log file."""

    offset: int
    value: bytes
    producer_id: int
    producer_epoch: int
    sequence: int


class PowerLoss(NamedTuple):
    """Logs before a power cut and after the recovery. `may_lose`: whether the flush policy allows the loss of unsynced records."""

    before: Mapping[TopicPartition, Sequence[LogEntry]]
    after: Mapping[TopicPartition, Sequence[LogEntry]]
    may_lose: bool


class FinalLogs(NamedTuple):
    """Logs at the end of the simulation."""

    logs: Mapping[TopicPartition, Sequence[LogEntry]]


Event: TypeAlias = Acked | Refused | Read | HighWatermark | ProducerIdGiven | TopicCreated | TopicDeletion | Listing | PowerLoss | FinalLogs


class History:
    """Events in the order in which they happened."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.events: list[Event] = list(events)

    def add(self, event: Event) -> None:
        """Append an event."""
        self.events.append(event)

    def of(self, kind: type[E]) -> Iterator[E]:
        """Iterate over the events of one kind."""
        return (event for event in self.events if isinstance(event, kind))

    def final(self) -> Mapping[TopicPartition, Sequence[LogEntry]]:
        """Return the logs at the end; empty without a `FinalLogs`."""
        logs: Mapping[TopicPartition, Sequence[LogEntry]] = {}
        for event in self.of(FinalLogs):
            logs = event.logs
        return logs

    def excused(self) -> set[bytes]:
        """Return the values that power cuts took where the flush policy allowed the loss."""
        lost: set[bytes] = set()
        for cut in self.of(PowerLoss):
            if cut.may_lose:
                for partition, entries in cut.before.items():
                    lost |= {entry.value for entry in entries} - {entry.value for entry in cut.after.get(partition, ())}
        return lost


def value_of(producer: str, partition: int, number: int, padding: int = 0) -> bytes:
    """Return value `number` of a producer for a partition, with `padding` bytes appended."""
    return f"{producer}:{partition}:{number}:".encode() + b"x" * padding


def _author(value: bytes) -> tuple[str, int]:
    producer, _, number, _ = value.split(b":", 3)
    return producer.decode(), int(number)


def read_log(disk: Disk, directory: str) -> list[LogEntry]:
    """Return all records in the `.log` files of a partition's directory, read without a broker. Empty when the directory does not exist."""
    entries: list[LogEntry] = []
    if not disk.is_dir(directory):
        return entries
    for name in disk.listdir(directory):
        if not name.endswith(".log"):
            continue
        data = memoryview(disk.read_bytes(f"{directory}/{name}"))
        for position, header in iter_headers(data):
            if header.record_count <= 0 or position + header.size > len(data):
                break
            for index, record in enumerate(decode_records(data[position : position + header.size])):
                sequence = header.base_sequence + index
                entries.append(LogEntry(record.offset, record.value or b"", header.producer_id, header.producer_epoch, sequence))
    return entries


# -- checkers ------------------------------------------------------------------------------------------------------------------

Checker = Callable[[History], list[str]]


def acked_is_there(history: History) -> list[str]:
    """Check that every acknowledged value is in the final log, at its acknowledged offset."""
    problems: list[str] = []
    excused = history.excused()
    offsets = {partition: {entry.value: entry.offset for entry in entries} for partition, entries in history.final().items()}
    for acked in history.of(Acked):
        if acked.value in excused:
            continue
        found = offsets.get(acked.partition, {}).get(acked.value)
        if found is None:
            problems.append(f"{acked.partition}: {_short(acked.value)}, acknowledged at {acked.offset}, is not in the log")
        elif acked.offset not in (-1, found):
            problems.append(f"{acked.partition}: {_short(acked.value)}, acknowledged at {acked.offset}, is at {found}")
    return problems


def nothing_refused(history: History) -> list[str]:
    """Check that every value was accepted in the end, as a producer with enough retries and time achieves."""
    return [f"{event.partition}: {_short(event.value)} was refused: {event.error}" for event in history.of(Refused)]


def no_duplicates(history: History) -> list[str]:
    """Check that no value is in a log twice."""
    problems: list[str] = []
    for partition, entries in history.final().items():
        seen: dict[bytes, LogEntry] = {}
        for entry in entries:
            if entry.value in seen:
                problems.append(f"{partition}: {_short(entry.value)} occurs twice: {_place(seen[entry.value])} and {_place(entry)}")
            seen[entry.value] = entry
    return problems


def order_kept(history: History) -> list[str]:
    """Check that the values of one producer are in the order in which they were sent."""
    problems: list[str] = []
    for partition, entries in history.final().items():
        last: dict[str, int] = {}
        for entry in entries:
            producer, number = _author(entry.value)
            if number < last.get(producer, -1):
                problems.append(f"{partition}: {producer}'s {number} comes after its {last[producer]}")
            last[producer] = number
    return problems


def offsets_dense(history: History) -> list[str]:
    """Check that a log's offsets increase by one, without gaps."""
    problems: list[str] = []
    for partition, entries in history.final().items():
        for before, after in pairwise(entries):
            if after.offset != before.offset + 1:
                problems.append(f"{partition}: offset {before.offset} is followed by {after.offset}")
    return problems


def high_watermark_monotonic(history: History) -> list[str]:
    """Check that a reader's high watermark never decreases, except after a power cut that may lose records."""
    problems: list[str] = []
    last: dict[tuple[str, TopicPartition], int] = {}
    for event in history.events:
        if isinstance(event, PowerLoss) and event.may_lose:
            last.clear()
        elif isinstance(event, HighWatermark):
            key = (event.reader, event.partition)
            if event.offset < last.get(key, 0):
                problems.append(f"{event.reader} saw the high watermark of {event.partition} go from {last[key]} to {event.offset}")
            last[key] = event.offset
    return problems


def reads_are_the_log(history: History) -> list[str]:
    """Check that each value read is in the final log at its offset, and that a session reads every offset once, in order."""
    problems: list[str] = []
    excused = history.excused()
    final = {partition: {entry.offset: entry.value for entry in entries} for partition, entries in history.final().items()}
    last: dict[tuple[str, int, TopicPartition], int] = {}
    for event in history.events:
        if isinstance(event, PowerLoss) and event.may_lose:
            last.clear()
        elif isinstance(event, Read):
            key = (event.reader, event.session, event.partition)
            if key in last and event.offset != last[key] + 1:
                problems.append(f"{event.reader} read offset {event.offset} of {event.partition} after {last[key]}")
            last[key] = event.offset
            if event.value not in excused and final.get(event.partition, {}).get(event.offset) != event.value:
                problems.append(
                    f"{event.reader} read {_short(event.value)} at {event.offset} of {event.partition}, which is not in the log"
                )
    return problems


def prefix_survives(history: History) -> list[str]:
    """Check that a log after a power cut is a prefix of the log before. Without `may_lose`, acknowledged records must all be in the
    prefix.
    """
    problems: list[str] = []
    acked: dict[TopicPartition, list[Acked]] = {}
    for event in history.events:
        if isinstance(event, Acked):
            acked.setdefault(event.partition, []).append(event)
        elif isinstance(event, PowerLoss):
            for partition, before in event.before.items():
                after = event.after.get(partition, ())
                if list(before[: len(after)]) != list(after):
                    problems.append(f"{partition}: {len(after)} records after a power cut are not a prefix of the {len(before)} before it")
                end = after[-1].offset + 1 if after else 0
                lost = [each for each in acked.get(partition, ()) if each.offset >= end]
                if lost and not event.may_lose:
                    problems.append(f"{partition}: a power cut lost {_short(lost[0].value)}, flushed and acknowledged at {lost[0].offset}")
    return problems


def producer_ids_given_once(history: History) -> list[str]:
    """Check that no producer id is given twice, and that no two producers write with the same id."""
    problems: list[str] = []
    owner: dict[int, str] = {}
    for event in history.of(ProducerIdGiven):
        if event.producer_id in owner:
            problems.append(f"producer id {event.producer_id} was given to {owner[event.producer_id]} and to {event.asker}")
        owner[event.producer_id] = event.asker
    for partition, entries in history.final().items():
        for entry in entries:
            author = _author(entry.value)[0]
            if entry.producer_id >= 0 and owner.setdefault(entry.producer_id, author) != author:
                problems.append(f"{partition}: {author} wrote under the producer id {entry.producer_id} of {owner[entry.producer_id]}")
    return problems


def metadata_survives(history: History) -> list[str]:
    """Check that confirmed topics exist after every restart with the same ids, and that confirmed deletions stay deleted."""
    problems: list[str] = []
    known: dict[str, TopicCreated] = {}
    going: dict[str, UUID] = {}
    deleted: set[UUID] = set()
    for event in history.events:
        if isinstance(event, TopicCreated):
            known[event.name] = event
        elif isinstance(event, TopicDeletion):
            if event.name in known:
                going[event.name] = known.pop(event.name).topic_id
            if event.confirmed:
                deleted.add(going[event.name])
        elif isinstance(event, Listing):
            problems += _missing(known, event.topics)
            problems += [f"the deleted topic {name} still exists" for name, seen in event.topics.items() if seen[0] in deleted]
    return problems


def _missing(known: Mapping[str, TopicCreated], topics: Mapping[str, tuple[UUID, int]]) -> list[str]:
    problems: list[str] = []
    for name, created in known.items():
        if name not in topics:
            problems.append(f"the topic {name} does not exist after a restart")
        elif topics[name][0] != created.topic_id:
            problems.append(f"the topic {name} has another id after a restart")
        elif topics[name][1] < created.partitions:
            problems.append(f"the topic {name} has {topics[name][1]} partitions after a restart, not {created.partitions}")
    return problems


def _place(entry: LogEntry) -> str:
    return f"offset {entry.offset}, producer {entry.producer_id} epoch {entry.producer_epoch} sequence {entry.sequence}"


def _short(value: bytes) -> str:
    return value[:24].decode("utf-8", "replace")


CHECKERS: Mapping[str, Checker] = {
    "acked-is-there": acked_is_there,
    "nothing-refused": nothing_refused,
    "no-duplicates": no_duplicates,
    "order-kept": order_kept,
    "offsets-dense": offsets_dense,
    "high-watermark-monotonic": high_watermark_monotonic,
    "reads-are-the-log": reads_are_the_log,
    "prefix-survives": prefix_survives,
    "producer-ids-given-once": producer_ids_given_once,
    "metadata-survives": metadata_survives,
}


def check(history: History) -> list[str]:
    """Run every checker, and return lines of the form "name: violation"."""
    return [f"{name}: {problem}" for name, checker in CHECKERS.items() for problem in checker(history)]
