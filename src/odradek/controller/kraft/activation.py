"""What a controller writes when it becomes the active one (org.apache.kafka.controller.ActivationRecordsGenerator)."""

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
"""metadata.version 3.6-IV1 brought transactions of metadata records (KIP-868)."""


def activation_records(
    *, metadata_version: int | None, transaction_start: int | None, bootstrap: Sequence[VersionedRecord]
) -> list[VersionedRecord]:
    """Bootstrap records when the log holds no metadata.version yet, and the end of a transaction that a former controller left open.

    `metadata_version` is the finalized level, None while there is none.
    """
    records: list[VersionedRecord] = []
    if metadata_version is None:
        level = _bootstrap_level(bootstrap)
        transactional = level >= TRANSACTIONS_SINCE
        if transaction_start is not None:
            logger.info("Taking back the unfinished bootstrap transaction at offset %d", transaction_start)
            records.append(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
        logger.info("Writing %d bootstrap records, metadata.version %d", len(bootstrap), level)
        if transactional:
            records.append(VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0))
        records.extend(bootstrap)
        if transactional:
            records.append(VersionedRecord(EndTransactionRecord(), 0))
    elif transaction_start is not None:
        logger.info("Taking back the unfinished metadata transaction at offset %d", transaction_start)
        records.append(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
    return records


def _bootstrap_level(bootstrap: Sequence[VersionedRecord]) -> int:
    for record in bootstrap:
        if isinstance(record.message, FeatureLevelRecord) and record.message.name == METADATA_VERSION:
            return record.message.feature_level
    raise ValueError("the bootstrap records set no metadata.version")
