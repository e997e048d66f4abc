"""Transaction coordinator of a broker: it commits decisions, and then has the markers written.

A producer gets its response as soon as the decision is committed. The markers follow, and then the record that completes the transaction.
Until then requests for the same transactional id fail with CONCURRENT_TRANSACTIONS, which clients retry.

(kafka.coordinator.transaction.TransactionCoordinator)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.shard import CoordinatorLog, CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.coordinator.transaction.markers import MarkerSender
from odradek.coordinator.transaction.records import SERDE
from odradek.coordinator.transaction.shard import Decision, TransactionShard
from odradek.coordinator.transaction.state import NEVER_MS, ProducerIdNeededError, Transaction, supports_epoch_bump

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOPIC = "__transaction_state"


class ProducerIds(Protocol):
    """Source of new producer ids."""

    def next_id(self) -> Deferred[int]: ...


class TransactionSettings:
    """Values of transaction.max.timeout.ms, transactional.id.expiration.ms and transaction.two.phase.commit.enable."""

    __slots__ = ("expiration_ms", "max_timeout_ms", "two_phase_commit")

    def __init__(self, *, max_timeout_ms: int, expiration_ms: int, two_phase_commit: bool) -> None:
        self.max_timeout_ms = max_timeout_ms
        self.expiration_ms = expiration_ms
        self.two_phase_commit = two_phase_commit


class TransactionCoordinator:
    """Transaction coordinator. Call all methods on the event loop.

    Failures are KafkaErrors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and the errors of `state`.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        options: RuntimeOptions,
        settings: TransactionSettings,
        producer_ids: ProducerIds,
        markers: MarkerSender,
        open_log: Callable[[TopicPartition], CoordinatorLog],
        image: Callable[[], MetadataImage],
        server_version: Callable[[], int],
        partition_of: Callable[[str], int],
    ) -> None:
        """`server_version` returns the finalized transaction.version; `partition_of` maps a transactional id to a partition number."""
        self._clock = clock
        self._settings = settings
        self._producer_ids = producer_ids
        self._markers = markers
        self._server_version = server_version
        self._partition_of = partition_of
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            "transaction coordinator",
            clock=clock,
            serde=SERDE,
            options=options,
            open_log=open_log,
            new_shard=self._new_shard,
            image=image,
        )

    def _new_shard(self, topic_partition: TopicPartition, journal: UndoJournal, _: Timers) -> TransactionShard:
        return TransactionShard(
            topic_partition,
            journal,
            now_ms=self._clock.time_ms,
            server_version=self._server_version,
            on_prepared=self._write_markers,
            on_unloaded=self._markers.forget,
        )

    # -- metadata and shutdown ---------------------------------------------------------------------------------------------------

    @property
    def unknown_destinations(self) -> int:
        """Return the number of waiting entries for partitions without a leader, or with markers to be sent again."""
        return self._markers.without_leader

    @property
    def unfinished_markers(self) -> int:
        """Return the number of ended transactions without all markers."""
        return len(self._markers)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a new cluster image."""
        self.runtime.publish(delta, image)

    def close(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR. The next coordinator continues from the log."""
        self.runtime.close()

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def initialize(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None, *, two_phase: bool, keep_prepared: bool
    ) -> Deferred[Transaction]:
        """Initialize a producer with a transactional id (InitProducerId). The result's `owner` is the producer's id and epoch.

        With `keep_prepared` an ongoing transaction is kept for the new producer to end, and the result is that transaction.
        """
        try:
            if transactional_id == "":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
            if two_phase and not self._settings.two_phase_commit:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is disabled (transaction.two.phase.commit.enable)"
                )
            if keep_prepared and not supports_epoch_bump(self._server_version()):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "keeping a prepared transaction needs transaction.version 2")
            if not two_phase and not 0 < timeout_ms <= self._settings.max_timeout_ms:
                raise KafkaError(
                    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                    f"the transaction timeout must be between 1 and {self._settings.max_timeout_ms} ms, not {timeout_ms}",
                )
        except KafkaError as error:
            return Deferred.failed(error)
        resolved_ms = NEVER_MS if two_phase else timeout_ms
        decided = self._decide(
            transactional_id,
            lambda shard, new_id: shard.initialize(transactional_id, resolved_ms, expected, new_id, keep_prepared=keep_prepared),
        )
        return decided.then(_initialized)

    def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, added: Iterable[TopicPartition], client_version: int
    ) -> Deferred[None]:
        """Add partitions to a transaction: for AddPartitionsToTxn, and for AddOffsetsToTxn with the partition of the group's offsets."""
        partitions = frozenset(added)

        def add(shard: TransactionShard, _: int | None) -> CoordinatorResult[None]:
            return _answered(shard.add_partitions(transactional_id, producer_id, producer_epoch, partitions, client_version), None)

        return self._decide(transactional_id, add)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the producer's transaction. Raises KafkaError for an unknown or fenced producer."""
        if transactional_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self.runtime.read(
            self._topic_partition_of(transactional_id),
            lambda shard: shard.verify(transactional_id, producer_id, producer_epoch, partitions),
        )

    def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int
    ) -> Deferred[tuple[int, int]]:
        """End a transaction (EndTxn); the result is the producer id and epoch for the next one."""

        def end(shard: TransactionShard, new_id: int | None) -> CoordinatorResult[tuple[int, int]]:
            decided = shard.end(
                transactional_id, producer_id, producer_epoch, commit=commit, client_version=client_version, new_producer_id=new_id
            )
            return _answered(decided, decided.response.transaction.owner)

        return self._decide(transactional_id, end)

    def describe(self, transactional_id: str) -> Transaction:
        """Return the committed state (DescribeTransactions). Raises KafkaError with TRANSACTIONAL_ID_NOT_FOUND."""
        if transactional_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self.runtime.read(self._topic_partition_of(transactional_id), lambda shard: shard.describe(transactional_id))

    def all(self) -> list[Transaction]:
        """Return the committed transactions of all partitions that this broker coordinates (ListTransactions).

        Raises KafkaError with COORDINATOR_LOAD_IN_PROGRESS.
        """
        return [transaction for found in self.runtime.read_all(lambda shard: list(shard.committed())) for transaction in found]

    # -- periodic work -----------------------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort transactions that timed out; called every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
        for transactional_ids in self.runtime.each_active(lambda shard: shard.timed_out()):
            for transactional_id in transactional_ids:
                self._abort(transactional_id)

    def _abort(self, transactional_id: str) -> None:
        def aborted(done: Deferred[Decision | None]) -> None:
            if done.error is not None:
                logger.warning("the transaction of %r, which timed out, could not be aborted: %s", transactional_id, done.error)
            elif done.result() is not None:
                logger.info("the transaction of %r timed out and is aborted", transactional_id)

        self._decide(transactional_id, lambda shard, new_id: shard.abort_timed_out(transactional_id, new_id)).add_callback(aborted)

    def remove_expired(self) -> None:
        """Remove expired transactional ids; called every transaction.remove.expired.transaction.cleanup.interval.ms."""
        self.runtime.write_all(lambda shard: shard.remove_expired(self._settings.expiration_ms))

    # -- decisions and markers -----------------------------------------------------------------------------------------------------

    def _topic_partition_of(self, transactional_id: str) -> TopicPartition:
        return TopicPartition(TOPIC, self._partition_of(transactional_id))

    def _decide(self, transactional_id: str, operation: Callable[[TransactionShard, int | None], CoordinatorResult[T]]) -> Deferred[T]:
        """Run the operation; when it needs a new producer id, get one and run the operation again."""
        if transactional_id == "":
            return Deferred.failed(KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty"))
        partition = self._topic_partition_of(transactional_id)
        try:
            return self.runtime.write(partition, lambda shard: operation(shard, None))
        except ProducerIdNeededError:
            return self._decide_with_new_id(partition, operation)

    def _decide_with_new_id(
        self, partition: TopicPartition, operation: Callable[[TransactionShard, int | None], CoordinatorResult[T]]
    ) -> Deferred[T]:
        result: Deferred[T] = Deferred()

        def given(new_id: Deferred[int]) -> None:
            if new_id.error is not None:
                result.fail(new_id.error)
            else:
                self.runtime.write(partition, lambda shard: operation(shard, new_id.result())).into(result)

        self._producer_ids.next_id().add_callback(given)
        return result

    def _write_markers(self, partition: TopicPartition, prepared: Transaction) -> None:
        epoch = self.runtime.leader_epoch(partition)
        if epoch is None:
            return

        def written(done: Deferred[bool]) -> None:
            if done.error is None and done.result():
                self._complete(partition, epoch, prepared)

        self._markers.start(partition, epoch, prepared).add_callback(written)

    def _complete(self, partition: TopicPartition, epoch: int, prepared: Transaction) -> None:
        if self.runtime.leader_epoch(partition) != epoch:
            return

        def completed(done: Deferred[Transaction | None]) -> None:
            if done.error is not None:
                # Without this record the transactional id stays blocked, so retry after any error of the log.
                self._clock.call_later(_RETRY_S, self._complete, partition, epoch, prepared)

        self.runtime.write(partition, lambda shard: shard.complete(prepared)).add_callback(completed)


_RETRY_S = 0.5


def _initialized(decision: Decision) -> Transaction:
    if decision.error is not ErrorCode.NONE:
        raise KafkaError(decision.error, "an unfinished transaction is being aborted first")
    return decision.transaction


def _answered(decided: CoordinatorResult[Any], response: T) -> CoordinatorResult[T]:
    """Return the decision with another response."""
    decided.response = response
    return decided
