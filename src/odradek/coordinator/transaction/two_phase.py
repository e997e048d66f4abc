"""Transactions that outlive their producer (KIP-939): kept by the next one, which can only commit or abort them.

An outer coordinator (a database, a stream processor) first has all its parts prepare, then decides. A producer prepares by flushing: for
its coordinator here the transaction is simply ongoing. When the producer dies in between, its successor asks to keep what it finds and ends
it as the outer coordinator decided.

The transaction stays as it is: `producer_id` and `producer_epoch` are those its records were written with. Beside them stands what the
successor was given: the next epoch of the same id, or epoch 0 of a new id where the epochs are used up. Only it may end the transaction.
Markers must have the records' producer id, and an epoch that no record of the transaction has:

    records (42, 7), successor (42, 8):  marker (42, 9), the producer goes on as (42, 9)
    records (42, 32766), successor (73, 0):  marker (42, 32767), the producer goes on as (73, 1)

JVM Kafka 4.3 knows the fields of the log (NextProducerId, NextProducerEpoch), but answers UNSUPPORTED_VERSION to whoever asks to keep.
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
    """Gives an ongoing transaction to a new producer; the same object when the request repeats the one that did. PRODUCER_FENCED;
    ProducerIdNeededError.

    What may take for ever goes on doing so: a prepared transaction is never ended by the clock.
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
        # Only who names itself may repeat itself: to the successor's answer a dead producer that comes back has no right.
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else owner_epoch,
        next_producer_id=next_id,
        next_producer_epoch=next_epoch,
        timeout_ms=NEVER_MS if transaction.timeout_ms == NEVER_MS else timeout_ms,
        last_update_ms=now_ms,
    )


def check_may_initialize(ongoing: Transaction, expected: tuple[int, int] | None) -> None:
    """PRODUCER_FENCED unless it is the owner that wants to start again, or somebody new.

    Otherwise any epoch of the same id will do, since all that can come of it is an abort: one that a former producer must not cause when
    the decision is with an outer coordinator.
    """
    if expected is not None and not _is_owner(ongoing, expected):
        raise _fenced(ongoing)


def end_kept(kept: Transaction, now_ms: int, new_producer_id: int | None, *, commit: bool, bump: bool) -> Transaction:
    """The owner, or the coordinator over its head, ends a kept transaction. ProducerIdNeededError.

    `bump`: the owner goes on with another epoch, and is told so (transaction version 2); an older request's answer could not say it.
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
        # Kafka's own rotation leaves the epoch out, which is 0 there.
        next_producer_epoch=next_epoch if rotated and next_epoch > 0 else NO_PRODUCER_EPOCH,
        last_update_ms=now_ms,
        client_version=_BUMPING,
    )


def _is_owner(transaction: Transaction, producer: tuple[int, int]) -> bool:
    return producer == transaction.owner


def _was_owner(kept: Transaction, producer: tuple[int, int]) -> bool:
    """Whether the owner is `producer` in its next life: its answer got lost, and it asks again."""
    return producer == (kept.previous_producer_id, kept.last_producer_epoch)


def _fenced(transaction: Transaction) -> KafkaError:
    return KafkaError(ErrorCode.PRODUCER_FENCED, f"{transaction.transactional_id!r} belongs to another producer by now")
