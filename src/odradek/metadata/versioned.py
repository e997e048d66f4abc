"""Metadata record with the version to write it in."""

from __future__ import annotations

from typing import NamedTuple


class VersionedRecord(NamedTuple):
    """Message of `protocol.messages.metadata_records` with the version to write it in (ApiMessageAndVersion)."""

    message: object
    version: int
