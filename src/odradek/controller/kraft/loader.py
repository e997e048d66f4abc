"""From committed batches to images: builds the delta, applies it, tells the publishers (MetadataLoader, MetadataBatchLoader).

What goes wrong there, Kafka gives to its fault handlers, and so do we: a publisher that fails is named in the log and told of the next
image all the same, since the others and the quorum can go on. Only its first image it has to take, or the node does not start. A record
that the image cannot take in ends a controller; a broker leaves it out, with an error in its log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from odradek.base.deferred import Deferred
from odradek.base.telling import tell_each
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
"""Images that may wait behind one that is being prepared."""

Preparation = Callable[[MetadataDelta, MetadataImage], Deferred[None] | None]
"""What takes time and is better done, in another thread, before an image is published. The Deferred must not fail."""


class MetadataPublisher(Protocol):
    """Whoever wants to know of the cluster's state."""

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """`image` is what `delta` made of the image before. The first call comes when the node has caught up, with all in the delta."""
        ...


class MetadataLoader:
    """The image of what is committed. `publish` happens once the node has caught up with the high watermark for the first time.

    Publishers are told of each image in turn; one that has to be prepared (`before_publishing`) keeps those after it waiting, and nothing
    else: what is committed meanwhile is taken in.
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
        """`tolerant`: a record that contradicts the image is left out, with an error in the log; else its error is raised."""
        self._tolerant = tolerant
        self.image = EMPTY
        self.next_offset = 0
        """The first offset that was not taken in yet."""
        self.snapshots_loaded = 0
        self.load_errors = 0
        """Records that were left out of the image, since the start."""
        self.apply_errors = 0
        """Errors of publishers and their parts, since the start (SharedServer.metadataPublishingFaultHandler)."""
        self.ends_with_a_batch = True
        """Whether the image ends where a batch does. Within one, where a metadata transaction begins, there can be no snapshot."""
        self.leader = LeaderAndEpoch(-1, 0)
        self._publishers: list[MetadataPublisher] = []
        self._new_publishers: list[MetadataPublisher] = []
        self._unpublished: deque[tuple[MetadataDelta, MetadataImage]] = deque()
        self._published = EMPTY
        """What the publishers were told last."""
        self._preparing = False
        """Whether the first of those that are unpublished is being prepared."""
        self.before_publishing: Preparation | None = None
        self.on_image: list[Callable[[MetadataImage], object]] = []
        """Told of each new image before the publishers are."""
        self.on_published: Callable[[], object] | None = None
        """Called when an image that had to be prepared, and what waited behind it, was published."""
        self.do: Callable[[Callable[[], None]], object] = lambda work: work()
        """Does the rest of the work when an image is prepared: at once, or when its turn comes."""
        self._caught_up = False
        self._bytes_since_snapshot = 0
        self._delta: MetadataDelta | None = None
        self._mid_batch = False
        self._pending = MetadataProvenance(-1, -1, -1)
        self._transaction: MetadataDelta | None = None

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Is told everything as soon as the node has caught up, perhaps at once."""
        self._new_publishers.append(publisher)
        if self._caught_up:
            self._introduce()

    def count_apply_errors(self, count: int) -> None:
        """Count errors that a publisher has survived by itself."""
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
        """The first offset that the publishers were not told of, as far as the node has read."""
        return self._published.provenance.last_contained_offset + 1 if self._unpublished else self.next_offset

    @property
    def is_full(self) -> bool:
        """So many images wait to be published that nothing more should be taken in before `on_published`."""
        return len(self._unpublished) >= _MOST_UNPUBLISHED

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The name of a snapshot of the image."""
        return OffsetAndEpoch(self.image.provenance.last_contained_offset + 1, self.image.provenance.last_contained_epoch)

    # Loading ---------------------------------------------------------------------------------------------------------------

    def begin_snapshot(self) -> MetadataDelta:
        """Where the records of a snapshot are to be replayed into, by `replay_into`; nothing else is to be loaded before `load_snapshot`.

        What is not in the image yet is forgotten: the snapshot holds it.
        """
        self._delta = self._transaction = None
        self._mid_batch = False
        self._pending = self.image.provenance
        return MetadataDelta(self.image)

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, delta: MetadataDelta, last_contained_log_time_ms: int) -> None:
        """The image becomes what the snapshot holds; what it does not hold is gone."""
        delta.finish_snapshot()
        self._bytes_since_snapshot = 0
        self.snapshots_loaded += 1
        self.next_offset = snapshot_id.offset
        self._apply(delta, MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch, last_contained_log_time_ms))
        self.ends_with_a_batch = True

    def load_batch(self, batch: Batch) -> None:
        """Takes in a committed batch, or a slice of it; the image follows with `flush`."""
        self._bytes_since_snapshot += batch.size
        for position, record in enumerate(batch.records):
            if isinstance(record.message, BeginTransactionRecord):
                # What came before the transaction must not wait for its end.
                self._pending = MetadataProvenance(batch.base_offset + position - 1, batch.epoch, batch.append_time_ms)
                self._flush(ends_with_a_batch=position == 0 and not self._mid_batch)
            self._replay(record.message)
        self.next_offset = batch.end_offset
        self._mid_batch = not batch.complete
        if self._transaction is None and batch.complete:
            self._pending = MetadataProvenance(batch.end_offset - 1, batch.epoch, batch.append_time_ms)

    def replay_into(self, delta: MetadataDelta, message: object) -> None:
        """Replays a record; what happens to one that contradicts the image is said above."""
        try:
            delta.replay(message)
        except Exception:
            if not self._tolerant:
                raise
            self.load_errors += 1
            logger.exception("A metadata record was left out of the image: %s", message)

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
        """Makes an image of the batches taken in since the last one, and publishes it. Nothing inside a metadata transaction shows, nor
        does a part of a batch.
        """
        if not self._mid_batch:
            self._flush(ends_with_a_batch=True)

    def _flush(self, *, ends_with_a_batch: bool) -> None:
        if self._pending.last_contained_offset <= self.image.provenance.last_contained_offset:
            return
        self.ends_with_a_batch = ends_with_a_batch
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
        self.apply_errors += tell_each(self.on_image, image)
        self._unpublished.append((delta, image))
        if not self._preparing:
            self._publish_all()

    def _publish_all(self) -> None:
        """Up to the first image that is not prepared at once."""
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
                logger.exception("%s could not take over the metadata up to offset %d", name, offset)

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
