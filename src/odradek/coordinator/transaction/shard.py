"""Transactional ids of one partition of `__transaction_state`: decisions and replay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.undo import UndoJournal, VersionedDict
from odradek.coordinator.records import CoordinatorRecord, EncodedRecords
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.transaction import state as step
from odradek.coordinator.transaction import two_phase
from odradek.coordinator.transaction.records import encoded_transaction, tombstone, transaction_of
from odradek.coordinator.transaction.state import NEVER_MS, PREPARED, ProducerIdNeededError, Transaction, TransactionState
from odradek.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage


class Decision(NamedTuple):
    """Transaction after an operation, and the error that its producer gets when the operation is committed."""

    transaction: Transaction
    error: ErrorCode = ErrorCode.NONE


class TransactionShard:
    """Transactions of one partition.

    Operations raise KafkaError when the producer has to be refused, and ProducerIdNeededError when they need a new producer id.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        journal: UndoJournal,
        *,
        now_ms: Callable[[], int],
        server_version: Callable[[], int],
        on_prepared: Callable[[TopicPartition, Transaction], object],
        on_unloaded: Callable[[TopicPartition], object],
    ) -> None:
        """`server_version` returns the finalized transaction.version.

        `on_prepared` is called for each transaction with a committed decision, whose markers are due. The calls come after the commit,
        after a load, and in a new leader epoch. `on_unloaded` is called when this broker does not coordinate the partition any more.
        """
        self.topic_partition = topic_partition
        self.transactions: VersionedDict[str, Transaction] = VersionedDict(journal)
        self._journal = journal
        self._now_ms = now_ms
        self._server_version = server_version
        self._on_prepared = on_prepared
        self._on_unloaded = on_unloaded

    # -- replay ------------------------------------------------------------------------------------------------------------------

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        """See `CoordinatorShard`."""
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id)
            return
        assert isinstance(value, TransactionLogValue)
        self._put(offset, transaction_of(key.transactional_id, value))

    def _put(self, offset: int, transaction: Transaction) -> None:
        self.transactions[transaction.transactional_id] = transaction
        if transaction.state in PREPARED:
            # The markers depend on the commit, not on the response, which may have failed with a timeout long ago.
            self._journal.record(offset, _nothing, self._on_prepared, self.topic_partition, transaction)

    def replay_end_transaction(self, offset: int, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Do nothing: this topic has no transactional records."""

    def on_loaded(self, image: MetadataImage) -> None:
        """Start writing the markers of decided transactions."""
        self._prepare_markers()

    def _prepare_markers(self) -> None:
        for transactional_id, transaction in list(self.transactions.committed_items()):
            # A transaction with a pending completion has all of its markers. These are not written again, because the next transaction may
            # have begun.
            if transaction.state in PREPARED and self.transactions.get(transactional_id) is transaction:
                self._on_prepared(self.topic_partition, transaction)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Do nothing: transactions do not depend on the metadata."""

    def on_new_epoch(self) -> None:
        """Send the markers under way again with the new coordinator epoch. Transactions that are not committed yet use it anyway."""
        self._prepare_markers()

    def on_unloaded(self) -> None:
        """Stop writing markers; the next coordinator writes them."""
        self._on_unloaded(self.topic_partition)

    # -- operations --------------------------------------------------------------------------------------------------------------

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        new_producer_id: int | None,
        *,
        keep_prepared: bool = False,
    ) -> CoordinatorResult[Decision]:
        """Initialize a producer (InitProducerId). An ongoing transaction is aborted first, with the decision CONCURRENT_TRANSACTIONS
        (retry).

        With `keep_prepared` an ongoing transaction is kept for the new producer to end.
        """
        now_ms = self._now_ms()
        current = self.transactions.get(transactional_id)
        if current is None:
            if new_producer_id is None:
                raise ProducerIdNeededError
            current = step.new_transaction(transactional_id, new_producer_id, timeout_ms, now_ms)
        elif current.state is TransactionState.ONGOING:
            if keep_prepared:
                return self._changed(current, two_phase.keep(current, expected, timeout_ms, now_ms, new_producer_id))
            if current.kept or current.timeout_ms == NEVER_MS:
                two_phase.check_may_initialize(current, expected)
            else:
                step.check_may_initialize(current, expected)
            return self._result(Decision(self._fenced(current, now_ms, new_producer_id), ErrorCode.CONCURRENT_TRANSACTIONS))
        return self._result(Decision(step.initialize(current, expected, timeout_ms, now_ms, new_producer_id)))

    def _fenced(self, current: Transaction, now_ms: int, new_producer_id: int | None) -> Transaction:
        if current.kept:
            return two_phase.end_kept(current, now_ms, new_producer_id, commit=False, bump=True)
        return step.fence(current, self._server_version(), now_ms, new_producer_id)

    def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, added: Iterable[TopicPartition], client_version: int
    ) -> CoordinatorResult[Decision]:
        """Add partitions to the transaction (AddPartitionsToTxn and AddOffsetsToTxn)."""
        current = self._known(transactional_id)
        step.check_producer(current, producer_id, producer_epoch)
        return self._changed(current, step.add_partitions(current, added, client_version, self._now_ms()))

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return TRANSACTION_ABORTABLE for each partition outside of the transaction, else NONE (AddPartitionsToTxn, verify only; KIP-890).

        Only committed state counts, because uncommitted state may still be reverted.
        """
        current = self.transactions.committed(transactional_id)
        if current is None:
            raise _unknown(transactional_id)
        step.check_producer(current, producer_id, producer_epoch)
        if current.state in PREPARED:
            raise step.concurrent(current)
        if current.kept:
            raise step.only_to_be_ended(current)
        return {
            partition: ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE for partition in partitions
        }

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        client_version: int,
        new_producer_id: int | None,
    ) -> CoordinatorResult[Decision]:
        """End a transaction (EndTxn)."""
        current = self._known(transactional_id)
        if current.kept:
            step.check_producer(current, producer_id, producer_epoch)
            bump = step.supports_epoch_bump(client_version)
            return self._result(Decision(two_phase.end_kept(current, self._now_ms(), new_producer_id, commit=commit, bump=bump)))
        ended = step.end(
            current,
            producer_id,
            producer_epoch,
            commit=commit,
            client_version=client_version,
            now_ms=self._now_ms(),
            new_producer_id=new_producer_id,
        )
        return self._changed(current, ended)

    def abort_timed_out(self, transactional_id: str, new_producer_id: int | None) -> CoordinatorResult[Decision | None]:
        """Abort a transaction that has timed out. The response has no decision when the transaction ended in the meantime."""
        current = self.transactions.get(transactional_id)
        now_ms = self._now_ms()
        if current is None or not current.timed_out(now_ms):
            return CoordinatorResult([], None)
        fenced = self._fenced(current, now_ms, new_producer_id)
        return self._result(Decision(fenced))

    def complete(self, prepared: Transaction) -> CoordinatorResult[Transaction | None]:
        """Complete a transaction whose markers are all written. The response has no transaction when it was already completed.

        `prepared` has to be the object that `on_prepared` got.
        """
        # Compare identity: below transaction version 2 the next transaction has the same producer id and epoch.
        if self.transactions.get(prepared.transactional_id) is not prepared:
            return CoordinatorResult([], None)
        completed = step.complete(prepared, self._now_ms())
        return CoordinatorResult([], completed, encoded=self._record(completed))

    def remove_expired(self, expiration_ms: int, limit: int = 1_000) -> CoordinatorResult[int]:
        """Remove at most `limit` ids that were unused for `expiration_ms` (transactional.id.expiration.ms); the response is the count."""
        now_ms = self._now_ms()
        expired: list[str] = []
        for transaction in self.transactions.values():
            if transaction.expired(now_ms, expiration_ms):
                expired.append(transaction.transactional_id)
                if len(expired) == limit:
                    break
        return CoordinatorResult([tombstone(transactional_id) for transactional_id in expired], len(expired), atomic=False)

    # -- queries -----------------------------------------------------------------------------------------------------------------

    def timed_out(self) -> list[str]:
        """Return the ids of transactions that have timed out."""
        now_ms = self._now_ms()
        return [transaction.transactional_id for transaction in self.transactions.values() if transaction.timed_out(now_ms)]

    def describe(self, transactional_id: str) -> Transaction:
        """Return the committed state. Raises KafkaError with TRANSACTIONAL_ID_NOT_FOUND."""
        transaction = self.transactions.committed(transactional_id)
        if transaction is None or transaction.state is TransactionState.DEAD:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"the transactional id {transactional_id!r} does not exist")
        return transaction

    def committed(self) -> Iterator[Transaction]:
        """Iterate over all transactions in their committed state."""
        return (transaction for _, transaction in self.transactions.committed_items())

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise _unknown(transactional_id)
        return transaction

    def _changed(self, before: Transaction, after: Transaction) -> CoordinatorResult[Decision]:
        if after is before:
            return CoordinatorResult([], Decision(after))
        begun = before.state is TransactionState.ONGOING and before.client_version > 0
        if after.client_version > 0 and not begun and self._server_version() < 1:
            # Clients use the finalized level, but records of transaction.version 0 cannot contain the fields of this transaction.
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "transaction.version is 0")
        return self._result(Decision(after))

    def _result(self, decision: Decision) -> CoordinatorResult[Decision]:
        return CoordinatorResult([], decision, encoded=self._record(decision.transaction))

    def _record(self, transaction: Transaction) -> EncodedRecords:
        def replay(offset: int, producer_id: int) -> None:
            # Replay the decided object: it has fields that the record does not contain.
            self._put(offset, transaction)

        return EncodedRecords((encoded_transaction(transaction, self._server_version()),), replay)


def _nothing(_: TopicPartition, __: Transaction) -> None:
    """Do nothing: replaying the record left nothing to revert."""


def _unknown(transactional_id: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the transactional id {transactional_id!r} has no producer")
