"""Transactions as records of `__transaction_state` (org.apache.kafka.coordinator.transaction.TransactionLog)."""

from __future__ import annotations

import struct
from functools import lru_cache

from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.coordinator.records import CoordinatorRecord, RecordSerde
from odradek.coordinator.transaction.state import AT_REST, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Transaction, TransactionState
from odradek.protocol.errors import InvalidMessageError
from odradek.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

SERDE = RecordSerde([(TransactionLogKey, TransactionLogValue)])


_KEY_START = struct.Struct(">hh")
_VALUE_START = struct.Struct(">hqhib")
_VALUE_END = struct.Struct(">qqB")
_LONG_TAG = struct.Struct(">BBq")
_SHORT_TAG = struct.Struct(">BBh")
_LONGEST_ID = 32767


def encoded_transaction(transaction: Transaction, server_version: int) -> tuple[bytes, bytes | None]:
    """Return the encoded key and value. The bytes equal those of `transaction_record`, in a quarter of the time.

    The time matters, because each transaction writes three records.
    """
    if server_version == 0 and _version_of(transaction, server_version) == 0:
        return SERDE.encode(transaction_record(transaction, server_version))
    (
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        start_ms,
        last_update_ms,
        previous_producer_id,
        next_producer_id,
        _,
        client_version,
        next_producer_epoch,
    ) = transaction
    name = transactional_id.encode()
    if len(name) > _LONGEST_ID:
        raise InvalidMessageError(f"a transactional id of {len(name)} bytes cannot be written")
    tags: list[bytes] = []
    if previous_producer_id != NO_PRODUCER_ID:
        tags.append(_LONG_TAG.pack(0, 8, previous_producer_id))
    if next_producer_id != NO_PRODUCER_ID:
        tags.append(_LONG_TAG.pack(1, 8, next_producer_id))
    if client_version:
        tags.append(_SHORT_TAG.pack(2, 2, client_version))
    if next_producer_epoch != NO_PRODUCER_EPOCH:
        tags.append(_SHORT_TAG.pack(3, 2, next_producer_epoch))
    value = [
        _VALUE_START.pack(1, producer_id, producer_epoch, timeout_ms, state),
        _NULL if state is TransactionState.EMPTY else _encoded_partitions(partitions),
        _VALUE_END.pack(last_update_ms, start_ms, len(tags)),
        *tags,
    ]
    return _KEY_START.pack(TransactionLogKey.API_KEY, len(name)) + name, b"".join(value)


_NULL, _NONE = b"\0", b"\1"
"""Encoded length of a null and of an empty array: length + 1."""


def _encoded_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    if not partitions:
        return _NONE
    if len(partitions) == 1:
        (only,) = partitions
        return _encoded_partition(only)
    topics = _numbers_by_topic(partitions)
    encoded = [_varint(len(topics) + 1)]
    for topic, numbers in topics.items():
        name = topic.encode()
        encoded += (_varint(len(name) + 1), name, _varint(len(numbers) + 1), struct.pack(f">{len(numbers)}i", *numbers), _NO_TAGS)
    return b"".join(encoded)


@lru_cache(1024)
def _encoded_partition(partition: TopicPartition) -> bytes:
    """Return a transaction's only partition, encoded. Most transactions have only one, and write it twice, so the result is cached."""
    name = partition.topic.encode()
    return b"%b%b%b%b%b%b" % (_varint(2), _varint(len(name) + 1), name, _varint(2), _INT.pack(partition.partition), _NO_TAGS)


_NO_TAGS = b"\0"
_INT = struct.Struct(">i")


def _varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes()
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)


def _version_of(transaction: Transaction, server_version: int) -> int:
    """Return the version of the value: 0 with transaction.version 0, from 1 on version 1 (with tagged fields).

    A transaction that needs tagged fields, because it began before the feature was downgraded to 0, is still written in version 1. JVM
    Kafka reads both versions with any feature level.
    """
    if server_version >= 1:
        return 1
    needs_tags = transaction.state not in AT_REST and (transaction.client_version > 0 or transaction.next_producer_id != NO_PRODUCER_ID)
    return 1 if needs_tags else 0


def transaction_record(transaction: Transaction, server_version: int) -> CoordinatorRecord:
    """Return the record of a transaction with message objects."""
    version = _version_of(transaction, server_version)
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
    return CoordinatorRecord(TransactionLogKey(transactional_id=transaction.transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the record that removes an expired transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def _by_topic(partitions: frozenset[TopicPartition]) -> list[TransactionLogValue.PartitionsSchema]:
    return [TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in _numbers_by_topic(partitions).items()]


def _numbers_by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the transaction of a record. Raises StorageError for an unknown state."""
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
