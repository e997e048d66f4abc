"""From committed batches to images: builds the delta, applies it, tells the publishers (MetadataLoader, MetadataBatchLoader)."""

from __future__ import annotations

import logging
from typing import Protocol

from odradek.consensus.messages import LeaderAndEpoch
from odradek.consensus.voters import OffsetAndEpoch
from odradek.controller.kraft.records import Batch
from odradek.controller.kraft.snapshots import SnapshotContents
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

logger = logging.getLogger(__name__)


class MetadataPublisher(Protocol):
    """Whoever wants to know of the cluster's state."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """`image` is what `delta` made of the image before. The first call comes when the node has caught up, with all in the delta."""
        ...


class MetadataLoader:
    """The image of what is committed. `publish` happens once the node has caught up with the high watermark for the first time."""

    __slots__ = (
        "_bytes_since_snapshot",
        "_caught_up",
        "_delta",
        "_new_publishers",
        "_pending",
        "_publishers",
        "_transaction",
        "image",
        "leader",
        "next_offset",
    )

    def __init__(self) -> None:
        self.image = EMPTY
        self.next_offset = 0
        """The first offset not in the image yet."""
        self.leader = LeaderAndEpoch(-1, 0)
        self._publishers: list[MetadataPublisher] = []
        self._new_publishers: list[MetadataPublisher] = []
        self._caught_up = False
        self._bytes_since_snapshot = 0
        self._delta: MetadataDelta | None = None
        self._pending = MetadataProvenance(-1, -1, -1)
        self._transaction: MetadataDelta | None = None

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Is told everything as soon as the node has caught up, perhaps at once."""
        self._new_publishers.append(publisher)
        if self._caught_up:
            self._introduce()

    def remove_publisher(self, publisher: MetadataPublisher) -> None:
        self._publishers = [each for each in self._publishers if each is not publisher]
        self._new_publishers = [each for each in self._new_publishers if each is not publisher]

    @property
    def caught_up(self) -> bool:
        return self._caught_up

    @property
    def publishers(self) -> tuple[MetadataPublisher, ...]:
        return (*self._publishers, *self._new_publishers)

    @property
    def bytes_since_snapshot(self) -> int:
        return self._bytes_since_snapshot

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The name of a snapshot of the image."""
        return OffsetAndEpoch(self.image.provenance.last_contained_offset + 1, self.image.provenance.last_contained_epoch)

    # Loading ---------------------------------------------------------------------------------------------------------------

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, contents: SnapshotContents) -> None:
        """The image becomes what the snapshot holds; what it does not hold is gone."""
        delta = MetadataDelta(self.image)
        for record in contents.records():
            delta.replay(record.message)
        delta.finish_snapshot()
        self._delta = self._transaction = None
        self._bytes_since_snapshot = 0
        self.next_offset = snapshot_id.offset
        provenance = MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch, contents.last_contained_log_time_ms)
        self._apply(delta, provenance)

    def load_batch(self, batch: Batch) -> None:
        """Takes in one committed batch; the image follows with `flush`."""
        self._bytes_since_snapshot += batch.size
        for position, record in enumerate(batch.records):
            if isinstance(record.message, BeginTransactionRecord):
                # What came before the transaction must not wait for its end.
                self._pending = MetadataProvenance(batch.base_offset + position - 1, batch.epoch, batch.append_time_ms)
                self.flush()
            self._replay(record.message)
        self.next_offset = batch.end_offset
        if self._transaction is None:
            self._pending = MetadataProvenance(batch.end_offset - 1, batch.epoch, batch.append_time_ms)

    def _replay(self, message: object) -> None:
        if isinstance(message, NoOpRecord):
            return
        if isinstance(message, BeginTransactionRecord):
            self._transaction = MetadataDelta(self.image)
        elif isinstance(message, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(message, EndTransactionRecord):
            self._delta, self._transaction = self._transaction, None
        elif self._transaction is not None:
            self._transaction.replay(message)
        else:
            if self._delta is None:
                self._delta = MetadataDelta(self.image)
            self._delta.replay(message)

    def flush(self) -> None:
        """Makes an image of the batches taken in since the last one, and publishes it. Nothing inside a metadata transaction shows."""
        if self._pending.last_contained_offset <= self.image.provenance.last_contained_offset:
            return
        delta, self._delta = self._delta, None
        if delta is None:
            # Only no-ops and control records: the state is the same, seen later.
            image = self.image._replace(provenance=self._pending)
            self._publish(MetadataDelta(self.image), image)
        else:
            self._apply(delta, self._pending)

    def _apply(self, delta: MetadataDelta, provenance: MetadataProvenance) -> None:
        self._pending = provenance
        self._publish(delta, delta.apply(provenance))

    def caught_up_to(self, high_watermark: int) -> None:
        """The high watermark is known: once everything below it is in the image, publishing begins."""
        if not self._caught_up and self.next_offset >= high_watermark:
            self._caught_up = True
            self._introduce()

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publisher in list(self._publishers):
            publisher.publish(delta, image, self.leader)

    def _introduce(self) -> None:
        publishers, self._new_publishers = self._new_publishers, []
        if not publishers:
            return
        delta = MetadataDelta(EMPTY)
        for record in self.image.to_records():
            delta.replay(record.message)
        for publisher in publishers:
            self._publishers.append(publisher)
            publisher.publish(delta, self.image, self.leader)

    def snapshot_written(self) -> None:
        self._bytes_since_snapshot = 0
