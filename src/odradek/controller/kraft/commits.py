"""Committed records that are not read yet: passed to the controller and the image, a slice at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from odradek.base.errors import StorageError
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.records import SNAPSHOT_HEADER, Batch, decode_batches, snapshot_header_time
from odradek.metadata.features import METADATA_VERSION

logger = logging.getLogger(__name__)

RECORDS_A_SLICE = 2000
"""Number of records to read in one slice. A slice takes a few milliseconds; then heartbeats and clients are served."""


class Commits:
    """Reader of committed records: passes them from the log to the loader of images and, if the node has a controller, to the
    controller.
    """

    def __init__(self, log: MetadataLog, loader: MetadataLoader, controller: MetadataController | None) -> None:
        self._log = log
        self._loader = loader
        self._controller = controller
        self._high_watermark = -1
        self._reading: Iterator[bool] | None = None
        self._checked: Mapping[str, int] | None = None
        self._warned: set[str] = set()

    def advance(self, high_watermark: int) -> None:
        """Allow reading the records below `high_watermark`."""
        self._high_watermark = high_watermark
        self._log.log.update_high_watermark(high_watermark)

    def restart(self) -> None:
        """Go on reading with the snapshot that has replaced the log."""
        self._reading = None

    def read(self) -> bool:
        """Read a slice, if there is one, and return whether more remains.

        First the controller's state and the image change, then the publishers get the image, then responses go out, except those that wait
        for the publishers.

        Raises StorageError when this release does not know a record or the level of a feature.
        """
        loader = self._loader
        if self._reading is None:
            self._reading = self._slices()
        try:
            more = next(self._reading, False)
        except StorageError as error:
            level = loader.image.features.finalized.get(METADATA_VERSION)
            raise StorageError(f"{self._log.directory}: {error} (metadata.version {level})") from error
        if not more:
            self._reading = None
        if loader.caught_up or not more:
            loader.flush()
            self._check_features(loader.image.features.finalized)
        if not more and self._high_watermark >= 0:
            loader.caught_up_to(self._high_watermark)
        if self._controller is not None:
            # Commit even inside a batch: what has been read must not be undone. No response waits for an offset inside a batch.
            self._controller.commit(loader.next_offset, loader.shown_to)
        return more

    def published(self) -> None:
        """Send the responses that waited for a prepared image, which has now been published."""
        if self._controller is not None:
            self._controller.show(self._loader.shown_to)

    def _slices(self) -> Iterator[bool]:
        """Yield True after each slice but the last. A slice that ends inside a batch contains only records of that batch."""
        snapshot = self._log.latest_snapshot()
        if snapshot is not None and snapshot != BOOTSTRAP_SNAPSHOT_ID and snapshot.offset > self._loader.next_offset:
            yield from self._load_snapshot(snapshot)
        read = 0
        while self._loader.next_offset < self._high_watermark:
            start = self._loader.next_offset
            data = self._log.read(start, up_to=self._high_watermark)
            for batch in decode_batches(data, max_records=RECORDS_A_SLICE):
                if batch.base_offset < start:
                    continue
                if read + len(batch.records) > RECORDS_A_SLICE:
                    yield True
                    read = 0
                read += len(batch.records)
                self._take(batch)
            if self._loader.next_offset <= start:
                raise StorageError(f"the metadata log has no batch at offset {start}")

    def _take(self, batch: Batch) -> None:
        if self._controller is not None:
            self._controller.replay_batch(batch)
        self._loader.load_batch(batch)

    def _load_snapshot(self, snapshot_id: OffsetAndEpoch) -> Iterator[bool]:
        """Load a snapshot, which is all committed. Controller and image change after all of it has been read."""
        loader, controller = self._loader, self._controller
        delta = loader.begin_snapshot()
        state = None if controller is None else controller.begin_snapshot()
        time_ms, read = -1, 0
        for batch in self._log.read_snapshot(snapshot_id, max_records=RECORDS_A_SLICE):
            if read + len(batch.records) > RECORDS_A_SLICE:
                yield True
                read = 0
            read += len(batch.records)
            for kind, value in batch.control:
                if kind == SNAPSHOT_HEADER:
                    time_ms = snapshot_header_time(value)
            for record in batch.records:
                if state is not None:
                    state.replay(record.message, snapshot_id.offset - 1)
                loader.replay_into(delta, record.message)
        if controller is not None and state is not None:
            controller.load_snapshot(state, snapshot_id.offset)
        loader.load_snapshot(snapshot_id, delta, time_ms)

    def _check_features(self, finalized: Mapping[str, int]) -> None:
        """Log a warning once for each finalized level that is not supported."""
        if finalized is self._checked:
            return
        self._checked = finalized
        from odradek.controller.format import check_finalized

        for warning in check_finalized(finalized):
            if warning not in self._warned:
                self._warned.add(warning)
                logger.warning("%s", warning)
