"""Transactions and producer ids."""

from __future__ import annotations

from odradek.config.definition import BOOLEAN, HIGH, INT, LOW, SHORT, Key, at_least

KEYS: tuple[Key, ...] = (
    Key("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", HIGH, "", at_least(0)),
    Key("add.partitions.to.txn.retry.backoff.ms", INT, "20", HIGH, "", at_least(1)),
    Key("producer.id.expiration.check.interval.ms", INT, "600000", LOW, "", at_least(1), internal=True),
    Key("producer.id.expiration.ms", INT, "86400000", LOW, "", at_least(1)),
    Key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", LOW, "", at_least(1)),
    Key("transaction.max.timeout.ms", INT, "900000", HIGH, "", at_least(1)),
    Key("transaction.partition.verification.enable", BOOLEAN, "true", LOW, ""),
    Key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", LOW, "", at_least(1)),
    Key("transaction.state.log.load.buffer.size", INT, "5242880", HIGH, "", at_least(1)),
    Key("transaction.state.log.min.isr", INT, "2", HIGH, "", at_least(1)),
    Key("transaction.state.log.num.partitions", INT, "50", HIGH, "", at_least(1)),
    Key("transaction.state.log.replication.factor", SHORT, "3", HIGH, "", at_least(1)),
    Key("transaction.state.log.segment.bytes", INT, "104857600", HIGH, "", at_least(1)),
    Key("transaction.two.phase.commit.enable", BOOLEAN, "false", LOW, ""),
    Key("transactional.id.expiration.ms", INT, "604800000", HIGH, "", at_least(1)),
)
