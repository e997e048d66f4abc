"""Transitions of one transactional id against the rules of KIP-98, 360 and 890."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction import state as step
from odradek.coordinator.transaction.state import MAX_EPOCH, PREPARED, ProducerIdNeededError, Transaction, TransactionState

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def started(epoch: int = 0) -> Transaction:
    return step.initialize(step.new_transaction("x", 1000, 60_000, 0), None, 60_000, 0, None)._replace(producer_epoch=epoch)


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def end(transaction: Transaction, commit: bool, version: int, *, epoch: int | None = None, new_id: int | None = None) -> Transaction:
    return step.end(
        transaction,
        transaction.producer_id,
        transaction.producer_epoch if epoch is None else epoch,
        commit=commit,
        client_version=version,
        now_ms=5,
        new_producer_id=new_id,
    )


def test_the_first_epoch_is_zero_and_every_start_bumps_it() -> None:
    first = started()
    assert (first.producer_id, first.producer_epoch) == (1000, 0)
    assert step.initialize(first, None, 1, 1, None).producer_epoch == 1


def test_a_producer_that_goes_on_names_its_epoch_and_may_repeat_itself() -> None:
    first = started(5)
    second = step.initialize(first, (1000, 5), 1, 1, None)
    assert (second.producer_epoch, second.last_producer_epoch) == (6, 5)
    assert step.initialize(second, (1000, 5), 1, 1, None).producer_epoch == 6
    with pytest.raises(KafkaError) as error:
        step.initialize(second, (1000, 4), 1, 1, None)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(KafkaError) as error:
        step.initialize(second, (999, 6), 1, 1, None)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED
    other = step.initialize(second, None, 1, 1, None)
    with pytest.raises(KafkaError) as error:
        step.initialize(other, (1000, 6), 1, 1, None)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED


def test_a_producer_may_repeat_itself_until_an_answer_arrives() -> None:
    transaction = step.initialize(started(5), (1000, 5), 1, 1, None)
    for _ in range(3):
        transaction = step.initialize(transaction, (1000, 5), 1, 1, None)
        assert transaction.producer_epoch == 6
    assert step.initialize(transaction, (1000, 6), 1, 1, None).producer_epoch == 7


def test_used_up_epochs_need_a_new_id() -> None:
    last = started(MAX_EPOCH - 1)
    with pytest.raises(ProducerIdNeededError):
        step.initialize(last, None, 1, 1, None)
    rotated = step.initialize(last, (1000, MAX_EPOCH - 1), 1, 1, 2000)
    assert (rotated.producer_id, rotated.producer_epoch, rotated.previous_producer_id) == (2000, 0, 1000)
    assert step.initialize(rotated, (1000, MAX_EPOCH - 1), 1, 1, None).producer_epoch == 0, "the answer got lost"


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_begin_to_end(version: int, commit: bool) -> None:
    begun = step.add_partitions(started(), [P0], version, 10)
    assert (begun.state, begun.start_ms) == (TransactionState.ONGOING, 10)
    assert step.add_partitions(begun, [P0], version, 11) is begun
    wider = step.add_partitions(begun, [P1], version, 12)
    assert (wider.partitions, wider.start_ms, wider.last_update_ms) == ({P0, P1}, 10, 12)
    prepared = end(wider, commit, version)
    assert prepared.producer_epoch == (1 if version == 2 else 0)
    with pytest.raises(KafkaError) as error:
        step.add_partitions(prepared, [P0], version, 13)
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError) as error:
        end(prepared, commit, version, epoch=0)
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError) as error:
        end(prepared, not commit, version, epoch=0)
    assert code_of(error) is (ErrorCode.CONCURRENT_TRANSACTIONS if version == 2 else ErrorCode.INVALID_TXN_STATE)
    done = step.complete(prepared, 20)
    assert done.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert not done.partitions
    assert end(done, commit, version, epoch=0) is done, "a repeated request"
    with pytest.raises(KafkaError) as error:
        end(done, not commit, version, epoch=0)
    assert code_of(error) is ErrorCode.INVALID_TXN_STATE


def test_version_2_tells_a_repetition_from_an_empty_abort() -> None:
    done = step.complete(end(step.add_partitions(started(), [P0], 2, 1), True, 2), 2)
    assert done.producer_epoch == 1
    empty_abort = end(done, False, 2)
    assert (empty_abort.state, empty_abort.producer_epoch) == (TransactionState.PREPARE_ABORT, 2)
    with pytest.raises(KafkaError) as error:
        end(done, True, 2)
    assert code_of(error) is ErrorCode.INVALID_TXN_STATE
    with pytest.raises(KafkaError) as error:
        end(done, False, 2, epoch=7)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED
    assert end(started(), False, 2).state is TransactionState.PREPARE_ABORT
    with pytest.raises(KafkaError) as error:
        end(started(), False, 0)
    assert code_of(error) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_version_2_lets_the_next_transaction_be_aborted_while_the_last_one_is_being_ended(commit: bool) -> None:
    """Its epoch is the one that the end has given: the producer is not fenced, it asks again (KAFKA-18464)."""
    prepared = end(step.add_partitions(started(), [P0], 2, 1), commit, 2)
    assert prepared.producer_epoch == 1
    with pytest.raises(KafkaError) as error:
        end(prepared, False, 2, epoch=1)
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert end(step.complete(prepared, 20), False, 2, epoch=1).producer_epoch == 2


def test_version_2_rotates_the_id_when_its_epochs_are_used_up() -> None:
    begun = step.add_partitions(started(MAX_EPOCH - 1), [P0], 2, 1)
    with pytest.raises(ProducerIdNeededError):
        end(begun, True, 2)
    prepared = end(begun, True, 2, new_id=2000)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (1000, MAX_EPOCH, 2000)
    done = step.complete(prepared, 2)
    assert (done.producer_id, done.producer_epoch, done.next_producer_id, done.previous_producer_id) == (2000, 0, -1, 1000)
    repeated = step.end(done, 1000, MAX_EPOCH - 1, commit=True, client_version=2, now_ms=3, new_producer_id=None)
    assert repeated is done


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_leaves_nothing_to_the_old_epoch(version: int) -> None:
    begun = step.add_partitions(started(3), [P0], version, 1)
    fenced = step.fence(begun, version, 9, None)
    assert (fenced.state, fenced.producer_epoch) == (TransactionState.PREPARE_ABORT, 4)
    with pytest.raises(KafkaError) as error:
        step.check_producer(fenced, 1000, 3)
    assert code_of(error) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_is_not_taken_for_one_that_repeats_itself() -> None:
    second = step.initialize(started(), (1000, 0), 1, 1, None)
    assert (second.producer_epoch, second.last_producer_epoch) == (1, 0)
    fenced = step.complete(step.fence(step.add_partitions(second, [P0], 0, 1), 0, 9, None), 10)
    for epoch in (0, 1):
        with pytest.raises(KafkaError) as error:
            step.initialize(fenced, (1000, epoch), 1, 11, None)
        assert code_of(error) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_who_was_fenced_ends_nothing(version: int) -> None:
    begun = step.add_partitions(started(5), [P0], version, 1)
    done = step.complete(end(begun, True, version), 2)
    for transaction in (begun, done):
        for epoch in (0, 3, transaction.producer_epoch + 1):
            with pytest.raises(KafkaError) as error:
                end(transaction, True, version, epoch=epoch)
            assert code_of(error) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_only_the_producer_that_holds_the_id_may_ask(version: int) -> None:
    begun = step.add_partitions(started(), [P0], version, 1)
    with pytest.raises(KafkaError) as error:
        step.check_producer(begun, 1001, 0)
    assert code_of(error) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    with pytest.raises(KafkaError) as error:
        step.end(begun, 1001, 0, commit=True, client_version=version, now_ms=2, new_producer_id=None)
    assert code_of(error) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_nobody_begins_anew_while_a_transaction_is_being_ended(version: int) -> None:
    prepared = end(step.add_partitions(started(), [P0], version, 1), True, version)
    with pytest.raises(KafkaError) as error:
        step.initialize(prepared, None, 1, 2, None)
    assert code_of(error) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("seed", range(100))
def test_random_walks_keep_the_invariants(seed: int) -> None:
    """Whatever is asked in whatever order: epochs of an id never go back, a prepared transaction ends as it was decided, partitions are
    there exactly while there is a transaction, and the epoch never leaves its range.
    """
    rng = random.Random(seed)
    ids = iter(range(2000, 100_000))
    transaction = started(rng.choice([0, MAX_EPOCH - 4]))
    for now in range(1, 300):
        before = transaction
        version = rng.choice([0, 2])
        expected = rng.choice([None, (transaction.producer_id, transaction.producer_epoch), (transaction.producer_id, 1)])
        epoch = rng.choice([transaction.producer_epoch, transaction.producer_epoch - 1])
        try:
            match rng.randrange(5):
                case 0 if transaction.state is TransactionState.ONGOING:
                    transaction = step.fence(transaction, version, now, next(ids))
                case 0:
                    transaction = step.initialize(transaction, expected, 1, now, next(ids))
                case 1:
                    transaction = step.add_partitions(transaction, [rng.choice([P0, P1])], version, now)
                case 2 | 3:
                    transaction = step.end(
                        transaction,
                        transaction.producer_id,
                        epoch,
                        commit=rng.random() < 0.5,
                        client_version=version,
                        now_ms=now,
                        new_producer_id=next(ids),
                    )
                case _ if transaction.state in PREPARED:
                    transaction = step.complete(transaction, now)
                case _:
                    pass
        except KafkaError:
            assert transaction is before
        assert 0 <= transaction.producer_epoch <= MAX_EPOCH
        if transaction.producer_id == before.producer_id:
            assert transaction.producer_epoch >= before.producer_epoch
        if before.state in PREPARED and transaction is not before:
            assert (transaction.state is TransactionState.COMPLETE_COMMIT) is (before.state is TransactionState.PREPARE_COMMIT)
        if transaction.state is TransactionState.ONGOING:
            assert transaction.partitions
        if transaction.state not in (TransactionState.ONGOING, *PREPARED):
            assert not transaction.partitions
