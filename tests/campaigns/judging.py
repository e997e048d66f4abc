"""Outcomes of damaged partitions, and the reasons for which Odradek's outcome may differ from JVM Kafka's. Each reason requires evidence.

The kind of damage alone is never a reason. Every field of the outcome that a reason excuses must follow from the batches of our own log
(`FOLLOWS`), and the reason's condition says in which way JVM Kafka's outcome is worse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from odradek.records.batch import BatchHeader, check_crc, iter_headers, read_header
from odradek.storage.producer_snapshot import ProducerSnapshotEntry, decode_snapshot
from odradek.storage.producer_state import ProducerStateManager
from odradek.storage.recovery import follow_batch
from odradek.testing.simulation.disk import VirtualDisk

UNREADABLE = b"\0unreadable"
"""Mark in `Outcome.log` for bytes after the last batch of a segment that are not a batch."""


class Outcome(NamedTuple):
    """State of a partition after a broker's start with the damage."""

    start: int
    end: int
    epoch_ends: tuple[tuple[int, int], ...]
    fetches: tuple[tuple[int, int, int], ...]
    """(requested offset, error, base offset of the first batch or -1)"""
    aborted: tuple[tuple[int, ...], ...]
    """(producer id, first offset, last offset, last stable offset) from the transaction indexes"""
    epochs: tuple[tuple[int, int], ...]
    producers: tuple[ProducerSnapshotEntry | str, ...]
    """Entries of the newest snapshot; a text when the snapshot cannot be read."""
    log: bytes
    """All batches from the log start on."""
    stray: bool


