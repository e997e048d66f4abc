"""Transactional id: its states, and each transition as a pure function of immutable states.

(org.apache.kafka.coordinator.transaction.TransactionMetadata, TransactionState; KIP-98, KIP-360, KIP-890)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()
NO_PRODUCER_EPOCH: Final = -1
MAX_EPOCH: Final = 32767
"""Short.MAX_VALUE; producers never get this epoch, so that it remains for fencing."""
NEVER_MS: Final = 0x7FFFFFFF
"""Timeout of a transaction in a two-phase commit, which the coordinator never ends (KIP-939)."""


class TransactionState(IntEnum):
    """State of a transactional id. Records contain the numbers, DescribeTransactions and ListTransactions the labels."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS: Final = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATE_OF_LABEL: Final = {label: state for state, label in _LABELS.items()}

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
AT_REST: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""States without an open transaction: a transaction may begin, and the id may expire."""

PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # With transaction version 2 an abort without partitions still bumps the epoch.
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: AT_REST,
}
"""State -> allowed previous states. Fencing goes directly to PREPARE_ABORT: PREPARE_EPOCH_FENCE is never written."""


class ProducerIdNeededError(Exception):
    """Error of a decision that needs a new producer id: request an id, then decide again."""


class Transaction(NamedTuple):
    """State of a transactional id. Times in milliseconds; -1 for no time."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = -1
    last_update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """Id with which the producer goes on after the markers, when the epochs of its id are used up."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Epoch before the last bump, by which a repeated request is recognized. Not written to the log, so a new coordinator does not know it.
    """
    client_version: int = 0
    """transaction.version of the client when the state was entered; 2 bumps the epoch with each transaction (KIP-890)."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """Epoch to go on with under `next_producer_id`; NO_PRODUCER_EPOCH stands for epoch 0.

    In an ongoing transaction both fields are only set after a new producer has taken the transaction over to end it (KIP-939). Then
    `producer_id` and `producer_epoch` are those of the records.
    """

    @property
    def kept(self) -> bool:
        """Return whether a former producer began the ongoing transaction, and the current one may only commit or abort it."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def owner(self) -> tuple[int, int]:
        """Id and epoch of the producer that may send requests; in a prepared transaction, of the producer that goes on after it."""
        if self.kept or (self.state in PREPARED and self.next_producer_id != NO_PRODUCER_ID):
            return self.next_producer_id, max(self.next_producer_epoch, 0)
        return self.producer_id, self.producer_epoch

    @property
    def epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def result_is_commit(self) -> bool:
        """Return whether the markers of this prepared transaction commit."""
        return self.state is TransactionState.PREPARE_COMMIT

    def timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.timeout_ms != NEVER_MS and self.start_ms + self.timeout_ms < now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Return whether the id was unused for `expiration_ms` (transactional.id.expiration.ms)."""
        return self.state in AT_REST and self.last_update_ms <= now_ms - expiration_ms

    def to(self, state: TransactionState, **changes: object) -> Transaction:
        """Return the next state, with the current producer id as the previous one, as in Kafka.

        Raises RuntimeError for a transition that PREVIOUS_STATES does not allow.
        """
        if self.state not in PREVIOUS_STATES[state]:
            raise RuntimeError(f"{self.transactional_id!r} cannot change from {self.state.label} to {state.label}")
        # Equal to `_replace` in a third of its time: a transaction takes three such steps.
        values: list[Any] = list(self)
        values[_PREVIOUS_PRODUCER_ID] = self.producer_id
        values[_STATE] = state
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Transaction(*values)


_PLACES: Final[Mapping[str, int]] = {name: place for place, name in enumerate(Transaction._fields)}
_STATE: Final = _PLACES["state"]
_PREVIOUS_PRODUCER_ID: Final = _PLACES["previous_producer_id"]


def is_exhausted(epoch: int) -> bool:
    """Return whether the last epoch that producers may get is used."""
    return epoch >= MAX_EPOCH - 1


def supports_epoch_bump(client_version: int) -> bool:
    """Return whether the client uses transaction version 2 or later (TransactionVersion.supportsEpochBump)."""
    return client_version >= 2


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the state of a transactional id before its first InitProducerId."""
    return Transaction(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, last_update_ms=now_ms)


