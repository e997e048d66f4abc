"""Transactions that outlive their producer (KIP-939): the next producer keeps them, and can only commit or abort them.

An outer coordinator (a database, a stream processor) first has all its parts prepare, then decides. A producer prepares by flushing; for
this transaction coordinator the transaction is simply ongoing. When the producer dies in between, its successor asks to keep the ongoing
transaction, and ends it as the outer coordinator decided.

The transaction keeps `producer_id` and `producer_epoch`, which are those of its records. Separate fields contain the successor's id and
epoch. These are the next epoch of the same id, or epoch 0 of a new id when the epochs are used up. Only the successor may end the
transaction. Markers need the records' producer id, and an epoch that no record of the transaction has:

    records (42, 7), successor (42, 8):  marker (42, 9), the producer goes on as (42, 9)
    records (42, 32766), successor (73, 0):  marker (42, 32767), the producer goes on as (73, 1)

JVM Kafka 4.3 knows the fields of the log (NextProducerId, NextProducerEpoch), but answers UNSUPPORTED_VERSION to a request to keep.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.transaction.state import (
    MAX_EPOCH,
    NEVER_MS,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdNeededError,
    Transaction,
    TransactionState,
    is_exhausted,
)

_BUMPING = 2


def keep(
    transaction: Transaction, expected: tuple[int, int] | None, timeout_ms: int, now_ms: int, new_producer_id: int | None
) -> Transaction:
    """Return the ongoing transaction with a new producer as its owner; the same object for a repeated request.

    A transaction without a timeout keeps none, because the clock never ends a prepared transaction. Raises KafkaError with PRODUCER_FENCED,
    and ProducerIdNeededError.
    """
    if expected is not None and not _is_owner(transaction, expected):
        if transaction.kept and _was_owner(transaction, expected):
            return transaction
        raise _fenced(transaction)
    owner_id, owner_epoch = transaction.owner
    if not is_exhausted(owner_epoch):
        next_id, next_epoch = owner_id, owner_epoch + 1
    elif new_producer_id is None:
        raise ProducerIdNeededError
    else:
        next_id, next_epoch = new_producer_id, 0
    return transaction.to(
        TransactionState.ONGOING,
        previous_producer_id=owner_id,
        # Only a request with `expected` may be repeated: a returning former producer must not get the successor's id and epoch.
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else owner_epoch,
        next_producer_id=next_id,
        next_producer_epoch=next_epoch,
        timeout_ms=NEVER_MS if transaction.timeout_ms == NEVER_MS else timeout_ms,
        last_update_ms=now_ms,
    )


def check_may_initialize(ongoing: Transaction, expected: tuple[int, int] | None) -> None:
    """Raise KafkaError with PRODUCER_FENCED unless the owner, or a new producer, starts.

    For other transactions any epoch of the same id is accepted, because the only effect is an abort. Here an outer coordinator decides, so
    a former producer must not cause an abort.
    """
    if expected is not None and not _is_owner(ongoing, expected):
        raise _fenced(ongoing)


def end_kept(kept: Transaction, now_ms: int, new_producer_id: int | None, *, commit: bool, bump: bool) -> Transaction:
    """Return the state after the owner, or the coordinator in its place, ends a kept transaction. Raises ProducerIdNeededError.

    With `bump` (transaction version 2) the owner goes on with another epoch; the responses of older versions could not contain it.
    """
    owner_id, owner_epoch = kept.owner
    if not bump:
        next_id, next_epoch = owner_id, owner_epoch
    elif not is_exhausted(owner_epoch):
        next_id, next_epoch = owner_id, owner_epoch + 1
    elif new_producer_id is None:
        raise ProducerIdNeededError
    else:
        next_id, next_epoch = new_producer_id, 0
    same = owner_id == kept.producer_id
    rotated = next_id != kept.producer_id
    return kept.to(
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        previous_producer_id=owner_id,
        producer_epoch=min(owner_epoch + bump, MAX_EPOCH) if same else kept.producer_epoch + 1,
        last_producer_epoch=owner_epoch,
        next_producer_id=next_id if rotated else NO_PRODUCER_ID,
        # Kafka does not write the next epoch of a new id, which is always 0.
        next_producer_epoch=next_epoch if rotated and next_epoch > 0 else NO_PRODUCER_EPOCH,
        last_update_ms=now_ms,
        client_version=_BUMPING,
    )


def _is_owner(transaction: Transaction, producer: tuple[int, int]) -> bool:
    return producer == transaction.owner


def _was_owner(kept: Transaction, producer: tuple[int, int]) -> bool:
    """Return whether `producer` is the owner before its last bump, repeating a request whose response got lost."""
    return producer == (kept.previous_producer_id, kept.last_producer_epoch)


def _fenced(transaction: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer now")
