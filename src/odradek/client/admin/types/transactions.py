"""Types of transactions and producers."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from odradek.base.ids import TopicPartition


class TransactionState(StrEnum):
    """State of a transaction, as Kafka spells it."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class ProducerState(NamedTuple):
    """Producer that wrote to a partition.

    Without an open transaction `current_transaction_start_offset` has the value None; so has `coordinator_epoch` if the producer never
    ended a transaction. `last_timestamp` is -1 if it only ended transactions.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class TransactionDescription(NamedTuple):
    """Transactional id as its coordinator knows it; `transaction_start_time_ms` has the value None without an open transaction."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: frozenset[TopicPartition]


class TransactionListing(NamedTuple):
    """Transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class AbortTransactionSpec(NamedTuple):
    """Transaction that hangs in a partition, as `describe_producers` shows it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class ProducerIdAndEpoch(NamedTuple):
    """Current producer id and epoch of a fenced transactional id; brokers refuse producers with an older epoch."""

    producer_id: int
    producer_epoch: int
