"""Directory `__cluster_metadata-0`: log, snapshots and quorum state for the consensus core (KafkaMetadataLog)."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.base.errors import KafkaError, StorageError
from odradek.base.ids import METADATA_TOPIC_ID, TopicPartition
from odradek.config.keys.cluster import (
    INTERNAL_METADATA_DELETE_DELAY_MILLIS,
    INTERNAL_METADATA_LOG_SEGMENT_BYTES,
    INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES,
    METADATA_LOG_SEGMENT_BYTES,
    METADATA_LOG_SEGMENT_MS,
    METADATA_MAX_RETENTION_BYTES,
    METADATA_MAX_RETENTION_MS,
)
from odradek.config.topic import TopicConfig
from odradek.consensus.messages import ElectionState
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch, VoterHistory, VoterSet
from odradek.controller.kraft.quorum_state import read_quorum_state, write_quorum_state
from odradek.controller.kraft.records import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Batch, control_updates
from odradek.controller.kraft.snapshots import list_snapshots, read_snapshot, snapshot_file, summarize_snapshot
from odradek.storage.loader import load_log
from odradek.storage.options import LogOptions

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.storage.flushing import Flush
    from odradek.storage.log import Log

logger = logging.getLogger(__name__)

METADATA_PARTITION = TopicPartition("__cluster_metadata", 0)
PARTITION_METADATA = "partition.metadata"


@contextmanager
def _disk_errors() -> Generator[None]:
    """Raise the OSError behind a KAFKA_STORAGE_ERROR. A failed disk of the metadata log ends the node; no client gets the error."""
    try:
        yield
    except KafkaError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise


class MetadataLog:
    """Metadata log and its snapshots (implements `consensus.log.RaftLog`).

    Only one thread uses it at a time: that of the node or, while the node's queue is suspended, that of the metadata log. A flush may run
    beside them.
    """

    __slots__ = ("_disk", "_retention_bytes", "_retention_ms", "directory", "log", "snapshots")

    def __init__(
        self, disk: Disk, directory: str, log: Log, snapshots: list[OffsetAndEpoch], *, retention_bytes: int, retention_ms: int
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.log = log
        self.snapshots = snapshots
        """Ids of complete snapshots, oldest first."""
        self._retention_bytes = retention_bytes
        self._retention_ms = retention_ms

    @classmethod
    def open(cls, disk: Disk, clock: Clock, config: BrokerConfig) -> MetadataLog:
        """Open or create the directory in metadata.log.dir. The log is always recovered as after a crash, as in Kafka.

        A snapshot newer than the log's end replaces the log; a crash just after a fetched snapshot was written causes this.

        Raises StorageError when no snapshot covers the records before the log's start. Raises StorageError also for a log without
        quorum-state, because this replica may have voted.
        """
        directory = f"{config.metadata_log_dir}/{METADATA_PARTITION}"
        disk.makedirs(directory)
        election = read_quorum_state(disk, directory)
        snapshots = list_snapshots(disk, directory)
        overrides = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(config[INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES]),
            "segment.bytes": str(config[METADATA_LOG_SEGMENT_BYTES]),
            "segment.ms": str(config[METADATA_LOG_SEGMENT_MS]),
            "file.delete.delay.ms": str(config[INTERNAL_METADATA_DELETE_DELAY_MILLIS]),
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "preallocate": "false",
        }
        internal_bytes = config[INTERNAL_METADATA_LOG_SEGMENT_BYTES]
        if internal_bytes is not None:
            overrides["internal.segment.bytes"] = str(internal_bytes)
        log = load_log(
            disk, clock, METADATA_PARTITION, directory, TopicConfig.build(config, overrides), options=LogOptions(verify_transactions=False)
        )
        if log.topic_id is None:
            log.assign_topic_id(METADATA_TOPIC_ID)
        elif log.topic_id != METADATA_TOPIC_ID:
            raise StorageError(f"{directory} belongs to another topic: its id is {log.topic_id}")
        opened = cls(
            disk,
            directory,
            log,
            snapshots,
            retention_bytes=config[METADATA_MAX_RETENTION_BYTES],
            retention_ms=config[METADATA_MAX_RETENTION_MS],
        )
        opened._check(election)
        if config.is_controller:
            # Others count a voter's copy as durable. Records covered by the newest snapshot need no log.
            newest = opened.latest_snapshot()
            log.segments.write_again(0 if newest is None else newest.offset)
        log.flush()
        return opened

    def _check(self, election: ElectionState | None) -> None:
        latest = self.latest_snapshot()
        if latest is not None and (
            latest.offset > self.log.log_end_offset or (latest != BOOTSTRAP_SNAPSHOT_ID and latest.epoch > self.end.epoch)
        ):
            logger.warning(
                "The metadata log ends at %d, before its newest snapshot %s: starting again from the snapshot", self.end.offset, latest
            )
            self.log.truncate_fully_and_start_at(latest.offset)
        start = self.log.log_start_offset
        if start > 0 and not any(snapshot.offset >= start for snapshot in self.snapshots):
            raise StorageError(
                f"{self.directory} begins at offset {start}, and the earlier part has no snapshot: restore a .checkpoint file"
            )
        if election is None and self.log.log_end_offset > 0:
            raise StorageError(
                f"{self.directory} has a log but no quorum-state: this node may have voted in an epoch that it does not remember. "
                "Restore the file, or empty the directory; the node then fetches the log from the other controllers."
            )

    # Interface of the core (RaftLog) ---------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end(self) -> OffsetAndEpoch:
        epoch = self.log.leader_epochs.latest_epoch
        if epoch < 0:
            latest = self.latest_snapshot()
            epoch = latest.epoch if latest is not None and latest.offset == self.log.log_end_offset else 0
        return OffsetAndEpoch(self.log.log_end_offset, epoch)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        found, offset = self.log.end_offset_for_epoch(epoch)
        return None if offset < 0 else OffsetAndEpoch(offset, found)

    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[0] if self.snapshots else None

    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        if snapshot_id not in self.snapshots:
            return None
        file = self._disk.open(self.snapshot_path(snapshot_id), readonly=True)
        try:
            return file.size()
        finally:
            file.close()

    # Reading ---------------------------------------------------------------------------------------------------------------

    def read(self, offset: int, *, up_to: int, max_bytes: int = MAX_BATCH_BYTES) -> bytes:
        """Return whole batches from `offset` up to `up_to` (exclusive): about `max_bytes`, and at least one batch."""
        if offset >= up_to:
            return b""
        with _disk_errors():
            found = self.log.read(offset, max_bytes=max_bytes, max_offset=up_to, min_one_message=True)
        try:
            return b"".join(part.read(0, part.size) for part in found.slices)
        finally:
            for part in found.slices:
                part.release()

    def snapshot_path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_file(snapshot_id)}"

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, *, max_records: int = MAX_BATCH_RECORDS) -> Iterator[Batch]:
        """Yield the batches of a snapshot (see `snapshots.read_snapshot`)."""
        return read_snapshot(self._disk, self.snapshot_path(snapshot_id), max_records=max_records)

    def read_snapshot_bytes(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        file = self._disk.open(self.snapshot_path(snapshot_id), readonly=True)
        try:
            return file.pread(size, position)
        finally:
            file.close()

    def voter_history(self, static_voters: VoterSet) -> VoterHistory:
        """Return all voter sets and kraft.versions of the newest snapshot and the log after it."""
        history = VoterHistory(static_voters)
        offset = self.start_offset
        latest = self.latest_snapshot()
        if latest is not None:
            summary = summarize_snapshot(self._disk, self.snapshot_path(latest))
            at = -1 if latest == BOOTSTRAP_SNAPSHOT_ID else latest.offset - 1
            if summary.voters is not None:
                history.add_voters(at, summary.voters)
            history.add_kraft_version(at, summary.kraft_version)
            offset = max(offset, latest.offset)
        end = self.log.log_end_offset
        while offset < end:
            data = self.read(offset, up_to=end)
            for update in control_updates(data):
                if update.offset < offset:
                    continue
                if update.voters is not None:
                    history.add_voters(update.offset, update.voters)
                if update.kraft_version is not None:
                    history.add_kraft_version(update.offset, update.kraft_version)
            offset = next_offset_after(data, offset)
        return history

    # Writing ---------------------------------------------------------------------------------------------------------------

    def read_election(self) -> ElectionState | None:
        return read_quorum_state(self._disk, self.directory)

    def write_election(self, election: ElectionState, *, kraft_version: int, voters: tuple[int, ...]) -> None:
        write_quorum_state(self._disk, self.directory, election, kraft_version=kraft_version, voters=voters)

    def append(self, data: bytes, epoch: int) -> None:
        """Append batches that have their offsets and epochs, without fsync.

        Like all methods that access the log, raises OSError of the disk.
        """
        with _disk_errors():
            self.log.append_raft(memoryview(data), epoch)

    def begin_flush(self) -> Flush | None:
        return self.log.begin_flush()

    def truncate_to(self, offset: int) -> None:
        with _disk_errors():
            self.log.truncate_to(offset)

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Restart the log at the end of a snapshot that has been written, and delete older snapshots."""
        self.add_snapshot(snapshot_id)
        with _disk_errors():
            self.log.truncate_fully_and_start_at(snapshot_id.offset)
        for older in self.snapshots[:-1]:
            self._disk.remove(self.snapshot_path(older))
        self.snapshots = [snapshot_id]

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        if snapshot_id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, snapshot_id])

    def clean(self, now_ms: int) -> None:
        """Delete the oldest snapshots, and the log before the oldest one that remains, while metadata.max.retention.* demands it.

        The newest snapshot always stays.
        """
        while len(self.snapshots) > 1 and self._too_much(now_ms):
            oldest, following = self.snapshots[0], self.snapshots[1]
            self._disk.remove(self.snapshot_path(oldest))
            self.snapshots = self.snapshots[1:]
            self._delete_before(following.offset)
        if self.snapshots and self.snapshots[0].offset > self.start_offset and self._log_too_large():
            self._delete_before(self.snapshots[0].offset)

    def _delete_before(self, offset: int) -> None:
        if self.log.maybe_increment_log_start_offset(offset):
            self.log.delete_old_segments()

    def _too_much(self, now_ms: int) -> bool:
        if self._retention_ms >= 0 and now_ms - self._disk.modified_ms(self.snapshot_path(self.snapshots[0])) > self._retention_ms:
            return True
        return self._log_too_large()

    def _log_too_large(self) -> bool:
        if self._retention_bytes < 0:
            return False
        size = self.log.size + sum(self.snapshot_size(snapshot) or 0 for snapshot in self.snapshots)
        return size > self._retention_bytes

    def take_deletions(self) -> Sequence[str]:
        return self.log.take_deletions()

    def close(self) -> None:
        self.log.close()


def next_offset_after(data: bytes, offset: int) -> int:
    """Return the end offset of the batches in `data`.

    Raises StorageError without a batch, because the log is then shorter than it claims.
    """
    from odradek.records.batch import iter_headers

    found = offset
    for _, header in iter_headers(memoryview(data)):
        found = header.next_offset
    if found <= offset:
        raise StorageError(f"the metadata log has no batch at offset {offset}")
    return found
