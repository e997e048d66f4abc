"""Keys of transactions and producer ids."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, HIGH, INT, LOW, SHORT, Key, at_least

KEYS: tuple[Key, ...] = (
    Key(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        "100",
        HIGH,
        "Longest pause between attempts to add partitions to a transaction on the broker's side, in ms.",
        at_least(0),
    ),
    Key(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        "20",
        HIGH,
        "First pause between attempts to add partitions to a transaction on the broker's side, in ms.",
        at_least(1),
    ),
    Key(
        "producer.id.expiration.check.interval.ms",
        INT,
        "600000",
        LOW,
        "Time between checks for expired producer ids, in ms.",
        at_least(1),
        internal=True,
    ),
    Key(
        "producer.id.expiration.ms",
        INT,
        "86400000",
        LOW,
        "Time after which the state of a silent producer is forgotten, in ms.",
        at_least(1),
    ),
    Key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        LOW,
        "Time between checks for transactions that timed out, in ms.",
        at_least(1),
    ),
    Key("transaction.max.timeout.ms", INT, "900000", HIGH, "Longest transaction timeout a producer may ask for, in ms.", at_least(1)),
    Key(
        "transaction.partition.verification.enable",
        BOOLEAN,
        "true",
        LOW,
        "Whether a partition checks with the coordinator that it belongs to a transaction.",
    ),
    Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        LOW,
        "Time between checks for expired transactional ids, in ms.",
        at_least(1),
    ),
    Key(
        "transaction.state.log.load.buffer.size",
        INT,
        "5242880",
        HIGH,
        "Bytes read at a time when the transaction coordinator loads.",
        at_least(1),
    ),
    Key("transaction.state.log.min.isr", INT, "2", HIGH, "Replicas of the transaction topic that must be in sync.", at_least(1)),
    Key("transaction.state.log.num.partitions", INT, "50", HIGH, "Partitions of the transaction topic.", at_least(1)),
    Key("transaction.state.log.replication.factor", SHORT, "3", HIGH, "Replicas of the transaction topic.", at_least(1)),
    Key("transaction.state.log.segment.bytes", INT, "104857600", HIGH, "Largest segment of the transaction topic.", at_least(1)),
    Key("transaction.two.phase.commit.enable", BOOLEAN, "false", LOW, "Whether producers may take part in two-phase commits."),
    Key(
        "transactional.id.expiration.ms",
        INT,
        "604800000",
        HIGH,
        "Time after which an unused transactional id is forgotten, in ms.",
        at_least(1),
    ),
)
