"""Keys of transactions and producer ids."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, HIGH, INT, LOW, SHORT, Key, at_least, keys_in

ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS: Final = Key(
    "add.partitions.to.txn.retry.backoff.max.ms",
    INT,
    "100",
    HIGH,
    "Longest pause before the broker retries to add partitions to a transaction, in ms.",
    at_least(0),
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS: Final = Key(
    "add.partitions.to.txn.retry.backoff.ms",
    INT,
    "20",
    HIGH,
    "First pause before the broker retries to add partitions to a transaction, in ms.",
    at_least(1),
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: Final = Key(
    "producer.id.expiration.check.interval.ms",
    INT,
    "600000",
    LOW,
    "Time between checks for expired producer ids, in ms.",
    at_least(1),
    internal=True,
)
PRODUCER_ID_EXPIRATION_MS: Final = Key(
    "producer.id.expiration.ms", INT, "86400000", LOW, "Time after which the state of an inactive producer is removed, in ms.", at_least(1)
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS: Final = Key(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    INT,
    "10000",
    LOW,
    "Time between checks for transactions that timed out, in ms.",
    at_least(1),
)
TRANSACTION_MAX_TIMEOUT_MS: Final = Key(
    "transaction.max.timeout.ms", INT, "900000", HIGH, "Longest transaction timeout that a producer may request, in ms.", at_least(1)
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE: Final = Key(
    "transaction.partition.verification.enable",
    BOOLEAN,
    "true",
    LOW,
    "Whether a partition verifies with the coordinator that it belongs to the transaction.",
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS: Final = Key(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    INT,
    "3600000",
    LOW,
    "Time between checks for expired transactional ids, in ms.",
    at_least(1),
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE: Final = Key(
    "transaction.state.log.load.buffer.size",
    INT,
    "5242880",
    HIGH,
    "Bytes read at a time while the transaction coordinator loads.",
    at_least(1),
)
TRANSACTION_STATE_LOG_MIN_ISR: Final = Key(
    "transaction.state.log.min.isr", INT, "2", HIGH, "Replicas of the transaction topic that must be in sync.", at_least(1)
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS: Final = Key(
    "transaction.state.log.num.partitions", INT, "50", HIGH, "Partitions of the transaction topic.", at_least(1)
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR: Final = Key(
    "transaction.state.log.replication.factor", SHORT, "3", HIGH, "Replicas of the transaction topic.", at_least(1)
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES: Final = Key(
    "transaction.state.log.segment.bytes", INT, "104857600", HIGH, "Largest segment of the transaction topic, in bytes.", at_least(1)
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE: Final = Key(
    "transaction.two.phase.commit.enable", BOOLEAN, "false", LOW, "Whether producers may use two-phase commit."
)
TRANSACTIONAL_ID_EXPIRATION_MS: Final = Key(
    "transactional.id.expiration.ms",
    INT,
    "604800000",
    HIGH,
    "Time after which an unused transactional id is removed, in ms.",
    at_least(1),
)

KEYS: Final = keys_in(globals())
