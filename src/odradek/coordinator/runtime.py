"""Shards of one coordinator on this broker, which are loaded and unloaded with the leadership of their partitions.

(org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal
from odradek.coordinator.context import RuntimeOptions, ShardContext, ShardState
from odradek.coordinator.loading import Loader, LoadQueue
from odradek.coordinator.records import RecordSerde
from odradek.coordinator.shard import CoordinatorLog, CoordinatorResult, CoordinatorShard
from odradek.coordinator.timers import Timers
from odradek.metrics.histogram import Histogram

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


class CoordinatorRuntime(Generic[S]):
    """Runtime of one coordinator (groups or transactions). Call all methods on the event loop.

    `open_log` opens the log of a partition that this broker leads, and raises KafkaError for another partition. `new_shard` returns an
    empty shard.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        serde: RecordSerde,
        options: RuntimeOptions,
        open_log: Callable[[TopicPartition], CoordinatorLog],
        new_shard: Callable[[TopicPartition, UndoJournal, Timers], S],
        image: Callable[[], MetadataImage],
    ) -> None:
        self.name = name
        self._clock = clock
        self._serde = serde
        self._options = options
        self._open_log = open_log
        self._new_shard = new_shard
        self._image = image
        self._contexts: dict[TopicPartition, ShardContext[S]] = {}
        self._loaders: dict[TopicPartition, Loader] = {}
        self._queue = LoadQueue(clock, options.loads_at_once)
        self._closed = False
        self.load_times_ms = Histogram()
        """Milliseconds that loads took."""

    # -- leadership --------------------------------------------------------------------------------------------------------------

    def load(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """Load the partition that this broker leads in this epoch. Repeated calls for the same epoch have no effect.

        A leader that goes on in a later epoch keeps its loaded state, because only this broker has changed the log.
        """
        current = self._contexts.get(topic_partition)
        if self._closed:
            return
        if current is not None:
            failed = current.state is ShardState.FAILED
            if not failed and (current.leader_epoch >= leader_epoch or current.continue_leading(leader_epoch)):
                return
            self._drop(current)
        self._load(topic_partition, leader_epoch)

    def _load(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        try:
            log = self._open_log(topic_partition)
        except KafkaError as error:
            logger.error("%s: %s cannot be loaded: %s", self.name, topic_partition, error)
            return
        context = ShardContext(topic_partition, leader_epoch, log, self._clock, self._serde, self._options, self._new_shard)
        self._contexts[topic_partition] = context
        started = self._clock.monotonic()
        loader = Loader(context, self._queue, self._clock, self._serde, self._options, lambda error: self._loaded(context, error, started))
        self._loaders[topic_partition] = loader
        loader.start()

    def _loaded(self, context: ShardContext[S], error: BaseException | None, started: float) -> None:
        topic_partition = context.topic_partition
        loader = self._loaders.pop(topic_partition)
        if error is not None:
            logger.error("%s: loading %s failed", self.name, topic_partition, exc_info=error)
            context.state = ShardState.FAILED
            return
        now = self._clock.monotonic()
        milliseconds = (now - started) * 1000
        self.load_times_ms.record(milliseconds, now)
        if loader.loaded_records:
            logger.info("%s: loaded %d records of %s in %.0f ms", self.name, loader.loaded_records, topic_partition, milliseconds)
        try:
            context.loaded(
                on_active=lambda: context.shard.on_loaded(self._image()),
                on_lost=lambda: self.unload(topic_partition, None),
                on_diverged=lambda: self._load_again(context),
            )
        except KafkaError as lost:
            logger.warning("%s: the leadership of %s was lost while it was loading: %s", self.name, topic_partition, lost)
            context.state = ShardState.FAILED

    def _load_again(self, context: ShardContext[S]) -> None:
        """Load the shard again after another writer has appended to the partition."""
        if self._contexts.get(context.topic_partition) is not context:
            return
        logger.error("%s: the state of %s does not match its log any more, and is loaded again", self.name, context.topic_partition)
        self._drop(context)
        self._load(context.topic_partition, context.leader_epoch)

    def unload(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """Unload the partition in an epoch before `leader_epoch`, or in any epoch (None). All uncommitted operations fail."""
        context = self._contexts.get(topic_partition)
        if context is not None and (leader_epoch is None or context.leader_epoch < leader_epoch):
            self._drop(context)

    def _drop(self, context: ShardContext[S]) -> None:
        del self._contexts[context.topic_partition]
        loader = self._loaders.pop(context.topic_partition, None)
        if loader is not None:
            loader.stop()
        context.close(_not_coordinator(context.topic_partition))

    def close(self) -> None:
        """Unload all partitions. Later requests fail with NOT_COORDINATOR."""
        self._closed = True
        for context in list(self._contexts.values()):
            self._drop(context)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Notify the active shards of a new image."""
        for context in self._active():
            context.shard.on_metadata(delta, image)

    def leader_epoch(self, topic_partition: TopicPartition) -> int | None:
        """Return the epoch in which this broker coordinates the partition; None when it does not."""
        context = self._contexts.get(topic_partition)
        return None if context is None or context.state is not ShardState.ACTIVE else context.leader_epoch

    # -- operations --------------------------------------------------------------------------------------------------------------

    def find(self, topic_partition: TopicPartition) -> ShardContext[S] | None:
        """Return the shard of the partition with its log and its waiting requests, in any state; None for an unknown partition."""
        return self._contexts.get(topic_partition)

    def __iter__(self) -> Iterator[ShardContext[S]]:
        return iter(list(self._contexts.values()))

    def states(self) -> list[str]:
        """Return the state of each partition: "loading", "active" or "failed"."""
        words = {ShardState.LOADED: "loading", ShardState.LOADING: "loading", ShardState.ACTIVE: "active", ShardState.FAILED: "failed"}
        return [words[context.state] for context in self if context.state in words]

    def _active(self) -> Iterator[ShardContext[S]]:
        return iter([context for _, context in sorted(self._contexts.items()) if context.state is ShardState.ACTIVE])

    def _context(self, topic_partition: TopicPartition) -> ShardContext[S]:
        context = self._contexts.get(topic_partition)
        if context is None or context.state is ShardState.CLOSED or context.state is ShardState.FAILED:
            raise _not_coordinator(topic_partition)
        if context.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{topic_partition} is still being loaded")
        return context

    def write(
        self, topic_partition: TopicPartition, operation: Callable[[S], CoordinatorResult[T]], reply: Deferred[T] | None = None
    ) -> Deferred[T]:
        """Run an operation; the response completes when its records are committed. `reply` is used as the response if given.

        The response fails with NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (not replicated in time), or with
        the operation's error.
        """
        reply = Deferred() if reply is None else reply
        try:
            context = self._context(topic_partition)
        except KafkaError as error:
            reply.fail(error)
            return reply
        return context.write(operation, reply)

    def write_transactional(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        guard: object | None,
        operation: Callable[[S], CoordinatorResult[T]],
    ) -> Deferred[T]:
        """Run an operation as `write` does, as part of a transaction that was verified with `guard`."""
        try:
            context = self._context(topic_partition)
        except KafkaError as error:
            return Deferred.failed(error)
        return context.write_transactional(producer_id, producer_epoch, guard, operation)

    def end_transaction(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        committed: bool,
        version: int,
    ) -> Deferred[None]:
        """Append and replay a transaction's marker."""
        try:
            context = self._context(topic_partition)
        except KafkaError as error:
            return Deferred.failed(error)
        return context.end_transaction(producer_id, producer_epoch, coordinator_epoch, committed=committed, version=version)

    def write_all(self, operation: Callable[[S], CoordinatorResult[T]]) -> list[Deferred[T]]:
        """Run an operation on each active shard, for periodic work."""
        return [context.write(operation) for context in self._active()]

    def read(self, topic_partition: TopicPartition, operation: Callable[[S], T]) -> T:
        """Return the result of an operation on *committed* state only (`VersionedDict.committed`). Raises KafkaError like `write`."""
        return operation(self._context(topic_partition).shard)

    def each_active(self, operation: Callable[[S], T]) -> list[T]:
        """Run an operation on each active shard as `read_all` does, and skip partitions that are still being loaded."""
        return [operation(context.shard) for context in self._active()]

    def read_all(self, operation: Callable[[S], T]) -> list[T]:
        """Run a read on each active shard. Raises KafkaError with COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded."""
        loading = [context for context in self._contexts.values() if context.state in (ShardState.LOADING, ShardState.LOADED)]
        if loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{len(loading)} partition(s) are still being loaded")
        return [operation(context.shard) for context in self._active()]


def _not_coordinator(topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate {topic_partition}")
