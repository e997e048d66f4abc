"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, batches between a header and a footer record (KIP-630)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.consensus.voters import OffsetAndEpoch, VoterSet
from odradek.controller.kraft.records import (
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    Batch,
    control_update,
    control_values,
    decode_batches,
    encode_control_values,
    encode_record,
    encode_values,
    kraft_version_value,
    snapshot_footer,
    snapshot_header,
    split_values,
    voters_value,
)
from odradek.metadata.versioned import VersionedRecord
from odradek.records.batch import iter_headers

CHECKPOINT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"

MAX_RECORDS_PER_BATCH = 1024
"""Number of records per batch of a snapshot (RecordsSnapshotWriter, SnapshotEmitter)."""

READ_BYTES = 1024 * 1024
"""Bytes of a snapshot to read at a time; more when a batch is larger."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def snapshot_file(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


def list_snapshots(disk: Disk, directory: str) -> list[OffsetAndEpoch]:
    """Return the ids of complete snapshots, oldest first. Remove unfinished and deleted snapshots."""
    found: list[OffsetAndEpoch] = []
    for name in disk.listdir(directory):
        if name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
            disk.remove(f"{directory}/{name}")
            continue
        match = _NAME.fullmatch(name)
        if match is not None:
            found.append(OffsetAndEpoch(int(match[1]), int(match[2])))
    return sorted(found)


def encode_snapshot(
    records: Iterable[VersionedRecord],
    *,
    epoch: int,
    last_contained_log_time_ms: int,
    now_ms: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> list[bytes]:
    """Encode the batches of a snapshot. With kraft.version above 0 the first batch also contains kraft.version and voters.

    As in Kafka, offsets count from 0: they are positions in the snapshot, not in the log.
    """
    control = [snapshot_header(last_contained_log_time_ms)]
    if kraft_version > 0:
        control.append(kraft_version_value(kraft_version))
        if voters is not None:
            control.append(voters_value(voters))
    batches = [encode_control_values(control, base_offset=0, epoch=epoch, now_ms=now_ms)]
    offset = len(control)
    for part in split_values([encode_record(record) for record in records], max_records=MAX_RECORDS_PER_BATCH):
        batches.append(encode_values(part, base_offset=offset, epoch=epoch, now_ms=now_ms))
        offset += len(part)
    batches.append(encode_control_values([snapshot_footer()], base_offset=offset, epoch=epoch, now_ms=now_ms))
    return batches


def write_snapshot(disk: Disk, directory: str, snapshot_id: OffsetAndEpoch, batches: Sequence[bytes]) -> None:
    """Write `<name>.part`, make it durable and rename it. May run in any thread."""
    path = f"{directory}/{snapshot_file(snapshot_id)}"
    part = path + ".part"
    if disk.exists(part):
        disk.remove(part)
    file = disk.open(part, create=True)
    try:
        file.pwritev(batches, 0)
        file.fsync()
    finally:
        file.close()
    disk.rename(part, path)
    disk.fsync_dir(directory)


class SnapshotSummary(NamedTuple):
    """Quorum information of a snapshot. Without it `voters` has the value None and `kraft_version` 0."""

    voters: VoterSet | None
    kraft_version: int


def summarize_snapshot(disk: Disk, path: str) -> SnapshotSummary:
    """Read the control records of a snapshot. Raises StorageError unless the file is complete from header to footer."""
    voters: VoterSet | None = None
    kraft_version = 0
    check = _Completeness(path)
    for data in _whole_batches(disk, path):
        for offset, kind, value in control_values(data):
            check.found(kind)
            update = control_update(offset, kind, value)
            if update is not None and update.voters is not None:
                voters = update.voters
            if update is not None and update.kraft_version is not None:
                kraft_version = update.kraft_version
    check.finish()
    return SnapshotSummary(voters, kraft_version)


def read_snapshot(disk: Disk, path: str, *, max_records: int = MAX_RECORDS_PER_BATCH) -> Iterator[Batch]:
    """Yield the batches of a snapshot, or slices of them, on demand. Raises StorageError at the end if the snapshot is incomplete."""
    check = _Completeness(path)
    for data in _whole_batches(disk, path):
        for batch in decode_batches(data, max_records=max_records):
            for kind, _ in batch.control:
                check.found(kind)
            yield batch
    check.finish()


class _Completeness:
    """Check that a header record comes first and a footer record last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: int | None = None
        self._last: int | None = None

    def found(self, kind: int) -> None:
        self._first = kind if self._first is None else self._first
        self._last = kind

    def finish(self) -> None:
        if self._first != SNAPSHOT_HEADER or self._last != SNAPSHOT_FOOTER:
            raise _incomplete(self._path)


def _incomplete(path: str) -> StorageError:
    return StorageError(f"{path} is not a complete snapshot: header or footer is missing")


def _whole_batches(disk: Disk, path: str) -> Iterator[bytes]:
    """Yield the file in chunks of about `READ_BYTES` that end at the end of a batch. Raises StorageError for a broken batch."""
    file = disk.open(path, readonly=True)
    try:
        position, size = 0, file.size()
        wanted = READ_BYTES
        while position < size:
            data = file.pread(min(wanted, size - position), position)
            end = max((start + header.size for start, header in iter_headers(data)), default=0)
            if end:
                yield data[:end]
                position += end
                wanted = READ_BYTES
            elif len(data) < wanted:
                raise _incomplete(path)
            else:
                wanted *= 2
    finally:
        file.close()