def initialize(
    transaction: Transaction, expected: tuple[int, int] | None, timeout_ms: int, now_ms: int, new_producer_id: int | None
) -> Transaction:
    """Return the state after a producer starts; `expected` is (id, epoch) of a producer that goes on after an error (KIP-360).

    The transaction must not be ongoing. Raises KafkaError with PRODUCER_FENCED or CONCURRENT_TRANSACTIONS, and ProducerIdNeededError when
    the epochs are used up and `new_producer_id` is not given.
    """
    if expected is not None and not _may_go_on(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer now")
    if transaction.state in PREPARED:
        raise concurrent(transaction)
    if transaction.state is TransactionState.ONGOING:
        raise RuntimeError("an ongoing transaction must be fenced first")
    if transaction.epoch_exhausted and (expected is None or expected[1] == transaction.producer_epoch):
        if new_producer_id is None:
            raise ProducerIdNeededError
        last = transaction.producer_epoch if expected is not None else NO_PRODUCER_EPOCH
        producer_id, epoch = new_producer_id, 0
    else:
        producer_id = transaction.producer_id
        epoch, last = _bumped(transaction, expected)
    return transaction.to(
        TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        timeout_ms=timeout_ms,
        partitions=NO_PARTITIONS,
        start_ms=-1,
        last_update_ms=now_ms,
    )


def check_may_initialize(transaction: Transaction, expected: tuple[int, int] | None) -> None:
    """Raise KafkaError with PRODUCER_FENCED, as `initialize` does; called before an ongoing transaction is aborted for the producer."""
    if expected is not None and not _may_go_on(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer now")


def _may_go_on(transaction: Transaction, expected: tuple[int, int]) -> bool:
    producer_id, epoch = expected
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == transaction.owner[0]
        # The epochs of its id were used up, and the response with the new id got lost.
        or (producer_id == transaction.previous_producer_id and is_exhausted(epoch))
    )


def _bumped(transaction: Transaction, expected: tuple[int, int] | None) -> tuple[int, int]:
    """Return (epoch, last epoch) of a producer that initializes itself. Raises KafkaError with PRODUCER_FENCED."""
    current = transaction.producer_epoch
    if expected is None:
        return current + 1, NO_PRODUCER_EPOCH
    if current in (NO_PRODUCER_EPOCH, expected[1]):
        return current + 1, current
    if expected[1] == transaction.last_producer_epoch:
        # The response to the same request got lost.
        return current, transaction.last_producer_epoch
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"epoch {expected[1]} of {transaction.transactional_id!r} has been fenced")


def add_partitions(transaction: Transaction, added: Iterable[TopicPartition], client_version: int, now_ms: int) -> Transaction:
    """Return the state with these partitions; the same object when the transaction already contains them.

    Raises KafkaError with CONCURRENT_TRANSACTIONS while the transaction is being ended, and with INVALID_TXN_STATE for a kept transaction,
    which can only be ended.
    """
    if transaction.state in PREPARED:
        raise concurrent(transaction)
    if transaction.kept:
        raise only_to_be_ended(transaction)
    partitions = transaction.partitions.union(added)
    ongoing = transaction.state is TransactionState.ONGOING
    if ongoing and len(partitions) == len(transaction.partitions):
        return transaction
    return transaction.to(
        TransactionState.ONGOING,
        partitions=partitions,
        start_ms=transaction.start_ms if ongoing else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fence(transaction: Transaction, server_version: int, now_ms: int, new_producer_id: int | None) -> Transaction:
    """Return the aborting state of an ongoing transaction whose producer is fenced.

    Use `two_phase.end_kept` for a kept transaction. Raises ProducerIdNeededError.
    """
    if supports_epoch_bump(server_version):
        return _prepare(transaction, server_version, now_ms, commit=False, new_producer_id=new_producer_id, without_partitions=False)
    epoch = min(transaction.producer_epoch + 1, MAX_EPOCH)
    return transaction.to(
        TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        last_update_ms=now_ms,
        client_version=0,
    )


def end(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: int | None,
) -> Transaction:
    """Return the state after a producer commits or aborts; the same object for a repeated request.

    Raises KafkaError with INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE or CONCURRENT_TRANSACTIONS (retry), and
    ProducerIdNeededError.
    """
    if supports_epoch_bump(client_version):
        return _end_bumping(transaction, producer_id, producer_epoch, commit, client_version, now_ms, new_producer_id)
    check_producer(transaction, producer_id, producer_epoch)
    state = transaction.state
    if state is TransactionState.ONGOING:
        target = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        return transaction.to(target, last_update_ms=now_ms, client_version=0)
    if state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT):
        return transaction
    raise _cannot_end(transaction, commit=commit)


