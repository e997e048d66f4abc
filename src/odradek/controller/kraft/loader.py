"""Metadata loader: builds deltas and images from committed batches and passes them to publishers (MetadataLoader, MetadataBatchLoader).

Errors that Kafka passes to its fault handlers are treated likewise. A publisher that fails is named in the log and still gets the next
image, because the other publishers and the quorum can go on. Only the first image must succeed, or the node does not start. A record that
contradicts the image ends a controller; a broker skips the record and logs an error.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from odradek.base.deferred import Deferred
from odradek.base.notify import tell_each
from odradek.consensus.messages import LeaderAndEpoch
from odradek.consensus.voters import OffsetAndEpoch
from odradek.controller.kraft.records import Batch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)

logger = logging.getLogger(__name__)

_MOST_UNPUBLISHED = 1000
"""Number of images that may wait behind one that is being prepared."""

Preparation = Callable[[MetadataDelta, MetadataImage], Deferred[None] | None]
"""Function that starts slow work in another thread before an image is published; None without such work. The Deferred must not fail."""


class MetadataPublisher(Protocol):
    """Receiver of new images of the cluster."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """Apply `image`, which is the former image plus `delta`.

        The first call comes once the node has caught up; its delta has everything.
        """
        ...


class MetadataLoader:
    """Image of the committed metadata. Publishing starts once the node has caught up with the high watermark for the first time.

    Publishers get the images in order. While `before_publishing` prepares an image, later images wait; committed batches are still read.
    """

    __slots__ = (
        "_bytes_since_snapshot",
        "_caught_up",
        "_delta",
        "_mid_batch",
        "_new_publishers",
        "_pending",
        "_preparing",
        "_published",
        "_publishers",
        "_tolerant",
        "_transaction",
        "_unpublished",
        "apply_errors",
        "before_publishing",
        "do",
        "ends_with_a_batch",
        "image",
        "leader",
        "load_errors",
        "next_offset",
        "on_image",
        "on_published",
        "snapshots_loaded",
    )

    def __init__(self, *, tolerant: bool = False) -> None:
        """Create a loader. With `tolerant` a record that contradicts the image is skipped and logged; otherwise its error is raised."""
        self._tolerant = tolerant
        self.image = EMPTY
        self.next_offset = 0
        """First offset that has not been read yet."""
        self.snapshots_loaded = 0
        self.load_errors = 0
        """Number of records left out of the image since the start."""
        self.apply_errors = 0
        """Number of errors of publishers and their parts since the start (SharedServer.metadataPublishingFaultHandler)."""
        self.ends_with_a_batch = True
        """Whether the image ends at the end of a batch. No snapshot is possible inside a batch, where a metadata transaction may begin."""
        self.leader = LeaderAndEpoch(-1, 0)
        self._publishers: list[MetadataPublisher] = []
        self._new_publishers: list[MetadataPublisher] = []
        self._unpublished: deque[tuple[MetadataDelta, MetadataImage]] = deque()
        self._published = EMPTY
        """Image that the publishers got last."""
        self._preparing = False
        """Whether the first unpublished image is being prepared."""
        self.before_publishing: Preparation | None = None
        self.on_image: list[Callable[[MetadataImage], object]] = []
        """Callbacks for each new image, called before it is published."""
        self.on_published: Callable[[], object] | None = None
        """Callback after an image that had to be prepared, and the images waiting behind it, were published."""
        self.do: Callable[[Callable[[], None]], object] = lambda work: work()
        """Runner of the work that follows a preparation: at once by default, through the node's queue when set."""
        self._caught_up = False
        self._bytes_since_snapshot = 0
        self._delta: MetadataDelta | None = None
        self._mid_batch = False
        self._pending = MetadataProvenance(-1, -1, -1)
        self._transaction: MetadataDelta | None = None

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Add a publisher. The publisher gets the whole image as soon as the node has caught up."""
        self._new_publishers.append(publisher)
        if self._caught_up:
            self._introduce()

    def count_apply_errors(self, count: int) -> None:
        """Add errors that a publisher has handled itself to `apply_errors`."""
        self.apply_errors += count

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
    def shown_to(self) -> int:
        """First offset that the publishers do not have yet; at most the first offset that the node has not read."""
        return self._published.provenance.last_contained_offset + 1 if self._unpublished else self.next_offset

    @property
    def is_full(self) -> bool:
        """Return whether too many images wait to be published. No further batch should then be read before `on_published` is called."""
        return len(self._unpublished) >= _MOST_UNPUBLISHED

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Id of a snapshot of the image."""
        return OffsetAndEpoch(self.image.provenance.last_contained_offset + 1, self.image.provenance.last_contained_epoch)

    # Loading ---------------------------------------------------------------------------------------------------------------

    def begin_snapshot(self) -> MetadataDelta:
        """Return the delta to replay a snapshot into by `replay_into`. No other record may be loaded before `load_snapshot`.

        Records that are not in the image yet are dropped, because the snapshot contains them.
        """
        self._delta = self._transaction = None
        self._mid_batch = False
        self._pending = self.image.provenance
        return MetadataDelta(self.image)

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, delta: MetadataDelta, last_contained_log_time_ms: int) -> None:
        """Replace the image by the content of the snapshot. Everything that the snapshot does not contain is removed."""
        delta.finish_snapshot()
        self._bytes_since_snapshot = 0
        self.snapshots_loaded += 1
        self.next_offset = snapshot_id.offset
        self._apply(delta, MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch, last_contained_log_time_ms))
        self.ends_with_a_batch = True

    def load_batch(self, batch: Batch) -> None:
        """Read a committed batch, or a slice of one. `flush` then builds the image."""
        self._bytes_since_snapshot += batch.size
        for position, record in enumerate(batch.records):
            if isinstance(record.message, BeginTransactionRecord):
                # Records before the transaction must not wait for its end.
                self._pending = MetadataProvenance(batch.base_offset + position - 1, batch.epoch, batch.append_time_ms)
                self._flush(ends_with_a_batch=position == 0 and not self._mid_batch)
            self._replay(record.message)
        self.next_offset = batch.end_offset
        self._mid_batch = not batch.complete
        if self._transaction is None and batch.complete:
            self._pending = MetadataProvenance(batch.end_offset - 1, batch.epoch, batch.append_time_ms)

    def replay_into(self, delta: MetadataDelta, message: object) -> None:
        """Replay a record. A tolerant loader skips and counts a record that contradicts the image; others raise its error."""
        try:
            delta.replay(message)
        except Exception:
            if not self._tolerant:
                raise
            self.load_errors += 1
            logger.exception("A metadata record was not applied: %s", message)

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
            self.replay_into(self._transaction, message)
        else:
            if self._delta is None:
                self._delta = MetadataDelta(self.image)
            self.replay_into(self._delta, message)

    def flush(self) -> None:
        """Build an image from the batches read since the last one, and publish it.

        Open metadata transactions and parts of batches stay hidden.
        """
        if not self._mid_batch:
            self._flush(ends_with_a_batch=True)

    def _flush(self, *, ends_with_a_batch: bool) -> None:
        if self._pending.last_contained_offset <= self.image.provenance.last_contained_offset:
            return
        self.ends_with_a_batch = ends_with_a_batch
        delta, self._delta = self._delta, None
        if delta is None:
            # Only no-ops and control records: the state is the same at a later offset.
            image = self.image._replace(provenance=self._pending)
            self._publish(MetadataDelta(self.image), image)
        else:
            self._apply(delta, self._pending)

    def _apply(self, delta: MetadataDelta, provenance: MetadataProvenance) -> None:
        self._pending = provenance
        self._publish(delta, delta.apply(provenance))

    def caught_up_to(self, high_watermark: int) -> None:
        """Start publishing once everything below the known high watermark is in the image."""
        if not self._caught_up and self.next_offset >= high_watermark:
            self._caught_up = True
            self._introduce()

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        self.apply_errors += tell_each(self.on_image, image)
        self._unpublished.append((delta, image))
        if not self._preparing:
            self._publish_all()

    def _publish_all(self) -> None:
        """Publish the waiting images up to the first one whose preparation takes time."""
        while self._unpublished:
            prepared = self._prepare(*self._unpublished[0])
            if prepared is not None and not prepared.done:
                self._preparing = True
                prepared.add_callback(lambda _: self.do(self._prepared))
                return
            self._tell(*self._unpublished.popleft())

    def _prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        if self.before_publishing is None:
            return None
        try:
            return self.before_publishing(delta, image)
        except Exception:
            self.apply_errors += 1
            logger.exception("the metadata up to offset %d could not be prepared", image.provenance.last_contained_offset)
            return None

    def _prepared(self) -> None:
        self._preparing = False
        self._tell(*self._unpublished.popleft())
        self._publish_all()
        if self.on_published is not None:
            self.on_published()

    def _tell(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._published = image
        for publisher in list(self._publishers):
            try:
                publisher.publish(delta, image, self.leader)
            except Exception:
                self.apply_errors += 1
                name, offset = type(publisher).__name__, image.provenance.last_contained_offset
                logger.exception("%s could not apply the metadata up to offset %d", name, offset)

    def _introduce(self) -> None:
        publishers, self._new_publishers = self._new_publishers, []
        if not publishers:
            return
        delta = MetadataDelta(EMPTY)
        image = self._published
        for record in image.to_records():
            delta.replay(record.message)
        for publisher in publishers:
            self._publishers.append(publisher)
            publisher.publish(delta, image, self.leader)

    def snapshot_written(self) -> None:
        self._bytes_since_snapshot = 0
