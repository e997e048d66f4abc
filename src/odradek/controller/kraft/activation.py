"""Records that a controller writes when it becomes active (org.apache.kafka.controller.ActivationRecordsGenerator)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

logger = logging.getLogger(__name__)

TRANSACTIONS_SINCE = 13
"""metadata.version of 3.6-IV1, since which metadata records may form transactions (KIP-868)."""


def activation_records(
    *, metadata_version: int | None, transaction_start: int | None, bootstrap: Sequence[VersionedRecord]
) -> list[VersionedRecord]:
    """Return the bootstrap records if the log has no metadata.version yet, and the abort of a transaction left open by a former controller.

    `metadata_version` is the finalized level, or None. Raises ValueError when both it and the bootstrap records set none.
    """
    records: list[VersionedRecord] = []
    if metadata_version is None:
        level = _bootstrap_level(bootstrap)
        transactional = level >= TRANSACTIONS_SINCE
        if transaction_start is not None:
            logger.info("Aborting the unfinished bootstrap transaction at offset %d", transaction_start)
            records.append(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
        logger.info("Writing %d bootstrap records, metadata.version %d", len(bootstrap), level)
        if transactional:
            records.append(VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0))
        records.extend(bootstrap)
        if transactional:
            records.append(VersionedRecord(EndTransactionRecord(), 0))
    elif transaction_start is not None:
        logger.info("Aborting the unfinished metadata transaction at offset %d", transaction_start)
        records.append(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
    return records


def _bootstrap_level(bootstrap: Sequence[VersionedRecord]) -> int:
    for record in bootstrap:
        if isinstance(record.message, FeatureLevelRecord) and record.message.name == METADATA_VERSION:
            return record.message.feature_level
    raise ValueError("the bootstrap records do not set metadata.version")
