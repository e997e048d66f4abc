"""`bootstrap.checkpoint`: the records that the first active controller of a cluster writes (KIP-778, BootstrapDirectory)."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.controller.kraft.records import (
    decode_batches,
    encode_control_values,
    encode_metadata_batch,
    snapshot_footer,
    snapshot_header,
)
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import FeatureLevelRecord

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


def encode_bootstrap(records: Sequence[VersionedRecord], now_ms: int) -> bytes:
    """Encode header, records and footer as separate batches in epoch 0."""
    header = encode_control_values([snapshot_header(0)], base_offset=0, epoch=0, now_ms=now_ms)
    body = encode_metadata_batch(records, base_offset=1, epoch=0, now_ms=now_ms) if records else b""
    footer = encode_control_values([snapshot_footer()], base_offset=1 + len(records), epoch=0, now_ms=now_ms)
    return header + body + footer


def read_bootstrap(disk: Disk, directory: str) -> list[VersionedRecord]:
    """Return the records, or an empty list without the file. Raises StorageError when the file does not set metadata.version."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return []
    records = [record for batch in decode_batches(disk.read_bytes(path)) for record in batch.records]
    if not any(isinstance(record.message, FeatureLevelRecord) and record.message.name == "metadata.version" for record in records):
        raise StorageError(f"{path} does not set metadata.version")
    return records
