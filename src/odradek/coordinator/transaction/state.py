"""One transactional id: its states, and every transition as a pure function from one immutable state to the next.

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
"""Short.MAX_VALUE: never handed out, so that there is always one left to fence a producer with."""
NEVER_MS: Final = 0x7FFFFFFF
"""The timeout of a transaction that takes part in a two-phase commit: the coordinator does not end it (KIP-939)."""


class TransactionState(IntEnum):
    """The numbers stand in the log, the labels in DescribeTransactions and ListTransactions."""

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
"""No transaction is open: a new one may begin, and the id may expire."""

PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # Under transaction version 2 an abort without a partition still bumps the epoch.
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: AT_REST,
}
"""State -> those it may follow. (A fenced epoch goes to PREPARE_ABORT in one step: PREPARE_EPOCH_FENCE is never written.)"""


class ProducerIdNeededError(Exception):
    """The decision needs a new producer id, which takes a request: get one and decide again."""


class Transaction(NamedTuple):
    """Times in milliseconds, -1 where there is none."""

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
    """The id that the producer goes on with once its epochs are used up and the markers written."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last bump, by which a repeated request is known. Not written: lost when the coordinator moves."""
    client_version: int = 0
    """transaction.version that the client went by when the state was entered; 2 bumps the epoch with every transaction (KIP-890)."""
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """With `next_producer_id`: the epoch to go on with, 0 where there is none. In an ongoing transaction both are there only when a new
    producer has taken it over to end it (KIP-939); `producer_id` and `producer_epoch` then are those of the records."""

    @property
    def kept(self) -> bool:
        """Whether the ongoing transaction was begun by a former producer, and is there for the present one to commit or to abort."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def owner(self) -> tuple[int, int]:
        """Id and epoch of the producer that may make requests; in a prepared transaction, of the one that goes on after it."""
        if self.kept or (self.state in PREPARED and self.next_producer_id != NO_PRODUCER_ID):
            return self.next_producer_id, max(self.next_producer_epoch, 0)
        return self.producer_id, self.producer_epoch

    @property
    def epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def result_is_commit(self) -> bool:
        """What the markers of a prepared transaction say."""
        return self.state is TransactionState.PREPARE_COMMIT

    def timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.timeout_ms != NEVER_MS and self.start_ms + self.timeout_ms < now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether nobody used the id for transactional.id.expiration.ms."""
        return self.state in AT_REST and self.last_update_ms <= now_ms - expiration_ms

    def to(self, state: TransactionState, **changes: object) -> Transaction:
        """The next state, checked against the table; the former producer id is noted, as Kafka does with every transition."""
        if self.state not in PREVIOUS_STATES[state]:
            raise RuntimeError(f"{self.transactional_id!r} cannot go from {self.state.label} to {state.label}")
        # As `_replace`, in a third of its time: a transaction takes three such steps.
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
    """Whether the last epoch that may be handed out is used."""
    return epoch >= MAX_EPOCH - 1


def supports_epoch_bump(client_version: int) -> bool:
    """Transaction version 2 and later (TransactionVersion.supportsEpochBump)."""
    return client_version >= 2


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """What a transactional id is before its first InitProducerId has been decided."""
    return Transaction(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, last_update_ms=now_ms)


def initialize(
    transaction: Transaction, expected: tuple[int, int] | None, timeout_ms: int, now_ms: int, new_producer_id: int | None
) -> Transaction:
    """A producer (re)starts, with `expected` (id, epoch) when it wants to go on after an error (KIP-360).

    From ONGOING it gives the aborting state, and the producer has to ask again. PRODUCER_FENCED, CONCURRENT_TRANSACTIONS;
    ProducerIdNeededError when the epochs are used up and `new_producer_id` is None.
    """
    if expected is not None and not _may_go_on(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer by now")
    if transaction.state in PREPARED:
        raise concurrent(transaction)
    if transaction.state is TransactionState.ONGOING:
        raise RuntimeError("an ongoing transaction is fenced first")
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
    """PRODUCER_FENCED, the same as in `initialize`: before an ongoing transaction is ended for somebody."""
    if expected is not None and not _may_go_on(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer by now")


def _may_go_on(transaction: Transaction, expected: tuple[int, int]) -> bool:
    producer_id, epoch = expected
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == transaction.owner[0]
        # Its epochs were used up and the answer with the new id got lost.
        or (producer_id == transaction.previous_producer_id and is_exhausted(epoch))
    )


def _bumped(transaction: Transaction, expected: tuple[int, int] | None) -> tuple[int, int]:
    """(epoch, last epoch) for a producer that initializes itself."""
    current = transaction.producer_epoch
    if expected is None:
        return current + 1, NO_PRODUCER_EPOCH
    if current in (NO_PRODUCER_EPOCH, expected[1]):
        return current + 1, current
    if expected[1] == transaction.last_producer_epoch:
        # The answer to the same request got lost.
        return current, transaction.last_producer_epoch
    raise KafkaError(ErrorCode.PRODUCER_FENCED, f"epoch {expected[1]} of {transaction.transactional_id!r} has been fenced")


def add_partitions(transaction: Transaction, added: Iterable[TopicPartition], client_version: int, now_ms: int) -> Transaction:
    """Begins a transaction or widens it; the same object when all partitions are in it. CONCURRENT_TRANSACTIONS while it is being ended,
    INVALID_TXN_STATE for a former producer's, which can only be ended.
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
    """Aborts an ongoing transaction over its producer's head, whose epoch is no longer good for anything afterwards.

    Not for a kept one: `two_phase.end_kept`.
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
    """A producer commits or aborts. The same object when the request repeats one that has been done.

    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS (being ended: ask again);
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
    """Transaction version 2: every end bumps the epoch, so that an epoch one below the current one tells a repeated request."""
    state = transaction.state
    current = transaction.producer_epoch
    overflowed = transaction.previous_producer_id == producer_id and producer_epoch == MAX_EPOCH - 1 and current == 0
    repeated = overflowed or current == producer_epoch + 1
    if state in PREPARED:
        # First of all (KAFKA-18464): the next transaction's end may come with the next epoch while this one is being ended.
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
    # An abort before any partition was added: the producer may have records under way that must not join its next transaction.
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
    """All markers are written. A producer whose epochs were used up goes on under its next id."""
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
    """INVALID_PRODUCER_ID_MAPPING for another id, PRODUCER_FENCED for another epoch."""
    owner_id, owner_epoch = transaction.owner
    if owner_id != producer_id:
        raise wrong_id(transaction, producer_id)
    if owner_epoch != producer_epoch:
        raise fenced(transaction, producer_epoch)


def concurrent(transaction: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {transaction.transactional_id!r} is still being ended")


def wrong_id(transaction: Transaction, producer_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"producer {producer_id} does not hold {transaction.transactional_id!r}, producer {transaction.owner[0]} does",
    )


def fenced(transaction: Transaction, producer_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"epoch {producer_epoch} of producer {transaction.owner[0]} is not the current one, {transaction.owner[1]}",
    )


def only_to_be_ended(transaction: Transaction) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction of {transaction.transactional_id!r} was begun by a former producer and can only be committed or aborted",
    )


def _cannot_end(transaction: Transaction, *, commit: bool) -> KafkaError:
    """Being ended the same way: ask again; everything else is no state to end a transaction in."""
    if transaction.state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT):
        return concurrent(transaction)
    verb = "committed" if commit else "aborted"
    return KafkaError(ErrorCode.INVALID_TXN_STATE, f"{transaction.transactional_id!r} cannot be {verb} in state {transaction.state.label}")
