"""What is committed and not read yet goes to the controller and into the image."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.metadata_log import MetadataLog, next_offset_after
from odradek.controller.kraft.records import decode_batches

logger = logging.getLogger(__name__)


class Commits:
    """Between the log and those who follow it: the loader of images and, on a node that has one, the controller."""

    def __init__(self, log: MetadataLog, loader: MetadataLoader, controller: MetadataController | None) -> None:
        self._log = log
        self._loader = loader
        self._controller = controller
        self._checked: Mapping[str, int] | None = None
        self._warned: set[str] = set()

    def load_latest_snapshot(self) -> None:
        """Everything in a snapshot is committed. The bootstrap one holds no metadata."""
        latest = self._log.latest_snapshot()
        if latest is None or latest == BOOTSTRAP_SNAPSHOT_ID:
            return
        contents = self._log.read_snapshot(latest)
        if self._controller is not None:
            self._controller.load_snapshot(list(contents.records()), latest.offset)
        self._loader.load_snapshot(latest, contents)

    def advance(self, high_watermark: int) -> None:
        """Reads on up to `high_watermark`: the controller's state and the image follow, publishers are told, then replies go out.

        StorageError when a feature was finalized at a level that nobody here knows.
        """
        self._log.log.update_high_watermark(high_watermark)
        offset = self._loader.next_offset
        while offset < high_watermark:
            data = self._log.read(offset, up_to=high_watermark)
            for batch in decode_batches(data):
                if batch.base_offset < offset:
                    continue
                if self._controller is not None:
                    self._controller.replay_batch(batch)
                self._loader.load_batch(batch)
            offset = next_offset_after(data, offset)
        self._loader.flush()
        self._check_features(self._loader.image.features.finalized)
        self._loader.caught_up_to(high_watermark)
        if self._controller is not None:
            self._controller.commit(high_watermark)

    def _check_features(self, finalized: Mapping[str, int]) -> None:
        """Warns once of each finalized level that is not served."""
        if finalized is self._checked:
            return
        self._checked = finalized
        from odradek.controller.format import check_finalized

        for warning in check_finalized(finalized):
            if warning not in self._warned:
                self._warned.add(warning)
                logger.warning("%s", warning)
