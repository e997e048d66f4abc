"""Checks of log files, read without a broker.

Offsets rise, leader epochs never fall, and checksums are correct. A producer's epoch never falls; its sequences are contiguous and start at
0 in each epoch (ProducerAppendInfo, KIP-98). Replicas have equal bytes up to the smallest high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from odradek.records.batch import NO_SEQUENCE, BatchHeader, check_crc, increment_sequence, iter_headers
from odradek.testing.history.anomalies import Anomaly, Findings


class LoggedBatch(NamedTuple):
    """Batch in a log file."""

    header: BatchHeader
    data: bytes
    intact: bool
    """Whether the checksum is correct."""


class _Producer(NamedTuple):
    epoch: int
    next_sequence: int


def read_batches(directory: Path | str) -> Iterator[LoggedBatch]:
    """Yield the batches in the `.log` files of a partition's directory, in order of the files. An incomplete batch at the end of a file is
    left out.

    Only batches of magic 2 are read; an older batch ends the reading of its file.
    """
    for path in sorted(Path(directory).glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if header.magic < 2 or position + header.size > len(data):
                break
            yield LoggedBatch(header, data[position : position + header.size], check_crc(data, position, header))


def check_log(name: str, batches: Iterable[LoggedBatch], *, compacted: bool = False, limit: int = 100) -> list[Anomaly]:
    """Return damaged-batch, offset-order, epoch-regression and sequence-gap. In a compacted log sequences may have gaps, but must not
    decrease.
    """
    findings = Findings(limit=limit)
    end, leader_epoch = -1, -1
    producers: dict[int, _Producer] = {}
    for header, _, intact in batches:
        place = f"{name} offset {header.base_offset}"
        if not intact:
            findings.add("damaged-batch", f"{place}: wrong checksum")
        if header.base_offset < end or header.last_offset_delta < 0:
            findings.add("offset-order", f"{place}: the batch before it ends with {end - 1}")
        if header.partition_leader_epoch < leader_epoch:
            findings.add("epoch-regression", f"{place}: leader epoch {header.partition_leader_epoch} after {leader_epoch}")
        end = max(end, header.next_offset)
        leader_epoch = max(leader_epoch, header.partition_leader_epoch)
        if header.has_producer_id:
            problem = _sequence_problem(header, producers, compacted=compacted)
            if problem:
                findings.add("sequence-gap", f"{place}: producer {header.producer_id}, {problem}")
    return findings.anomalies


def _sequence_problem(header: BatchHeader, producers: dict[int, _Producer], *, compacted: bool) -> str:
    """Return the violation of a batch, given the producer's earlier batches, or "" without a violation. Remember the batch."""
    before = producers.get(header.producer_id)
    epoch, data = header.producer_epoch, not header.is_control and header.base_sequence != NO_SEQUENCE
    following = increment_sequence(header.last_sequence, 1) if data else -1
    if before is None:
        # A producer's first batch proves nothing: its earlier batches may have been deleted.
        producers[header.producer_id] = _Producer(epoch, following)
        return ""
    if epoch < before.epoch:
        return f"epoch {epoch} after {before.epoch}"
    expected = before.next_sequence if epoch == before.epoch else 0
    producers[header.producer_id] = _Producer(epoch, following if data else expected)
    if not data or expected < 0 or header.base_sequence == expected:
        return ""
    if compacted and (header.base_sequence - expected) & 0x7FFFFFFF < 1 << 30:
        return ""
    return f"epoch {epoch}: sequence {header.base_sequence} instead of {expected}"


def check_replicas(name: str, replicas: Mapping[str, Path | str], high_watermark: int) -> list[Anomaly]:
    """Return replicas-differ when replicas differ below the high watermark (pass the smallest high watermark of all replicas).

    The comparison starts at the highest log start. Replicas may differ in their segment boundaries and in the records deleted before that
    offset.
    """
    return compare_logs(name, {each: read_batches(directory) for each, directory in replicas.items()}, high_watermark)


def compare_logs(name: str, replicas: Mapping[str, Iterable[LoggedBatch]], high_watermark: int) -> list[Anomaly]:
    """Compare batches that have been read, as `check_replicas` does."""
    findings = Findings()
    logs = {each: _below(batches, high_watermark) for each, batches in replicas.items()}
    heads = {each: next(batches, None) for each, batches in logs.items()}
    start = max((head.header.base_offset for head in heads.values() if head is not None), default=0)
    for each, batches in logs.items():
        head = heads[each]
        while head is not None and head.header.last_offset < start:
            head = next(batches, None)
        heads[each] = head
    while any(heads.values()):
        (first, one), *others = heads.items()
        for other, batch in others:
            if one is None or batch is None or one.data != batch.data:
                findings.add("replicas-differ", f"{name}: {first} has {_place(one)}, {other} has {_place(batch)}")
                return findings.anomalies
        heads = {each: next(batches, None) for each, batches in logs.items()}
    return findings.anomalies


def _below(batches: Iterable[LoggedBatch], high_watermark: int) -> Iterator[LoggedBatch]:
    """Yield the batches whose first record is below a high watermark."""
    for batch in batches:
        if batch.header.base_offset >= high_watermark:
            return
        yield batch


def _place(batch: LoggedBatch | None) -> str:
    if batch is None:
        return "nothing"
    header = batch.header
    return f"offsets {header.base_offset} to {header.last_offset} ({len(batch.data)} bytes, checksum {header.crc:#010x})"