class Case(NamedTuple):
    topic: str
    partition: int
    clean: bool
    """Whether the partition is in the log directory that was closed cleanly."""
    directory: int
    mutations: tuple[str, ...]
    recovery_point: int | None
    end: int
    probes: tuple[int, ...]
    whole: dict[int, bytes]
    """Batches before the damage, by base offset."""
    aborted: frozenset[tuple[int, ...]]
    """Aborted transactions before the damage."""
    source: str = "odradek"
    """Broker that wrote the log."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def compacted(self) -> bool:
        return self.topic == "kept"

    def __str__(self) -> str:
        state = "clean" if self.clean else f"recovery point {self.recovery_point}"
        return f"{self.name} of {self.source} ({state}, end {self.end}): {', '.join(self.mutations)}"


def batches_of(log: bytes) -> list[tuple[BatchHeader, bytes]]:
    found: list[tuple[BatchHeader, bytes]] = []
    for part in log.split(UNREADABLE):
        found += [(header, part[position : position + header.size]) for position, header in iter_headers(part)]
    return found


def _has(case: Case, *words: str) -> bool:
    return any(word in mutation for word in words for mutation in case.mutations)


# -- fields that follow from the batches of a log ----------------------------------------------------------------------------------------


def _epochs_follow(case: Case, ours: Outcome) -> bool:
    first: dict[int, int] = {}
    for header, _ in batches_of(ours.log):
        if header.partition_leader_epoch > max(first, default=-1):
            first[header.partition_leader_epoch] = header.base_offset
    expected = [(epoch, offset) for epoch, offset in first.items() if offset < ours.end]
    told = list(ours.epochs)
    if expected and told and told[0] == (expected[0][0], ours.start):
        expected[0] = told[0]
    if _has(case, ".log flipped") and [epoch for epoch, _ in told] == [epoch for epoch, _ in expected]:
        # After a batch that is damaged itself, an epoch is seen where batches can be read again.
        return all(mine >= first for (_, mine), (_, first) in zip(told, expected, strict=True))
    # An epoch with all batches below the log start keeps its entry there.
    return told == expected or (told[1:] == expected and told[0][1] == ours.start)


def _epoch_ends_follow(case: Case, ours: Outcome) -> bool:
    for asked, (epoch, end) in enumerate(ours.epoch_ends):
        known = [each for each, _ in ours.epochs if each <= asked]
        later = [offset for each, offset in ours.epochs if each > asked]
        if (epoch, end) != (known[-1] if known else asked, later[0] if later else ours.end):
            return False
    return True


def _fetches_follow(case: Case, ours: Outcome) -> bool:
    headers = [header for header, _ in batches_of(ours.log)]
    for offset, error, base in ours.fetches:
        if not ours.start <= offset <= ours.end:
            expected = (1, -1)
        else:
            expected = (0, next((header.base_offset for header in headers if header.last_offset >= offset), -1))
        if (error, base) != expected:
            return False
    return True


def _producers_written(case: Case) -> set[ProducerSnapshotEntry]:
    """Return the producer state after all batches that existed before the damage."""
    state = ProducerStateManager(VirtualDisk(), "/", case.name, expiration_ms=1 << 60, verify_transactions=False)
    for _, data in sorted(case.whole.items()):
        follow_batch(None, state, memoryview(data), 0, read_header(data, 0))
    return set(decode_snapshot(state.snapshot_at(state.map_end_offset) or b""))


def _all_producers(case: Case, ours: Outcome) -> bool:
    return ours.end == case.end and set(ours.producers) == _producers_written(case)


def _producers_follow(case: Case, ours: Outcome) -> bool:
    """Return whether each producer with batches after the log start is at its last batch, with an open transaction if the markers say so.

    Also true if the producers are all that existed before the damage and the log has its former end: then some of their batches may be
    missing from the middle. A marker of a higher epoch (KIP-890) leaves no batch.
    """
    last: dict[int, tuple[int, int]] = {}
    epochs: dict[int, int] = {}
    open_since: dict[int, int] = {}
    for header, _ in batches_of(ours.log):
        producer = header.producer_id
        if producer >= 0 and header.is_control:
            open_since.pop(producer, None)
            if producer in last and header.producer_epoch > epochs[producer]:
                last[producer] = (-1, -1)
        elif producer >= 0:
            epochs[producer] = header.producer_epoch
            last[producer] = (header.last_sequence, header.last_offset)
            if header.is_transactional:
                open_since.setdefault(producer, header.base_offset)
    entries = {entry.producer_id: entry for entry in ours.producers if not isinstance(entry, str)}
    if len(entries) != len(ours.producers):
        return False
    return _all_producers(case, ours) or all(
        producer in entries
        and (entries[producer].last_sequence, entries[producer].last_offset) == expected
        and (entries[producer].txn_first_offset >= 0) == (producer in open_since)
        for producer, expected in last.items()
    )


def _aborts_follow(case: Case, ours: Outcome) -> bool:
    """Return whether the aborted transactions existed before the damage, and none is missing of which the marker exists."""
    there = {header.base_offset for header, _ in batches_of(ours.log) if header.is_control}
    return {entry for entry in case.aborted if entry[2] in there} <= set(ours.aborted) <= case.aborted


def _log_follows(case: Case, ours: Outcome) -> bool:
    """Return whether every batch existed before the damage, and the last batch ends at the log's end."""
    batches = batches_of(ours.log)
    if b"".join(data for _, data in batches) != ours.log or any(case.whole.get(header.base_offset) != data for header, data in batches):
        return False
    return not batches or batches[-1][0].next_offset == ours.end


def _end_follows(case: Case, ours: Outcome) -> bool:
    batches = batches_of(ours.log)
    return ours.end == (batches[-1][0].next_offset if batches else ours.start)


FOLLOWS: dict[str, Callable[[Case, Outcome], bool]] = {
    "end": _end_follows,
    "epochs": _epochs_follow,
    "epoch_ends": _epoch_ends_follow,
    "fetches": _fetches_follow,
    "producers": _producers_follow,
    "aborted": _aborts_follow,
    "log": _log_follows,
}
"""Field -> whether our value follows from the batches. No reason excuses log start and stray."""


# -- reasons ---------------------------------------------------------------------------------------------------------------------------


class Better(NamedTuple):
    """Intended difference: among `fields`, those that follow from our log may differ where `when` holds."""

    why: str
    fields: frozenset[str]
    when: Callable[[Case, Outcome, Outcome], bool]


def _next_of_theirs(ours: Outcome, theirs: Outcome) -> tuple[BatchHeader, bytes] | None:
    """Return JVM Kafka's batch after the end of our log. None when our log is not a proper beginning of JVM Kafka's."""
    if not theirs.log.startswith(ours.log):
        return None
    return next(iter(batches_of(theirs.log[len(ours.log) :])), None)