def _end_bumping(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: int | None,
) -> Transaction:
    """Return the state after the end of a transaction of version 2.

    Each end bumps the epoch, so a request with the epoch before the current one is a repeated request.
    """
    state = transaction.state
    current = transaction.producer_epoch
    overflowed = transaction.previous_producer_id == producer_id and producer_epoch == MAX_EPOCH - 1 and current == 0
    repeated = overflowed or current == producer_epoch + 1
    if state in PREPARED:
        # This check comes first (KAFKA-18464): while one transaction is being ended, the end of the next one may come with the next epoch.
        raise concurrent(transaction)
    if transaction.producer_id != producer_id and not overflowed:
        raise wrong_id(transaction, producer_id)
    ended = state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if producer_epoch != current and not (ended and repeated):
        raise fenced(transaction, producer_epoch)
    if state is TransactionState.ONGOING:
        return _prepare(transaction, client_version, now_ms, commit=commit, new_producer_id=new_producer_id, without_partitions=False)
    if repeated and ended:
        if commit is (state is TransactionState.COMPLETE_COMMIT):
            return transaction
        raise _cannot_end(transaction, commit=commit)
    if commit:
        raise _cannot_end(transaction, commit=commit)
    # Abort before a partition was added: records of the producer that are still under way must not join its next transaction.
    return _prepare(transaction, client_version, now_ms, commit=False, new_producer_id=new_producer_id, without_partitions=True)


def _prepare(
    transaction: Transaction, client_version: int, now_ms: int, *, commit: bool, new_producer_id: int | None, without_partitions: bool
) -> Transaction:
    next_producer_id = NO_PRODUCER_ID
    if transaction.epoch_exhausted:
        if new_producer_id is None:
            raise ProducerIdNeededError
        next_producer_id = new_producer_id
    return transaction.to(
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        producer_epoch=min(transaction.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=next_producer_id,
        start_ms=now_ms if without_partitions else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Return the completed state, after all markers are written. A producer with used-up epochs goes on with its next id."""
    rotated = supports_epoch_bump(transaction.client_version) and transaction.next_producer_id != NO_PRODUCER_ID
    known = transaction.previous_producer_id != NO_PRODUCER_ID
    producer_id, producer_epoch = transaction.owner if rotated else (transaction.producer_id, transaction.producer_epoch)
    return transaction.to(
        TransactionState.COMPLETE_COMMIT if transaction.result_is_commit else TransactionState.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        previous_producer_id=transaction.previous_producer_id if rotated and known else transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=NO_PARTITIONS,
        last_update_ms=now_ms,
    )


def check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Raise KafkaError with INVALID_PRODUCER_ID_MAPPING for another id, and with PRODUCER_FENCED for another epoch."""
    owner_id, owner_epoch = transaction.owner
    if owner_id != producer_id:
        raise wrong_id(transaction, producer_id)
    if owner_epoch != producer_epoch:
        raise fenced(transaction, producer_epoch)


def concurrent(transaction: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {transaction.transactional_id!r} has not ended yet")


def wrong_id(transaction: Transaction, producer_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"{transaction.transactional_id!r} belongs to producer {transaction.owner[0]}, not to producer {producer_id}",
    )


def fenced(transaction: Transaction, producer_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"epoch {producer_epoch} of producer {transaction.owner[0]} is not the current epoch, {transaction.owner[1]}",
    )


def only_to_be_ended(transaction: Transaction) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"an earlier producer began the transaction of {transaction.transactional_id!r}, which can only be committed or aborted",
    )


def _cannot_end(transaction: Transaction, *, commit: bool) -> KafkaError:
    """Return CONCURRENT_TRANSACTIONS (retry) when the transaction is being ended the same way, otherwise INVALID_TXN_STATE."""
    if transaction.state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT):
        return concurrent(transaction)
    verb = "committed" if commit else "aborted"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, f"{transaction.transactional_id!r} cannot be {verb} in state {transaction.state.label}")
