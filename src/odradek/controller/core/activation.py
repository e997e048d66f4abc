"""What a controller writes when it becomes the active one (org.apache.kafka.controller.ActivationRecordsGenerator).

1. A log without a metadata.version is empty but for control records: the bootstrap records are written, in a metadata transaction (KIP-868)
   where the level has them, after taking back one that a former controller left open.
2. Otherwise only such an open transaction is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

TRANSACTIONS_SINCE = 13
"""metadata.version 3.6-IV1."""


def activation_records(
    *, metadata_version: int | None, transaction_start: int | None, bootstrap: Sequence[VersionedRecord]
) -> list[VersionedRecord]:
    """`metadata_version` is the finalized level, None while there is none; `transaction_start` the offset of an open transaction."""
    records: list[VersionedRecord] = []
    if transaction_start is not None:
        records.append(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
    if metadata_version is not None:
        return records
    if bootstrap_level(bootstrap) < TRANSACTIONS_SINCE:
        return [*records, *bootstrap]
    begin = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
    return [*records, begin, *bootstrap, VersionedRecord(EndTransactionRecord(), 0)]


def bootstrap_level(bootstrap: Sequence[VersionedRecord]) -> int:
    """The metadata.version that bootstrap records set; ValueError when they set none."""
    for record in bootstrap:
        if isinstance(record.message, FeatureLevelRecord) and record.message.name == METADATA_VERSION:
            return record.message.feature_level
    raise ValueError("the bootstrap records set no metadata.version")