def _lost_epochs(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    words = [f"leader-epoch-checkpoint {how}" for how in ("missing", "empty", "without", "of before")]
    return _has(case, *words) and len(ours.epochs) > 0 and {epoch for epoch, _ in theirs.epochs} <= {epoch for epoch, _ in ours.epochs}


def _lying_index(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether JVM Kafka answers with a batch after the offset's batch, or none, and knows no more producers: it has not read that
    segment's batches.
    """
    pairs = zip(ours.fetches, theirs.fetches, strict=True)
    known = {entry.producer_id: entry.last_offset for entry in ours.producers if not isinstance(entry, str)}
    behind = all(not isinstance(entry, str) and entry.last_offset <= known.get(entry.producer_id, -2) for entry in theirs.producers)
    fetches = all(mine == other or (mine[1] == 0 and (other[2] > mine[2] or other[2] < 0)) for mine, other in pairs)
    return _has(case, ".index") and behind and fetches


def _only_rubbish_behind(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether JVM Kafka's log begins with ours, and nothing after our end is a batch as it was written."""
    behind = batches_of(theirs.log[len(ours.log) :]) if theirs.log.startswith(ours.log) else None
    return behind is not None and all(case.whole.get(header.base_offset) != data for header, data in behind)


def _end_in_the_file(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether our extra batches are in JVM Kafka's file as well, after the point that JVM Kafka takes for the end."""
    return case.clean and _has(case, ".log cut", ".index") and ours.end > theirs.end and _only_rubbish_behind(case, ours, theirs)


def _more_aborts(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    return set(theirs.aborted) < set(ours.aborted) and _has(case, ".txnindex", "swap")


def _producers_of_the_log(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    lost = _has(case, ".index", ".txnindex", "all .snapshot missing")
    return case.clean and lost and not theirs.producers and ours.producers != ()


def _snapshots_kept(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether the log has its former end, and ours knows everything about every producer, even of batches that are missing now."""
    lost = _has(case, ".index") and _has(case, ".log", "swap")
    return lost and ours.end == theirs.end and _all_producers(case, ours)


def _forgotten(known: ProducerSnapshotEntry, start: int) -> set[ProducerSnapshotEntry]:
    """Return the possible rests of an entry when the batches below the log start are unknown."""
    left = {known, known._replace(coordinator_epoch=-1)}
    if known.last_offset < start:
        left |= {each._replace(last_sequence=-1, last_offset=-1, offset_delta=0) for each in left}
    return left


def _below_log_start(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether ours knows more below the log start (producers, beginnings of transactions), and the same about all else."""
    mine = {entry.producer_id: entry for entry in ours.producers if not isinstance(entry, str)}
    for entry in theirs.producers:
        known = None if isinstance(entry, str) else mine.pop(entry.producer_id, None)
        if known is None or isinstance(entry, str):
            return False
        if 0 <= known.txn_first_offset < ours.start:
            known = known._replace(txn_first_offset=entry.txn_first_offset)
        if entry not in _forgotten(known, ours.start):
            return False
    fewer = set(theirs.aborted) - set(ours.aborted)
    more = set(ours.aborted) - set(theirs.aborted)
    return (
        _has(case, "log start", ".log missing")
        and all(entry.last_offset < ours.start for entry in mine.values())
        and all(first < ours.start for _, first, _, _ in more)
        and all(_shortened(entry, more, ours.start) for entry in fewer)
    )


def _shortened(entry: tuple[int, ...], known: set[tuple[int, ...]], start: int) -> bool:
    """Return whether an entry is one of the known entries, shortened to the part after the log start."""
    producer, first, last, stable = entry
    return first >= start and any(each[0] == producer and each[2] == last and each[3] <= stable for each in known)


def _jump(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether JVM Kafka keeps a batch with an offset other than it was written with. Its checksum is right, as it does not cover the
    offset.
    """
    kept = _next_of_theirs(ours, theirs)
    if case.clean or kept is None or not _has(case, ".log flipped", "base offset"):
        return False
    header, data = kept
    return check_crc(data, 0, header) and case.whole.get(header.base_offset) != data


def _segment_dropped(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether JVM Kafka keeps only a beginning of our log."""
    fewer = ours.end > theirs.end and len(theirs.log) < len(ours.log) and ours.log.startswith(theirs.log)
    return not case.clean and fewer and _has(case, ".log flipped", "base offset")


def _unreadable_tail(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether ours has removed unreadable bytes. To do so, ours reads the last segment and finds its producers even without a
    snapshot.
    """
    same = ours.producers == theirs.producers or not theirs.producers
    return case.clean and theirs.log != ours.log and _only_rubbish_behind(case, ours, theirs) and same and _has(case, ".log")


def _hole(case: Case, ours: Outcome, theirs: Outcome) -> bool:
    """Return whether JVM Kafka continues after the gap, with a batch or with an empty segment."""
    kept = _next_of_theirs(ours, theirs)
    beyond = kept[0].base_offset > ours.end if kept is not None else theirs.log == ours.log and theirs.end > ours.end
    return not case.clean and not case.compacted and beyond and _has(case, ".log")


_ENDS = frozenset({"end", "epochs", "epoch_ends", "fetches", "producers", "aborted"})
"""Fields that differ as well when a log ends elsewhere."""

BETTER: tuple[Better, ...] = (
    Better(
        "leader epochs whose checkpoint is lost are read from the batches, below the recovery point as well",
        frozenset({"epochs", "epoch_ends"}),
        _lost_epochs,
    ),
    Better(
        "the end of a cleanly closed log is found although its index points behind it or nowhere: JVM Kafka falls back to the base offset",
        _ENDS,
        _end_in_the_file,
    ),
    Better(
        "a damaged transaction index is rebuilt: JVM Kafka does not see that it ends in the middle of an entry, or that it is missing",
        frozenset({"aborted"}),
        _more_aborts,
    ),
    Better(
        "producers are read from a cleanly closed log that has lost its snapshots, or an index: JVM Kafka knows none of them",
        frozenset({"producers"}),
        _producers_of_the_log,
    ),
    Better(
        "the producer snapshots behind a rebuilt index are kept: JVM Kafka makes them of what is left of the batches",
        frozenset({"producers", "aborted"}),
        _snapshots_kept,
    ),
    Better("an index below the recovery point that lies is found out and rebuilt", frozenset({"fetches", "producers"}), _lying_index),
    Better(
        "producers and transactions that began below the log start are known from the snapshot there: JVM Kafka drops it",
        frozenset({"producers", "aborted"}),
        _below_log_start,
    ),
    Better(
        "a batch whose base offset (which no checksum covers) jumps ends the log: JVM Kafka keeps it and what follows, out of order",
        _ENDS | {"log"},
        _jump,
    ),
    Better(
        "of a segment in which such an offset breaks the index the batches before it are kept: JVM Kafka drops the whole segment",
        _ENDS | {"log"},
        _segment_dropped,
    ),
    Better(
        "bytes behind the last batch of a cleanly closed log are cut: JVM Kafka appends behind them", frozenset({"log"}), _unreadable_tail
    ),
    Better(
        "a hole that a crash left in an unflushed log ends it: JVM Kafka, which had to rebuild an index there, goes on behind the hole",
        _ENDS | {"log"},
        _hole,
    ),
)


def differences(ours: Outcome, theirs: Outcome) -> set[str]:
    return {field for field in Outcome._fields if getattr(ours, field) != getattr(theirs, field)}


def judge(case: Case, ours: Outcome, theirs: Outcome, used: Counter[str]) -> list[str]:
    """Return the fields that differ without a reason."""
    left = differences(ours, theirs)
    for better in BETTER:
        excused = {field for field in left & better.fields if FOLLOWS[field](case, ours)}
        if excused and better.when(case, ours, theirs):
            used[better.why] += 1
            left -= excused
    return sorted(left)


def unsound(case: Case, ours: Outcome) -> list[str]:
    """Return the fields that do not follow from our own log, for cases without a comparison."""
    return sorted(field for field, follows in FOLLOWS.items() if field != "log" and not follows(case, ours))
