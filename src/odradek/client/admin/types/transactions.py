"""Transactions and producers, as an administrator sees them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from odradek.base.ids import TopicPartition


class TransactionState(StrEnum):
    """How far a transaction is, as Kafka spells it."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class ProducerState(NamedTuple):
    """A producer that wrote to a partition. `current_transaction_start_offset` is None without an open transaction, `coordinator_epoch`
    None when it never ended one, `last_timestamp` -1 when it only ended transactions."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator knows it; `transaction_start_time_ms` is None without an open transaction."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: frozenset[TopicPartition]


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class AbortTransactionSpec(NamedTuple):
    """A transaction that hangs in a partition, as `describe_producers` shows it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ProducerIdAndEpoch(NamedTuple):
    """What a fenced transactional id has now; whoever has an older epoch is turned away."""

    producer_id: int
    producer_epoch: int
