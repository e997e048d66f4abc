"""Snapshots of a node: those it writes when enough records have come, and those it fetches from the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.disk import Disk
from odradek.config.keys.cluster import (
    INTERNAL_METADATA_DELETE_DELAY_MILLIS,
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS,
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS,
)
from odradek.consensus.messages import SnapshotChunk, SnapshotInstalled
from odradek.consensus.voters import OffsetAndEpoch, VoterHistory
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.snapshots import encode_snapshot, summarize_snapshot, write_snapshot

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

logger = logging.getLogger(__name__)


class Snapshots:
    """Snapshots of one node. All work except the writing itself runs in the node's queue."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        log: MetadataLog,
        loader: MetadataLoader,
        voters: VoterHistory,
        disk: Disk,
        clock: Clock,
        background: Background,
        on_error: Callable[[BaseException], None],
    ) -> None:
        """Create the snapshots. `on_error` gets the error of a snapshot that could not be written."""
        self._config = config
        self._log = log
        self._loader = loader
        self._voters = voters
        self._disk = disk
        self._clock = clock
        self._background = background
        self._on_error = on_error
        self._writing = False
        self._last_s = clock.monotonic()
        self.written_bytes = 0
        """Size in bytes of the latest snapshot that this node wrote."""

    @property
    def written_s_ago(self) -> float:
        """Seconds since the latest snapshot was begun, or since the start."""
        return self._clock.monotonic() - self._last_s

    # Own snapshots ---------------------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """Write a snapshot at Kafka's thresholds: bytes of records since the last one, or time since it if there is anything new."""
        config = self._config
        interval_ms = config[METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS]
        enough = self._loader.bytes_since_snapshot >= config[METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS]
        if enough or (interval_ms > 0 and (self._clock.monotonic() - self._last_s) * 1000 >= interval_ms):
            self.write()

    def write(self) -> None:
        """Write a snapshot of the image in the background, unless it exists or another one is being written."""
        image = self._loader.image
        snapshot_id = self._loader.snapshot_id
        latest = self._log.latest_snapshot()
        nothing_new = snapshot_id.offset <= 0 or (latest is not None and snapshot_id <= latest)
        if self._writing or nothing_new or not self._loader.caught_up or not self._loader.ends_with_a_batch:
            return
        self._writing = True
        self._last_s = self._clock.monotonic()
        self._loader.snapshot_written()
        voters, kraft_version = self._voters.at(snapshot_id.offset)
        now_ms = self._clock.time_ms()

        def write() -> None:
            batches = encode_snapshot(
                image.to_records(),
                epoch=snapshot_id.epoch,
                last_contained_log_time_ms=image.provenance.last_contained_log_time_ms,
                now_ms=now_ms,
                kraft_version=kraft_version,
                voters=voters,
            )
            write_snapshot(self._disk, self._log.directory, snapshot_id, batches)
            self.written_bytes = sum(map(len, batches))

        self._background.run(write, lambda error: self._written(snapshot_id, error))

    def _written(self, snapshot_id: OffsetAndEpoch, error: BaseException | None) -> None:
        self._writing = False
        if error is not None:
            self._on_error(error)
        if error is not None or self._background.closed:
            return
        logger.info("Wrote the metadata snapshot that ends at offset %d, epoch %d", *snapshot_id)
        self._log.add_snapshot(snapshot_id)
        self._log.clean(self._clock.time_ms())
        self._delete_later(self._log.take_deletions())

    def _delete_later(self, paths: Sequence[str]) -> None:
        if not paths:
            return

        def delete() -> None:
            for path in paths:
                if self._disk.exists(path):
                    self._disk.remove(path)

        self._clock.call_later(self._config[INTERNAL_METADATA_DELETE_DELAY_MILLIS] / 1000, delete)

    # Snapshots fetched from the leader -------------------------------------------------------------------------------------

    def receive(self, chunk: SnapshotChunk) -> SnapshotInstalled | None:
        """Write a chunk of the leader's snapshot. After the last chunk the snapshot durably replaces the log, which restarts at its end.

        May run in any thread, as long as no other thread uses the log. Raises StorageError when the snapshot is incomplete.
        """
        path = self._log.snapshot_path(chunk.snapshot_id)
        part = path + ".part"
        if chunk.position == 0 and self._disk.exists(part):
            self._disk.remove(part)
        file = self._disk.open(part, create=True)
        try:
            file.pwritev([chunk.data], chunk.position)
            if chunk.last:
                file.fsync()
        finally:
            file.close()
        if not chunk.last:
            return None
        summary = summarize_snapshot(self._disk, part)
        self._disk.rename(part, path)
        self._disk.fsync_dir(self._log.directory)
        self._log.restart_at(chunk.snapshot_id)
        return SnapshotInstalled(chunk.snapshot_id, summary.voters, summary.kraft_version)
