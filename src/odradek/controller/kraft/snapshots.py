"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`, batches between a header and a footer record (KIP-630)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.consensus.voters import OffsetAndEpoch, VoterSet
from odradek.controller.kraft.records import (
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    Batch,
    control_update,
    decode_batches,
    encode_control_values,
    encode_record,
    encode_values,
    kraft_version_value,
    snapshot_footer,
    snapshot_header,
    snapshot_header_time,
    split_values,
    voters_value,
)
from odradek.metadata.versioned import VersionedRecord

CHECKPOINT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".checkpoint.deleted"

MAX_RECORDS_PER_BATCH = 1024
"""RecordsSnapshotWriter and SnapshotEmitter hand over records in batches of this many."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def snapshot_file(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


def list_snapshots(disk: Disk, directory: str) -> list[OffsetAndEpoch]:
    """The complete snapshots, oldest first; unfinished and deleted ones are removed."""
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
    """The batches of a snapshot. With kraft.version above 0 the first one also names that and the voters.

    Their offsets count from 0, as Kafka's do: a position inside the snapshot, not in the log.
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
    """Writes `<name>.part`, makes it durable and gives it its name. May run in any thread."""
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


class SnapshotContents:
    """A decoded snapshot. `voters` is None and `kraft_version` 0 where it names none."""

    __slots__ = ("batches", "kraft_version", "last_contained_log_time_ms", "voters")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.last_contained_log_time_ms = -1
        self.voters: VoterSet | None = None
        self.kraft_version = 0

    def records(self) -> Iterable[VersionedRecord]:
        for batch in self.batches:
            yield from batch.records


def read_snapshot(disk: Disk, path: str) -> SnapshotContents:
    """StorageError unless the file is a whole snapshot from header to footer."""
    contents = SnapshotContents()
    kinds: list[int] = []
    for batch in decode_batches(disk.read_bytes(path)):
        contents.batches.append(batch)
        for kind, value in batch.control:
            kinds.append(kind)
            if kind == SNAPSHOT_HEADER:
                contents.last_contained_log_time_ms = snapshot_header_time(value)
                continue
            update = control_update(0, kind, value)
            if update is not None and update.voters is not None:
                contents.voters = update.voters
            if update is not None and update.kraft_version is not None:
                contents.kraft_version = update.kraft_version
    if not kinds or kinds[0] != SNAPSHOT_HEADER or kinds[-1] != SNAPSHOT_FOOTER:
        raise StorageError(f"{path} is not a complete snapshot: header or footer is missing")
    return contents
