"""Transactions as records of `__transaction_state` (org.apache.kafka.coordinator.transaction.TransactionLog)."""

from __future__ import annotations

from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.coordinator.records import CoordinatorRecord, RecordSerde
from odradek.coordinator.transaction.state import AT_REST, NO_PRODUCER_ID, Transaction, TransactionState
from odradek.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

SERDE = RecordSerde([(TransactionLogKey, TransactionLogValue)])


def transaction_record(transaction: Transaction, server_version: int) -> CoordinatorRecord:
    """Value version 0 under transaction.version 0, 1 (with tagged fields) from there on.

    What was begun before the feature went down to 0, and cannot be told in version 0, is ended in version 1. (JVM Kafka reads both,
    whatever the feature says.)
    """
    needs_tags = transaction.state not in AT_REST and (transaction.client_version > 0 or transaction.next_producer_id != NO_PRODUCER_ID)
    version = 1 if server_version >= 1 or needs_tags else 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), value, version, soft=transaction)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The transactional id has expired."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def _by_topic(partitions: frozenset[TopicPartition]) -> list[TransactionLogValue.PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """StorageError for a state that this release does not know."""
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise StorageError(f"the transaction of {transactional_id!r} is in an unknown state, {value.transaction_status}") from None
    partitions = value.transaction_partitions or []
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(TopicPartition(entry.topic, number) for entry in partitions for number in entry.partition_ids),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        client_version=value.client_transaction_version,
        next_producer_epoch=value.next_producer_epoch,
    )
