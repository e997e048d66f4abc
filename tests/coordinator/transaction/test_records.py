"""What is written of a transaction without messages is what the messages give, and is read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.records import SERDE, encoded_transaction, transaction_of, transaction_record
from odradek.coordinator.transaction.state import Transaction, TransactionState
from odradek.protocol.errors import InvalidMessageError
from odradek.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

LONG = st.integers(-1, (1 << 63) - 1)
SHORT = st.integers(-1, 32767)
PARTITION = st.builds(TopicPartition, st.sampled_from(["a", "b", "x" * 127, "\u00fc" * 100]), st.integers(0, (1 << 31) - 1))
TRANSACTIONS = st.builds(
    Transaction,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    producer_id=LONG,
    producer_epoch=SHORT,
    timeout_ms=st.integers(-1, (1 << 31) - 1),
    state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
    partitions=st.frozensets(PARTITION, max_size=8),
    start_ms=LONG,
    last_update_ms=LONG,
    previous_producer_id=LONG,
    next_producer_id=LONG,
    last_producer_epoch=st.just(-1),
    client_version=st.integers(0, 2),
    next_producer_epoch=SHORT,
)


@given(TRANSACTIONS)
def test_it_is_what_the_messages_give(transaction: Transaction) -> None:
    encoded = encoded_transaction(transaction, 2)
    assert encoded == SERDE.encode(transaction_record(transaction, 2))
    record = SERDE.decode(*encoded)
    assert isinstance(record.key, TransactionLogKey)
    assert isinstance(record.value, TransactionLogValue)
    assert transaction_of(record.key.transactional_id, record.value) == transaction


def test_many_partitions() -> None:
    partitions = frozenset(TopicPartition(f"topic-{number % 200}", number) for number in range(40_000))
    transaction = Transaction("x", 1, 2, 3, TransactionState.ONGOING, partitions)
    assert encoded_transaction(transaction, 2) == SERDE.encode(transaction_record(transaction, 2))


@pytest.mark.parametrize("server_version", [0, 1, 2])
def test_what_the_feature_asks_for(server_version: int) -> None:
    for transaction in (
        Transaction("x", 1, 2, 3),
        Transaction("x", 1, 2, 3, TransactionState.ONGOING, frozenset({TopicPartition("a", 1)})),
        Transaction("x", 1, 2, 3, TransactionState.ONGOING, frozenset({TopicPartition("a", 1)}), client_version=2),
        Transaction("x", 1, 2, 3, TransactionState.COMPLETE_COMMIT, client_version=2),
    ):
        record = transaction_record(transaction, server_version)
        assert encoded_transaction(transaction, server_version) == SERDE.encode(record)
        told_with_tags = transaction.client_version > 0 and transaction.state is TransactionState.ONGOING
        assert record.version == (1 if server_version or told_with_tags else 0)


def test_a_name_that_is_too_long() -> None:
    transaction = Transaction("x" * 32768, 1, 2, 3)
    for version in (0, 2):
        with pytest.raises(InvalidMessageError):
            encoded_transaction(transaction, version)
